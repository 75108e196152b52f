"""Logs: one record a line or datagram, journal fields, a bounded flood, and never what is remembered."""

from __future__ import annotations

import logging
import os
import socket
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux_hub import logs
from tests.service.conftest import MakeHub


def _record(message: str, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    record = logging.LogRecord("amux_hub.wire", level, "/x/protocol.py", 7, message, None, None, "serve")
    record.amux = fields
    return record


@given(st.text(), st.text())
def test_a_record_is_one_line_whatever_it_holds(message: str, value: str) -> None:
    line = logs.LineFormatter().format(_record(message, uid=7, what=value))
    assert len(line.splitlines()) == 1
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in line)
    assert " info wire: " in line and " uid=7" in line


def test_a_traceback_stays_on_the_line() -> None:
    record = _record("failed", logging.ERROR)
    try:
        raise ZeroDivisionError("x")
    except ZeroDivisionError:
        record.exc_info = sys.exc_info()
    line = logs.LineFormatter().format(record)
    assert "ZeroDivisionError" in line and len(line.splitlines()) == 1


def _fields(data: bytes) -> dict[str, str]:
    """https://systemd.io/JOURNAL_NATIVE_PROTOCOL/, read back."""
    found = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (size,) = struct.unpack("<Q", rest[:8])
            value, rest = rest[8 : 8 + size], rest[9 + size :]
        found[name.decode()] = value.decode("utf-8", "replace")
        data = rest
    return found


def test_the_journal_gets_fields_over_its_native_protocol(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        handler = logs.JournalHandler(str(tmp_path / "journal"))
        handler.handle(_record("two\nlines\nFORGED=1", logging.WARNING, uid=7, **{"odd name": "x\nFORGED=2"}))
        found = _fields(journal.recv(65536))
    assert found["MESSAGE"] == "two\\u000alines\\u000aFORGED=1 uid=7 odd name=x\\u000aFORGED=2"
    assert "FORGED" not in found
    assert (found["PRIORITY"], found["AMUX_UID"], found["AMUX_ODD_NAME"]) == ("4", "7", "x\nFORGED=2")
    assert (found["SYSLOG_IDENTIFIER"], found["CODE_LINE"]) == ("amux-hub", "7")
    handler.handle(_record("nobody listens"))  # never raises
    handler.close()


def test_journal_stream_must_name_what_standard_error_is() -> None:
    status = os.fstat(2)
    assert logs.journal_is_stderr({"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
    assert not logs.journal_is_stderr({"JOURNAL_STREAM": "1:1"})
    assert not logs.journal_is_stderr({})


def test_a_flood_of_one_kind_is_counted_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("amux_hub.logs.time.monotonic", lambda: now)
    throttle = logs.Throttle()
    assert throttle.admit("a") == 0
    assert [throttle.admit("a") for _ in range(100)] == [None] * 100
    assert throttle.admit("b") == 0
    now += throttle.SECONDS
    assert throttle.admit("a") == 100
    for kind in range(throttle.KINDS * 3):
        throttle.admit(kind)
    assert len(throttle._seen) <= throttle.KINDS


def test_no_log_level_shows_what_is_remembered_or_searched(make_hub: MakeHub) -> None:
    hub = make_hub(mcp=True, config={"log": {"level": "debug"}}).start()
    with hub.connect() as channel:
        for method, parameters in (
            ("Upsert", {"path": "secretpath.md", "content": "secretcontent", "expected_revision": "absent"}),
            ("Get", {"path": "secretpath.md"}),
            ("Search", {"query": "secretcontent secretquery"}),
            ("Upsert", {"path": "secretpath.md", "content": "secretother", "expected_revision": "absent"}),
            ("Forget", {"path": "secretpath.md", "expected_revision": "secretrevision"}),
        ):
            channel.call(f"io.amux.Memory.{method}", **parameters)
        channel.send(b'{"secretkey":\0')
        channel.receive()
    hub.stop()
    assert "call io.amux.Memory.Upsert" in hub.stderr
    assert "secret" not in hub.stderr.lower().replace(str(hub.directory).lower(), "")
