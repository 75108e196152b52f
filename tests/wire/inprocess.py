"""The wire in this process: our own accept, admission and protocol around made-up people and a made-up memory.

Who connects is decided by which socket they connect to: that is the one thing that a test without root cannot
have from the kernel. Everything else is the real code on real sockets, on a loop in a thread of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from amux.errors import AmuxError
from amux_hub import interfaces, sockets
from amux_hub.administration import Administration
from amux_hub.admission import Admission, Limits
from amux_hub.config import Config
from amux_hub.identity import Caller, Peer, refuse_nobody, scope_of
from amux_hub.sessions import Sessions
from amux_hub.wire import accept, reply
from amux_hub.wire.accept import Listener
from amux_hub.wire.server import VarlinkServer
from amux_hub.wire.transport import Timeouts
from tests.harness import Channel

if TYPE_CHECKING:
    from amux_hub.memory import Memory
    from amux_hub.store import Store

PEOPLE = {"alice": 1001, "bob": 1002, "nobody": 65534, "mallory": 6666}


class MadeUpIdentity:
    """Alice and Bob are served; the others are not."""

    async def identify(self, peer: Peer) -> Caller:
        refuse_nobody(peer)
        name = {uid: name for name, uid in PEOPLE.items()}.get(peer.uid, "")
        if name not in ("alice", "bob"):
            raise AmuxError("identity_refused", f"UID {peer.uid} is not served")
        return Caller(peer.uid, name, name, scope_of(name, isolation=True), administrator=False)

    def known(self, peer: Peer) -> Caller | None:
        name = {uid: name for name, uid in PEOPLE.items()}.get(peer.uid, "")
        if name not in ("alice", "bob"):
            return None
        return Caller(peer.uid, name, name, scope_of(name, isolation=True), administrator=False)


class MadeUpMemory:
    """Records who called; `Get` of `hold.md` waits until the test lets it go on."""

    def __init__(self) -> None:
        self.calls: list[tuple[Caller, str, Mapping[str, object]]] = []
        self.holding = 0
        self.go = asyncio.Event()

    def at_once(self, caller: Caller, _method: str, parameters: Mapping[str, object]) -> dict[str, object] | None:
        """`ready.md` needs no waiting; `broken.md` fails at it."""
        if parameters.get("path") == "broken.md":
            raise ZeroDivisionError("made up")
        return {"path": "ready.md", "scope": caller.scope} if parameters.get("path") == "ready.md" else None

    def check_enabled(self) -> None:
        """The switch is on."""

    async def call(
        self, who: Callable[[], Awaitable[Caller]], method: str, parameters: Mapping[str, object]
    ) -> dict[str, object]:
        if "path" not in parameters:
            raise AmuxError("invalid_argument", "path is missing", argument="path")
        caller = await who()
        self.calls.append((caller, method, parameters))
        if parameters["path"] == "hold.md":
            self.holding += 1
            await self.go.wait()
            self.holding -= 1
        elif parameters["path"] == "fault.md":
            raise ZeroDivisionError("made up")
        elif parameters["path"] == "large.md":
            return {"content": "x" * 9000}
        return {"path": parameters["path"], "scope": caller.scope}


class Wire:
    """A served directory with one socket for each of `PEOPLE`."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.limits = Limits(request_wait=30)
        self.timeouts = Timeouts(first_frame=30, frame=30, idle=30, write=30)
        self.memory = MadeUpMemory()
        self.admission = Admission(self.limits)
        self._loop = asyncio.new_event_loop()
        self._patch = patch
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.server: VarlinkServer

    def start(self) -> None:
        uids = {str(self.directory / name): uid for name, uid in PEOPLE.items()}
        self._patch.setattr(accept, "peer_of", lambda one: Peer(1, uids[one.getsockname()], 1))
        self._thread.start()
        self.run(self._start())

    def run(self, work: Awaitable[Any]) -> Any:
        """Await something on the loop of the wire."""

        async def waiting() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(waiting(), self._loop).result(30)

    def soon(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    async def _start(self) -> None:
        config = Config("hub.yaml", env={"AMUX_HOME": str(self.directory)})
        memory = cast("Memory", self.memory)
        sessions = Sessions(str(self.directory), memory)
        administration = Administration(cast("Store", None), sessions, set(), isolation=False, host=None)
        shared = interfaces.Shared(config, dict(config.values()), memory, self.admission, administration, sessions)
        self.server = VarlinkServer(
            lambda connection, admin: interfaces.for_connection(shared, connection, admin=admin),
            self.admission,
            self.timeouts,
        )
        self.server.sweep()
        self.listeners = []
        for name in PEOPLE:
            listening = sockets.listen("hub", str(self.directory / name))
            begin = partial(self.server.begin, admin=True)
            listener = Listener(name, listening.socket, MadeUpIdentity(), self.admission, begin, reply.encode_failure)
            listener.start()
            self.listeners.append(listener)

    def connect(self, name: str) -> Channel:
        return Channel(self.directory / name)

    def call(self, name: str, method: str, **parameters: Any) -> dict[str, Any]:
        with self.connect(name) as channel:
            return channel.call(method, **parameters)

    def close(self) -> None:
        if not self._thread.is_alive():
            return
        self.soon(self.memory.go.set)
        self.run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _stop(self) -> None:
        for listener in self.listeners:
            listener.stop()
            listener.socket.close()
        self.server.abort()
        await self.server.drain()
