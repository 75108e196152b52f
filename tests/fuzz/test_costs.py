"""Parts that one caller can make expensive for all: linear time, memory given back, turns for the others."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path
from typing import Any

import pytest

from amux.errors import AmuxError
from amux_hub.admission import Admission
from amux_hub.identity import Caller, Peer
from amux_hub.mcp.calls import Session
from amux_hub.mcp.lines import Lines
from amux_hub.mcp.preamble import Preamble
from amux_hub.memory import Memory
from amux_hub.store import Store, text
from amux_hub.wire.accept import Connection
from amux_hub.wire.transport import Timeouts

_MIB = 1024 * 1024


@pytest.mark.parametrize(
    "marks",
    ["\u0300\u0316", "\u0316\u0300", "\u0f73", "\U0001d165\u0316", "\u0345\u0334", "a\u0300" + "\u0300\u0316" * 9],
)
def test_s6_folding_takes_linear_time(marks: str) -> None:
    """A few MiB of combining marks: sorting them all at once would take hours, not fail."""
    long = marks * (2 * _MIB // len(marks))
    assert len(text.match_key(long)) >= _MIB
    down = "\u0300" * _MIB + "\u0316" * _MIB
    assert len(text.match_key(down)) >= 2 * _MIB


def test_folding_leaves_what_people_write_as_the_rule_says() -> None:
    """NFC(casefold(NFC(text))) up to 29 marks in a row; and text that has more is found by itself."""
    assert text.match_key("E\u0301" + "\u0316" * 28) == text.match_key("É" + "\u0316" * 28)
    assert text.match_key("e\u0316\u0301") == text.match_key("e\u0301\u0316")
    assert "\u034f" not in text.match_key("x" + "\u0301" * 29 + "y" + "\u0301" * 29)
    assert text.match_key("x" + "\u0301" * 300) == text.match_key("X" + "\u0301" * 300)


@pytest.mark.parametrize("line", [b"`" * _MIB + b"x`", b"`" * _MIB + b"x" * _MIB + b"`", b"~" * _MIB, b" " * _MIB])
def test_s6_finding_a_title_takes_linear_time(line: bytes) -> None:
    assert text.title_of(line + b"\n# title\n") == ("" if line.startswith(b"~") else "title")


def test_s5_messages_that_arrive_together_leave_turns_to_others() -> None:
    """However many lines are buffered, the loop goes round between two of them."""

    async def taking() -> tuple[int, int]:
        ours, theirs = socket.socketpair()
        lines = await Lines.open(ours, Timeouts())
        theirs.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(theirs, b"\n" * 2000 + b"x" * 10)
        await lines.next_line()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            handle[0] = asyncio.get_running_loop().call_soon(turn)

        handle = [asyncio.get_running_loop().call_soon(turn)]
        for _ in range(1999):
            assert await lines.next_line() == b""
        handle[0].cancel()
        theirs.close()
        lines.abort()
        return turns, 1999

    turns, lines = asyncio.run(taking())
    assert turns >= lines - 1


class _Owner:
    async def identify(self, peer: Peer) -> Caller:
        return Caller(1000, "u", "u", "global", administrator=True)

    def known(self, _peer: Peer) -> Caller | None:
        return None


@pytest.mark.parametrize(
    "parameters",
    [
        {"path": "a.md", "content": "x" * 70_000, "expected_revision": "absent"},
        {"path": "../a.md", "content": "x", "expected_revision": "absent"},
        {"path": "a.md", "content": "x", "expected_revision": "0" * 64},
    ],
    ids=["limit", "path", "conflict"],
)
def test_s6_a_refused_call_keeps_nothing_of_what_was_sent(tmp_path: Path, parameters: dict[str, Any]) -> None:
    """No cycle of references: half a MiB each would lie about until the collector comes by."""

    async def refused() -> int:
        memory = Memory(Store(str(tmp_path / "home"), _MIB, 0), enabled=True)
        connection = Connection(Peer(1, 1000, 1000), _Owner(), Admission())
        session = Session(memory, connection, Preamble(), end=lambda: None)

        async def one() -> None:
            with pytest.raises(AmuxError):
                await memory.call(connection.caller, "upsert", parameters)
            assert (await session.call("amux.memory_upsert", dict(parameters)))[1]

        await one()
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await one()
            return gc.collect()
        finally:
            gc.enable()
            memory.close()

    (tmp_path / "home").mkdir(mode=0o700)
    assert asyncio.run(refused()) == 0
