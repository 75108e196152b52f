"""For the conformance suite alone, which speaks HTTP: the Hub's own server object behind the SDK's HTTP transport.

    python -m tests.clients.httpshim DIRECTORY      prints the URL, serves on loopback until it is ended

The product has no HTTP: `amux_hub` imports nothing of this.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn

from amux_hub.admission import Admission
from amux_hub.identity import Caller, OwnerIdentity, Peer
from amux_hub.mcp.calls import Session
from amux_hub.mcp.preamble import Preamble
from amux_hub.mcp.server import sdk_server
from amux_hub.memory import Memory
from amux_hub.store import Store


class Loopback:
    """A connection of ourselves, as the service would make it from an accepted socket."""

    def __init__(self) -> None:
        self.peer = Peer(os.getpid(), os.getuid(), os.getgid())
        self._identity = OwnerIdentity(isolation=False)
        self._admission = Admission()

    async def caller(self) -> Caller:
        return await self._identity.identify(self.peer)

    def hold(self, size: int) -> None:
        """No limit here."""

    def moved(self, connected: socket.socket) -> None:
        """Nobody ends it from outside."""

    def request(self) -> contextlib.AbstractAsyncContextManager[None]:
        return self._admission.request(self.peer.uid)


def main(home: str) -> None:
    os.makedirs(home, mode=0o700, exist_ok=True)
    memory = Memory(Store(home, 1 << 24, 0), enabled=True)
    server = sdk_server()

    @contextlib.asynccontextmanager
    async def one_session(_: Any) -> AsyncIterator[Session]:
        yield Session(memory, Loopback(), Preamble(), lambda: None)

    server.lifespan = one_session
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).run([listener])


if __name__ == "__main__":
    main(sys.argv[1])
