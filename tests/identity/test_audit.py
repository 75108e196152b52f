"""The audit: a record for each decision, refusals counted, everything on one line."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from amux_hub import audit, logs
from amux_hub.audit import Audit


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def written() -> Iterator[list[logging.LogRecord]]:
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Keep()
    logger = logging.getLogger("amux_hub")
    logger.addHandler(handler)
    yield records
    logger.removeHandler(handler)


def fields(written: list[logging.LogRecord]) -> list[dict[str, object]]:
    return [logs.fields_of(record) for record in written]


def test_what_was_done_is_written_whatever_the_log_level_is(written: list[logging.LogRecord]) -> None:
    logs.set_level("error")
    try:
        Audit().did("upsert", uid=1001, principal="ann", path="a.md", revision="ab")
    finally:
        logs.set_level("info")
    expected = {"audit": "upsert", "outcome": "ok", "uid": 1001, "principal": "ann", "path": "a.md", "revision": "ab"}
    assert fields(written) == [expected]


def test_refusals_are_counted_by_uid_reason_and_second(written: list[logging.LogRecord]) -> None:
    clock = Clock()
    kept = Audit(clock)
    for number in range(1000):
        kept.refused("identify", 1001, "identity_refused", path=str(number))
    kept.refused("identify", 1002, "identity_refused")
    kept.refused("upsert", 1001, "conflict")
    assert not written
    clock.now += 1
    kept.refused("identify", 1001, "identity_refused", path="later")
    assert fields(written) == [
        {"audit": "identify", "outcome": "identity_refused", "uid": 1001, "path": "0", "count": 1000},
        {"audit": "identify", "outcome": "identity_refused", "uid": 1002, "count": 1},
        {"audit": "upsert", "outcome": "conflict", "uid": 1001, "count": 1},
    ]
    written.clear()
    kept.tick()
    kept.tick()
    assert [record["count"] for record in fields(written)] == [1]
    assert kept.refusals == {"identity_refused": 1002, "conflict": 1}


def test_a_flood_of_uids_takes_bounded_memory_and_loses_no_count(written: list[logging.LogRecord]) -> None:
    kept = Audit(Clock())
    for uid in range(audit.KINDS + 500):
        kept.refused("identify", uid, "identity_refused", path="x")
    kept.tick()
    assert len(written) == audit.KINDS + 1
    assert sum(int(str(record["count"])) for record in fields(written)) == audit.KINDS + 500
    assert fields(written)[-1] == {"audit": "identify", "outcome": "identity_refused", "uid": -1, "count": 500}


def test_a_record_is_one_escaped_line(written: list[logging.LogRecord]) -> None:
    Audit().did("upsert", path="a\nb\x1b[31m\u202e.md", account="x y")
    line = logs.LineFormatter().format(written[0])
    assert "\n" not in line and "\x1b" not in line and "\u202e" not in line
    assert " upsert: ok path=" in line and line.endswith(" account='x y'")
