"""The Varlink connections of one process: begun, watched, drained.

Promises: one sweep a moment looks at every deadline, however many connections there are; `drain` returns once
each connection is answered and closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from asyncvarlink import VarlinkInterfaceRegistry

from amux_hub.admission import Admission
from amux_hub.wire.accept import Connection
from amux_hub.wire.protocol import HubProtocol
from amux_hub.wire.transport import HubTransport, Timeouts

_SWEEP_SECONDS = 1.0


class VarlinkServer:
    """`interfaces` makes what one connection may call; `admin` says that it came over the admin socket."""

    def __init__(
        self,
        interfaces: Callable[[Connection, bool], VarlinkInterfaceRegistry],
        admission: Admission,
        timeouts: Timeouts,
    ) -> None:
        self._interfaces = interfaces
        self._admission = admission
        self._timeouts = timeouts
        self._open: set[HubTransport] = set()
        self._empty = asyncio.Event()
        self._empty.set()

    def begin(self, connected: socket.socket, connection: Connection, *, admin: bool) -> None:
        """Serve an accepted connection until it ends."""
        registry = self._interfaces(connection, admin)
        protocol = HubProtocol(connection, registry, self._admission)
        loop = asyncio.get_running_loop()
        self._open.add(HubTransport(loop, connected, protocol, self._timeouts, self._ended))
        self._empty.clear()

    def _ended(self, transport: HubTransport) -> None:
        self._open.discard(transport)
        if not self._open:
            self._empty.set()

    def sweep(self) -> None:
        """End what is over its deadline, now and from now on."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for transport in [one for one in self._open if one.deadline < now]:
            transport.expire()
        timeouts = self._timeouts
        shortest = min(timeouts.first_frame, timeouts.frame, timeouts.idle, timeouts.write)
        loop.call_later(min(_SWEEP_SECONDS, shortest / 4), self.sweep)

    async def drain(self) -> None:
        """Answer what runs, tell what comes `shutting_down`, close. Returns when no connection is left."""
        for transport in list(self._open):
            transport.drain()
        await self._empty.wait()

    def abort(self) -> int:
        """Drop what is left; how many connections that were."""
        left = list(self._open)
        for transport in left:
            transport.abort()
        return len(left)
