"""Accepting connections: who connected (the kernel says), whether one more may, and what a connection owns.

Promises: a connection is counted from accept to close against its UID; one over a limit is answered once and
closed; running out of descriptors pauses accepting and is logged, it never ends the Hub. Only a connection
that we accepted ourselves gets here: `SO_PEERCRED` of any other names its listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import time
from collections.abc import Callable

from amux.errors import AmuxError
from amux_hub.admission import Admission
from amux_hub.identity import Caller, Identity, Peer, peer_of
from amux_hub.logs import Throttle

_log = logging.getLogger(__name__)

BATCH = 32
"""Connections accepted before the loop looks at anything else."""

PAUSE_SECONDS = 0.25
"""How long accepting rests when the process or the host has no descriptor or memory left, accept(2)."""

_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Connection:
    """One accepted connection: its peer, and what it counts for. Both front ends serve exactly this.

    `since` is a time of the loop's clock. While it is open it is a member of `among`.
    """

    __slots__ = ("_admission", "_among", "_connected", "_held", "_identity", "_released", "listener", "peer", "since")

    def __init__(
        self,
        peer: Peer,
        identity: Identity,
        admission: Admission,
        connected: socket.socket | None = None,
        listener: str = "",
        among: set[Connection] | None = None,
    ) -> None:
        """Counts the connection; raises `limit_exceeded` or `busy` if it is one too many."""
        admission.connect(peer.uid)
        self.peer = peer
        self.listener = listener
        self.since = time.monotonic()
        self._identity = identity
        self._admission = admission
        self._connected = connected
        self._released = False
        self._held = 0
        self._among = among
        if among is not None:
            among.add(self)

    async def caller(self) -> Caller:
        """Who this is now: asked for each call. Raises `identity_refused` or `identity_unavailable`."""
        return await self._identity.identify(self.peer)

    def known_caller(self) -> Caller | None:
        """The same where nobody need be asked, else None: then `caller` answers or refuses."""
        return self._identity.known(self.peer)

    def request(self) -> contextlib.AbstractAsyncContextManager[None]:
        """One request slot of the peer's UID. Entering raises `busy` or `shutting_down`."""
        return self._admission.request(self.peer.uid)

    def hold(self, size: int) -> None:
        """What this connection holds of a message that is not complete is `size` bytes now.

        Raises `limit_exceeded` if that is more than its UID may have: close it.
        """
        if size != self._held and not self._released:
            more, self._held = size - self._held, size
            self._admission.hold(self.peer.uid, more)

    def moved(self, connected: socket.socket) -> None:
        """The front end took the descriptor into a socket object of its own: `end` is to end that one."""
        self._connected = connected

    def end(self) -> None:
        """End it now, whatever it does: its peer is nobody to us any more. The front end sees the end of input."""
        if self._connected is not None:
            with contextlib.suppress(OSError):
                self._connected.shutdown(socket.SHUT_RDWR)

    def release(self) -> None:
        """The connection is closed: count it no more. Safe to repeat."""
        if not self._released:
            self.hold(0)
            self._released = True
            self._connected = None
            self._admission.disconnect(self.peer.uid)
            if self._among is not None:
                self._among.discard(self)


class Listener:
    """One listening socket on the loop. `begin` takes over each accepted, non-blocking socket."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        identity: Identity,
        admission: Admission,
        begin: Callable[[socket.socket, Connection], object],
        refusal: Callable[[AmuxError], bytes],
        among: set[Connection] | None = None,
    ) -> None:
        """`refusal` encodes the one answer that a connection over a limit gets; `among` are the open ones."""
        self.name = name
        self._among = among
        self.socket = listening
        self._identity = identity
        self._admission = admission
        self._begin = begin
        self._refusal = refusal
        self._resume: asyncio.TimerHandle | None = None
        self._serving = False
        self._throttle = Throttle()
        listening.setblocking(False)

    def start(self) -> None:
        self._serving = True
        asyncio.get_running_loop().add_reader(self.socket, self._accept)

    def stop(self) -> None:
        """Accept nothing further; who waits in the backlog stays there."""
        if self._serving:
            self._serving = False
            asyncio.get_running_loop().remove_reader(self.socket)
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None

    def _accept(self) -> None:
        for _ in range(BATCH):
            try:
                connected, _ = self.socket.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue
            except OSError as error:
                self._pause(error)
                return
            self._admit(connected)

    def _admit(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        try:
            peer = peer_of(connected)
            try:
                connection = Connection(peer, self._identity, self._admission, connected, self.name, self._among)
            except AmuxError as error:
                self._refuse(connected, peer, error)
                return
        except OSError:
            connected.close()
            return
        if _log.isEnabledFor(logging.DEBUG):
            fields = {"socket": self.name, "uid": peer.uid, "pid": peer.pid}
            _log.debug("connection", extra={"amux": fields})
        self._begin(connected, connection)

    def _refuse(self, connected: socket.socket, peer: Peer, error: AmuxError) -> None:
        with contextlib.suppress(OSError), connected:
            connected.send(self._refusal(error))
        suppressed = self._throttle.admit((peer.uid, error.code))
        if suppressed is not None:
            fields = {"socket": self.name, "uid": peer.uid, "code": error.code, "more": suppressed}
            _log.warning("connection refused: %s", error.message, extra={"amux": fields})

    def _pause(self, error: OSError) -> None:
        """Leave the backlog alone for a moment: a level-triggered loop would spin on it."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.socket)
        self._serving = False
        self._resume = loop.call_later(PAUSE_SECONDS, self._unpause)
        if self._throttle.admit(error.errno) is not None:
            fields = {"socket": self.name, "connections": self._admission.connections}
            cure = "raise LimitNOFILE= or lower limits.connections"
            if error.errno not in _EXHAUSTED:
                cure = "if this goes on, restart the socket's unit, or whatever holds the socket"
            _log.error("accepting pauses: %s; %s", error.strerror, cure, extra={"amux": fields})

    def _unpause(self) -> None:
        self._resume = None
        self.start()
