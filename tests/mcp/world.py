"""One McpServer in the test's own loop, over socket pairs, with people whom only the test knows."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from amux.errors import AmuxError
from amux_hub.admission import Admission
from amux_hub.identity import Caller, Peer, scope_of
from amux_hub.mcp.server import McpServer
from amux_hub.memory import Memory
from amux_hub.store import Store
from amux_hub.wire.transport import Timeouts
from tests.mcp.peers import HANDSHAKE

Answer = dict[str, Any]


class MadeUp:
    """A connection of somebody whom only this test knows."""

    def __init__(self, uid: int, principal: str, admission: Admission) -> None:
        self.peer = Peer(os.getpid(), uid, uid)
        self.refused = False
        self._who = Caller(uid, principal, principal, scope_of(principal, isolation=True), administrator=False)
        self._admission = admission

    async def caller(self) -> Caller:
        if self.refused:
            raise AmuxError("identity_refused", "retired a moment ago", uid=self.peer.uid)
        return self._who

    def hold(self, size: int) -> None:
        """No limit here."""

    def moved(self, connected: socket.socket) -> None:
        """Nobody ends it from outside."""

    def request(self) -> contextlib.AbstractAsyncContextManager[None]:
        return self._admission.request(self.peer.uid)


class Talk:
    """The client's end of a socket pair."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    def send(self, message: Any) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def line(self, message: Any) -> Answer | None:
        """Send one line, wait for the next that comes; None at the end."""
        self.send(message)
        line = await self._reader.readline()
        return None if not line else dict(json.loads(line))

    async def rpc(self, method: str, parameters: Answer) -> Answer | None:
        self._number += 1
        return await self.line({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})

    async def tool(self, tool: str, **arguments: Any) -> Answer:
        answer = await self.rpc("tools/call", {"name": f"amux.{tool}", "arguments": arguments})
        assert answer is not None
        return dict(json.loads(answer["result"]["content"][0]["text"]))

    async def ended(self) -> bool:
        return await self._reader.read() == b""

    def close(self) -> None:
        self._writer.close()


class World:
    """A server in this loop, and people who connect to it."""

    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700)
        self.admission = Admission()
        self.memory = Memory(Store(str(home), 1 << 24, 0), enabled=True)
        self.server = McpServer(self.memory, self.admission, Timeouts())

    @contextlib.asynccontextmanager
    async def connect(self, person: MadeUp, **greeting: str) -> AsyncIterator[Talk]:
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(self.server.serve(theirs, person))
        talk = Talk(*await asyncio.open_unix_connection(sock=ours))
        answer = await talk.line({"amux": 1, **greeting})
        assert answer is not None
        if "error" in answer:
            yield_error = answer["error"]
            talk.close()
            await serving
            raise AmuxError(yield_error["code"], yield_error["message"])
        await talk.rpc("initialize", HANDSHAKE)
        yield talk
        talk.close()
        await serving


def in_world(tmp_path: Path, test: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(tmp_path / "home")
        try:
            async with asyncio.timeout(60):
                await test(world)
        finally:
            world.memory.close()

    asyncio.run(run())
