"""Structured logs: journal fields under systemd, one line a record elsewhere.

Promises: a record is one line (or one datagram) whatever a client sent, `extra={"amux": {...}}` becomes
fields `AMUX_*`, and logging never raises into the code that logs. Nobody passes memory text, queries or
document paths to it: that is the caller's duty, and no formatter can check it.

Journal: systemd.journal-fields(7) and https://systemd.io/JOURNAL_NATIVE_PROTOCOL/; whether standard error is
the journal is told by JOURNAL_STREAM, systemd.exec(5).
"""

from __future__ import annotations

import logging
import os
import re
import socket
import struct
import sys
import time
from collections.abc import Mapping

JOURNAL_SOCKET = "/run/systemd/journal/socket"
_FIELD_BYTES = 8 * 1024
_PRIORITIES = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The fields that the caller gave, by lower-case name."""
    fields = getattr(record, "amux", None)
    return dict(fields) if isinstance(fields, Mapping) else {}


def escape(text: str) -> str:
    """`text` on one line: control and bidirectional control characters as escapes."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _suffix(record: logging.LogRecord) -> str:
    """The fields as a person reads them behind the text: ` key=value` for each."""
    shown = ""
    for name, value in fields_of(record).items():
        if name in ("audit", "outcome"):
            continue  # they are the text
        text = str(value)
        shown += f" {name}={text}" if text and " " not in text and '"' not in text else f" {name}={text!r}"
    return shown


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00Z info service: text key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        module = record.name.removeprefix("amux_hub.")
        line = f"{stamp} {record.levelname.lower()} {module}: {record.getMessage()}{_suffix(record)}"
        if record.exc_info:
            line += " trace=" + repr(self.formatException(record.exc_info))
        return escape(line)


class JournalHandler(logging.Handler):
    """Sends each record as one datagram, without ever blocking the loop: what does not fit is lost."""

    def __init__(self, address: str = JOURNAL_SOCKET) -> None:
        super().__init__()
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self.lost = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._socket.sendto(self.encode(record), self._address)
        except OSError:
            self.lost += 1
        except Exception:  # noqa: BLE001 - logging must never raise into the code that logs
            self.handleError(record)

    def encode(self, record: logging.LogRecord) -> bytes:
        fields: dict[str, object] = {
            "MESSAGE": escape(record.getMessage() + _suffix(record)),
            "PRIORITY": next((number for level, number in _PRIORITIES if record.levelno >= level), 7),
            "SYSLOG_IDENTIFIER": "amux-hub",
            "AMUX_LOGGER": record.name,
            "CODE_FILE": record.pathname,
            "CODE_LINE": record.lineno,
            "CODE_FUNC": record.funcName,
        }
        for name, value in fields_of(record).items():
            fields["AMUX_" + re.sub(r"[^A-Z0-9]", "_", name.upper())] = value
        if record.exc_info:
            fields["AMUX_TRACEBACK"] = logging.Formatter().formatException(record.exc_info)
        return b"".join(_field(name, str(value)) for name, value in fields.items())


def _field(name: str, value: str) -> bytes:
    data = value.encode("utf-8", "backslashreplace")[:_FIELD_BYTES]
    if b"\n" in data:
        return name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
    return name.encode() + b"=" + data + b"\n"


def journal_is_stderr(env: Mapping[str, str]) -> bool:
    """Whether JOURNAL_STREAM names what standard error is."""
    try:
        status = os.fstat(2)
    except OSError:
        return False
    return env.get("JOURNAL_STREAM", "") == f"{status.st_dev}:{status.st_ino}"


def setup(level: str, env: Mapping[str, str]) -> None:
    """Send the records of the whole process to the journal or to standard error, from `level` on."""
    handler: logging.Handler
    if journal_is_stderr(env) and os.path.exists(JOURNAL_SOCKET):
        handler = JournalHandler()
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(LineFormatter())
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)  # what libraries say; ours is set below
    set_level(level)


def lost() -> int:
    """Records that the journal did not take since the start."""
    return sum(one.lost for one in logging.getLogger().handlers if isinstance(one, JournalHandler))


def is_journal() -> bool:
    """Whether `setup` chose the journal."""
    return any(isinstance(handler, JournalHandler) for handler in logging.getLogger().handlers)


def set_level(level: str) -> None:
    logging.getLogger("amux_hub").setLevel(level.upper())


class Throttle:
    """Lets one record of a kind through a minute, so that a flood of refusals cannot flood the log."""

    SECONDS = 60.0
    KINDS = 1024

    def __init__(self) -> None:
        self._seen: dict[object, tuple[float, int]] = {}

    def admit(self, kind: object) -> int | None:
        """How many of this kind were held back since the last that was let through; None: hold this one back."""
        now = time.monotonic()
        since, held = self._seen.get(kind, (-self.SECONDS, 0))
        if now - since < self.SECONDS:
            self._seen[kind] = (since, held + 1)
            return None
        if len(self._seen) >= self.KINDS:
            self._seen.clear()
        self._seen[kind] = (now, 0)
        return held
