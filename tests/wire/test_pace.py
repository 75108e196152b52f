"""Limits per UID beside connections: requests a second, and bytes of messages that are not complete (threat S5)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.admission import Admission, Limits
from amux_hub.pace import KEPT, Pace
from tests.harness import Hub, until

ALICE, BOB = 1001, 1002


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_gives_its_burst_then_its_rate_and_to_each_uid_apart() -> None:
    clock = Clock()
    pace = Pace(lambda: 10, clock)
    assert [pace.take(ALICE) for _ in range(20)] == [0.0] * 20
    assert pace.take(ALICE) == pytest.approx(0.1)
    assert pace.take(BOB) == 0.0
    clock.now += 0.1
    assert pace.take(ALICE) == 0.0
    assert pace.take(ALICE) > 0
    clock.now += 3600
    assert sum(pace.take(ALICE) == 0.0 for _ in range(100)) == 20


def test_no_rate_is_no_limit_and_buckets_are_bounded() -> None:
    assert all(Pace(lambda: 0).take(ALICE) == 0.0 for _ in range(10_000))
    pace = Pace(lambda: 1, Clock())
    for uid in range(KEPT + 100):
        pace.take(uid)
    assert len(pace._buckets) == KEPT


def test_connecting_anew_buys_no_requests() -> None:
    async def main() -> None:
        admission = Admission(Limits(rate_per_uid=5, request_wait=0.01))
        served = 0
        for _ in range(50):
            admission.connect(ALICE)
            if admission.enter(ALICE):
                served += 1
                admission.leave(ALICE)
            admission.disconnect(ALICE)
        assert served == 10
        admission.connect(ALICE)
        with pytest.raises(AmuxError) as caught:
            await admission.wait(ALICE)
        assert caught.value.code == "busy" and caught.value.details["limit"] == "limits.rate_per_uid"
        admission.disconnect(ALICE)
        assert admission.requests == 0 and not admission._uids
        assert admission.enter(BOB)

    asyncio.run(main())


def test_who_is_too_fast_waits_and_is_served(tmp_path: Path) -> None:
    config = {"limits": {"rate_per_uid": 50}}
    with Hub(tmp_path, config=config) as hub, hub.connect("hub") as channel:
        answers = [channel.call("io.amux.Hub.WhoAmI") for _ in range(150)]
        assert all("parameters" in answer and "error" not in answer for answer in answers)
        status = channel.call("io.amux.Hub.GetStatus")["parameters"]
        assert status["requests_refused"] == 0


def test_a_drain_tells_who_waits_for_the_pace() -> None:
    async def main() -> None:
        admission = Admission(Limits(rate_per_uid=1, request_wait=30))
        while admission.enter(ALICE):
            admission.leave(ALICE)
        waiting = asyncio.create_task(admission.wait(ALICE))
        await asyncio.sleep(0)
        admission.drain()
        with pytest.raises(AmuxError) as caught:
            await waiting
        assert caught.value.code == "shutting_down"
        assert not admission._uids

    asyncio.run(main())


_PART = b'{"method": "' + b"x" * (300 * 1024)


@pytest.mark.parametrize("name", ["hub", "mcp"])
def test_s5_unfinished_messages_of_one_uid_are_bounded_over_its_connections(name: str, tmp_path: Path) -> None:
    config = {"limits": {"input_bytes_per_uid": 1 << 20}, "timeouts": {"frame": 60, "first_frame": 60}}
    with Hub(tmp_path, config=config) as hub:
        held: list[socket.socket] = []
        for _ in range(4):
            channel = hub.connect(name)
            if name == "mcp":
                channel.socket.sendall(b'{"amux":1}\n')
                assert channel.socket.recv(4096)
            held.append(channel.socket)
            with contextlib.suppress(BrokenPipeError):  # it is refused before it sent everything
                channel.socket.sendall(_PART)
        held[3].settimeout(30)
        assert b"limits.input_bytes_per_uid" in held[3].recv(8192)
        for connected in held:
            connected.close()
        with hub.connect("hub") as again:
            status = "io.amux.Hub.GetStatus"
            until(lambda: again.call(status)["parameters"]["connections"] == 1, "the Hub saw the others close")
            for _ in range(5):  # what was held was given back
                call = {"path": "a.md", "content": "x" * 300_000, "expected_revision": "absent"}
                assert "LimitExceeded" in again.call("io.amux.Memory.Upsert", **call)["error"]
