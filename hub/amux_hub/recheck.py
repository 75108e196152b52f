"""Connections that live on: everybody who is connected is asked about again, and ended if refused now.

Promises: nobody stays connected longer than `identity.verdict_seconds` and a few seconds after the last "yes"; where no
answer comes, a UID is asked about once in that time, and stays connected without being served. Who has just come is
told by the answer to the first call why it is refused, before the connection is ended. It never waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Protocol

from amux.errors import AmuxError
from amux_hub.identity import Identity, Peer
from amux_hub.wire.accept import Connection

NEW_SECONDS = 2.0
"""How long a connection is left alone that has just come."""


class KnownIdentity(Identity, Protocol):
    """An identity that says what it remembers."""

    def knows(self, uid: int) -> bool:
        """Whether what was found out about a UID still holds."""
        ...


class Recheck:
    """`look` is to be called each second, on the loop."""

    def __init__(
        self,
        identity: KnownIdentity,
        connections: Collection[Connection],
        seconds: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._identity = identity
        self._connections = connections
        self._seconds = seconds
        self._clock = clock
        self._asked: dict[int, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Ask about whoever is connected and not known any more."""
        now = self._clock()
        since = now - self._seconds()
        peers = {one.peer.uid: one.peer for one in self._settled()}
        self._asked = {uid: at for uid, at in self._asked.items() if uid in peers and at > since}
        for uid, peer in peers.items():
            if uid not in self._asked and not self._identity.knows(uid):
                self._asked[uid] = now
                task = asyncio.get_running_loop().create_task(self._ask(peer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _ask(self, peer: Peer) -> None:
        try:
            await self._identity.identify(peer)
            self._asked.pop(peer.uid, None)  # what it remembers may be older than this question, and end sooner
        except AmuxError as error:
            if error.code == "identity_refused":
                self._asked.pop(peer.uid, None)  # a new one of the same UID is looked at once it has settled
                for connection in self._settled():
                    if connection.peer.uid == peer.uid:
                        connection.end()

    def _settled(self) -> list[Connection]:
        latest = self._clock() - NEW_SECONDS
        return [one for one in self._connections if one.since <= latest]
