"""How much of a client is taken at once, and what a call that nobody waits for any more still holds."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amux_hub.mcp.lines import Lines
from amux_hub.mcp.streams import IN_FLIGHT, Incoming
from amux_hub.memory import Memory
from amux_hub.wire.transport import Timeouts
from tests.mcp.world import MadeUp, World, in_world


def test_no_more_than_16_requests_are_taken_before_one_is_answered() -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair()
        lines = await Lines.open(theirs, Timeouts())
        incoming = Incoming(lines)
        for number in range(IN_FLIGHT + 2):
            ours.sendall(json.dumps({"jsonrpc": "2.0", "id": number, "method": "ping"}).encode() + b"\n")
        for _ in range(IN_FLIGHT):
            await incoming.receive()
        another = asyncio.create_task(incoming.receive())
        for _ in range(10):  # its line is there already: it would need one turn
            await asyncio.sleep(0)
        assert not another.done()
        incoming.answered(1)
        message = await another
        assert not isinstance(message, Exception)
        ours.close()
        await lines.finish()

    assert IN_FLIGHT == 16
    asyncio.run(check())


class Slow:
    """A memory whose calls end when the test says so."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.ended = 0

    async def call(self, who: Callable[[], Awaitable[Any]], method: str, parameters: Mapping[str, object]) -> Any:
        self.begun.set()
        await self.go_on.wait()
        self.ended += 1
        return {}


def test_a_cancelled_call_keeps_its_slot_until_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(world: World) -> None:
        slow = Slow()
        monkeypatch.setattr(Memory, "call", lambda _, *arguments: slow.call(*arguments))
        async with world.connect(MadeUp(4001, "alice", world.admission)) as talk:
            call = {"name": "amux.memory_get", "arguments": {"path": "a.md"}}
            talk.send({"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": call})
            await slow.begun.wait()
            talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "call"}})
            # The ping is answered behind the cancellation, which has no answer.
            assert await talk.line({"jsonrpc": "2.0", "id": "ping", "method": "ping"}) == {
                "jsonrpc": "2.0",
                "id": "ping",
                "result": {},
            }
            assert (world.admission.requests, slow.ended) == (1, 0)
            slow.go_on.set()
            while world.admission.requests:  # noqa: ASYNC110 - nothing tells but the count itself
                await asyncio.sleep(0.001)
            assert slow.ended == 1

    in_world(tmp_path, check)
