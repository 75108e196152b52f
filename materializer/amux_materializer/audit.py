"""The helper's own audit: one record a launch, its end, a refusal, in the journal.

Promises: a record is one line whatever a child said; a full journal never blocks a launch, and what was lost is counted
in the next record. Fields are AMUX_*, systemd.journal-fields(7), https://systemd.io/JOURNAL_NATIVE_PROTOCOL/; where
standard error is not the journal (JOURNAL_STREAM, systemd.exec(5)), lines go there.
"""

from __future__ import annotations

import os
import re
import socket
import sys
import time

JOURNAL = "/run/systemd/journal/socket"
HOLD_SECONDS = 1.0
"""One UID's refusals within it are one record and one count."""

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
        self._held: dict[int, tuple[float, int]] = {}
        """UID → when its next refusal is a record again, and how many were held back until now."""

    def launch(self, uid: int, run: str) -> None:
        self._write(6, f"launch: uid={uid} run={run}", {"AUDIT": "launch", "UID": str(uid), "RUN": run})

    def end(self, uid: int, run: str) -> None:
        self._write(6, f"end: uid={uid} run={run}", {"AUDIT": "end", "UID": str(uid), "RUN": run})

    def refused(self, uid: int, reason: str) -> None:
        """A request that made no launch."""
        self.flush()
        if uid in self._held:
            until, held = self._held[uid]
            self._held[uid] = until, held + 1
            return
        self._held[uid] = time.monotonic() + HOLD_SECONDS, 0
        fields = {"AUDIT": "refused", "UID": str(uid), "DETAIL": reason}
        self._write(4, f"refused: uid={uid} ({reason})", fields)

    def flush(self) -> float | None:
        """Write the counts whose time is over; the seconds until the next one is, None if there is none."""
        now = time.monotonic()
        for uid, (until, held) in list(self._held.items()):
            if until <= now:
                del self._held[uid]
                if held:
                    fields = {"AUDIT": "refused", "UID": str(uid), "HELD": str(held)}
                    self._write(4, f"refused: uid={uid}, {held} more within {HOLD_SECONDS:g} s", fields)
        return max(0.0, min(until for until, _ in self._held.values()) - now) if self._held else None

    def trouble(self, text: str) -> None:
        self._write(3, text, {"AUDIT": "trouble"})

    def _write(self, priority: int, text: str, fields: dict[str, str]) -> None:
        if self._lost:
            fields = {**fields, "LOST": str(self._lost)}
        journal = {"MESSAGE": text, "PRIORITY": str(priority), "SYSLOG_IDENTIFIER": "amux-materializer"}
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
