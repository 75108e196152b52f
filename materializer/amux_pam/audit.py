"""The helper's own audit: one record a verdict, one a refused or malformed question, in the journal.

Promises: a record is one line whatever a name holds; a full journal never blocks a verdict, and what was lost is
counted in the next record. Fields are AMUX_*, systemd.journal-fields(7), https://systemd.io/JOURNAL_NATIVE_PROTOCOL/;
where standard error is not the journal (JOURNAL_STREAM, systemd.exec(5)), lines go there.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time

JOURNAL = "/run/systemd/journal/socket"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def escape(text: str) -> str:
    """`text` on one line: control characters and those that reverse its direction as escapes."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Audit:
    """Made before the environment is cleared."""

    def __init__(self) -> None:
        self._journal = _stderr_is_journal()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._lost = 0
        self._refused_at = 0.0
        self._held = 0

    def verdict(self, uid: int, word: str, name: str, detail: str) -> None:
        text = f"verdict: uid={uid} name={name!r} class={word} ({detail})"
        self._write(6, text, {"AUDIT": "verdict", "UID": str(uid), "NAME": name, "CLASS": word, "DETAIL": detail})

    def refused(self, uid: int, reason: str) -> None:
        """A question that is not answered. One record a second; the others are counted in the next one."""
        now = time.monotonic()
        if self._refused_at and now - self._refused_at < 1:
            self._held += 1
            return
        text = f"refused: peer uid={uid} ({reason}), {self._held} more before it"
        fields = {"AUDIT": "refused", "UID": str(uid), "DETAIL": reason, "HELD": str(self._held)}
        self._refused_at, self._held = now, 0
        self._write(4, text, fields)

    def trouble(self, text: str) -> None:
        self._write(3, text, {"AUDIT": "trouble"})

    def _write(self, priority: int, text: str, fields: dict[str, str]) -> None:
        if self._lost:
            fields = {**fields, "LOST": str(self._lost)}
        journal = {"MESSAGE": text, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "amux-pam"}
        journal |= {f"AMUX_{name}": value for name, value in fields.items()}
        lines = "".join(f"{name}={escape(value)}\n" for name, value in journal.items())
        try:
            if self._journal:
                self._socket.sendto(lines.encode(), JOURNAL)
            else:
                sys.stderr.write(escape(text) + "\n")
                sys.stderr.flush()
            self._lost = 0
        except OSError:
            self._lost += 1


def _stderr_is_journal() -> bool:
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}" and os.path.exists(JOURNAL)
