"""Admission by itself: order, giving up, resizing; and accepting without a descriptor left."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.admission import Admission, Limits
from amux_hub.identity import OwnerIdentity
from amux_hub.wire import accept, reply
from amux_hub.wire.accept import Connection, Listener

ALICE = 1001


def test_c44_waiters_are_admitted_in_order_and_nobody_overtakes_them() -> None:
    async def main() -> None:
        admission = Admission(Limits(requests_per_uid=1, request_wait=30))
        admitted: list[int] = []

        async def one(number: int) -> None:
            async with admission.request(ALICE):
                admitted.append(number)
                await asyncio.sleep(0)

        assert admission.enter(ALICE)
        tasks = [asyncio.create_task(one(number)) for number in range(5)]
        await asyncio.sleep(0)
        admission.limits.requests_per_uid = 2  # not yet told: still nobody overtakes
        assert not admission.enter(ALICE)
        assert admission.enter(ALICE + 1)
        admission.leave(ALICE + 1)
        admission.resize()
        assert admission.requests == 2
        admission.leave(ALICE)
        await asyncio.gather(*tasks)
        assert admitted == [0, 1, 2, 3, 4]
        assert admission.requests == 0 and not admission._uids

    asyncio.run(main())


def test_c44_who_gives_up_leaves_the_queue() -> None:
    async def main() -> None:
        admission = Admission(Limits(requests_per_uid=1, request_wait=0.01))
        assert admission.enter(ALICE)
        with pytest.raises(AmuxError) as caught:
            await admission.wait(ALICE)
        assert caught.value.code == "busy"
        assert not admission._uids[ALICE].waiting
        waiting = asyncio.create_task(admission.wait(ALICE))
        await asyncio.sleep(0)
        admission.leave(ALICE)  # admits it in the moment in which it is cancelled
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert admission.requests == 0 and not admission._uids
        assert admission.counters.requests_refused == 1

    asyncio.run(main())


def test_a_drain_tells_everybody_who_waits() -> None:
    async def main() -> None:
        admission = Admission(Limits(requests_per_uid=1))
        assert admission.enter(ALICE)
        waiting = [asyncio.create_task(admission.wait(ALICE)) for _ in range(3)]
        await asyncio.sleep(0)
        admission.drain()
        for answer in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(answer, AmuxError) and answer.code == "shutting_down"
        with pytest.raises(AmuxError, match="stopping"):
            await admission.wait(ALICE + 1)
        admission.leave(ALICE)
        assert admission.requests == 0 and not admission._uids

    asyncio.run(main())


class _Exhausted(socket.socket):
    """A listening socket of a process without descriptors, or one that fails otherwise."""

    attempted: asyncio.Event
    errno = errno.EMFILE

    def accept(self) -> tuple[socket.socket, object]:
        self.attempted.set()
        raise OSError(self.errno, os.strerror(self.errno))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOMEM, errno.EINVAL, errno.EPERM])
def test_c45_accepting_rests_instead_of_spinning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(accept, "PAUSE_SECONDS", 0.05)

    async def main() -> None:
        served = asyncio.Event()

        def begin(connected: socket.socket, connection: Connection) -> None:
            served.set()
            connected.close()
            connection.release()

        with _Exhausted(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
            listening.attempted, listening.errno = asyncio.Event(), number
            listening.bind(str(tmp_path / "s"))
            listening.listen()
            admission = Admission()
            identity = OwnerIdentity(isolation=False)
            listener = Listener("hub", listening, identity, admission, begin, reply.encode_failure)
            listener.start()
            client.connect(str(tmp_path / "s"))
            await listening.attempted.wait()
            assert not asyncio.get_running_loop().remove_reader(listening), "the loop would spin on the backlog"
            monkeypatch.setattr(_Exhausted, "accept", socket.socket.accept)
            await served.wait()
            listener.stop()
            assert admission.connections == 0

    asyncio.run(asyncio.wait_for(main(), 30))
