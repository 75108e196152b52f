"""One Varlink connection's bytes: frames in, replies out, each bounded in size, number and time.

Promises: at most one frame is being served and at most one reply is being sent, so no buffer grows beyond a
frame and a read; nothing is read while a call runs (later calls wait in the kernel); descriptors are never
received; a peer that is slow to send, or does not read, loses its connection and costs nobody else anything.

It builds on asyncvarlink's transport for registration, pausing and closing, and replaces reading and writing.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from dataclasses import dataclass
from typing import Protocol

from asyncvarlink import VarlinkTransport
from asyncvarlink.protocol import VarlinkBaseProtocol

from amux import limits

RECEIVE_BYTES = 64 * 1024
_NEVER = float("inf")
_AGAIN = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR}


@dataclass
class Timeouts:
    """The deadlines in force, in seconds; the service replaces the values on a reload."""

    first_frame: float = 5.0
    frame: float = 10.0
    idle: float = 300.0
    write: float = 10.0


class FrameProtocol(VarlinkBaseProtocol):
    """What the transport asks of its protocol, all on the loop."""

    def frame_received(self, frame: bytes) -> None:
        """A whole frame. The protocol answers with `transport.reply` exactly once."""

    def violated(self, what: str) -> None:
        """The peer broke a rule of the wire. The protocol answers with `transport.reply(…, last=True)`."""

    def held(self, size: int) -> None:
        """`size` bytes of a message that is not complete are held now. May answer as for a violation, or `refuse`."""

    def cut_off(self) -> None:
        """A message was left incomplete because the Hub stops. The protocol answers with `transport.reply`."""

    def dropped(self, why: str) -> None:
        """The transport gave up on the peer; the connection is lost next."""


class _Ended(Protocol):
    def __call__(self, transport: HubTransport, /) -> None: ...


class HubTransport(VarlinkTransport):
    """See the module. `deadline` is a time of the loop; `expire` is called when it has passed."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connected: socket.socket,
        protocol: FrameProtocol,
        timeouts: Timeouts,
        ended: _Ended,
    ) -> None:
        self._socket = connected
        self._frames = protocol
        self._timeouts = timeouts
        self._ended = ended
        self._buffer = bytearray()
        self._searched = 0
        self._unsent: memoryview | None = None
        self._busy = False
        self._end_of_input = False
        self._last = False
        self._draining = False
        self._first = True
        self.deadline = loop.time() + timeouts.first_frame
        super().__init__(loop, connected, connected, protocol, boundary_predictor=None)

    # Reading

    def _handle_read_socket(self) -> None:
        """Called by the loop. While a call runs, the first event only unregisters the reader: the usual
        call, without another behind it, then costs no epoll_ctl(2) at all."""
        if self._busy or self._last:
            self.pause_reading()
        elif self._receive():
            self._next_frame()

    def _receive(self) -> bool:
        """Read once. Returns whether there may be something to look at."""
        try:
            # No room for ancillary data: the kernel closes any descriptor and says so, recvmsg(2).
            data, _, flags, _ = self._socket.recvmsg(RECEIVE_BYTES, 0)
        except OSError as error:
            if error.errno not in _AGAIN:
                self.abort()
            return False
        if flags & socket.MSG_CTRUNC:
            self._violation("a message carried file descriptors or other ancillary data")
            return False
        if not data:
            self._end_of_input = True
        elif not self._buffer:
            self._buffer += data
            if not self._first:
                self.deadline = self._loop.time() + self._timeouts.frame
        else:
            self._buffer += data
        return True

    def _next_frame(self) -> None:
        """Hand over the next frame, if a whole one is here and nothing else is under way."""
        buffer = self._buffer
        end = buffer.find(b"\0", self._searched, limits.FRAME_BYTES + 1)
        self._searched = 0 if end >= 0 else len(buffer)
        if end >= 0:
            frame = bytes(buffer[:end])
            del buffer[: end + 1]
            if not buffer:
                self._frames.held(0)
            self._busy = True
            self._first = False
            self.deadline = _NEVER
            self._frames.frame_received(frame)
        elif len(buffer) > limits.FRAME_BYTES:
            self._violation(f"a message has over {limits.FRAME_BYTES} bytes")
        elif self._end_of_input:
            self.close()
        else:
            self._frames.held(len(buffer))

    def refuse(self) -> None:
        """Take nothing further: the protocol answers with `reply(…, last=True)` now."""
        self._busy = True
        self._forget_input()

    def _violation(self, what: str) -> None:
        self._busy = True
        self._forget_input()
        self._frames.violated(what)

    def _forget_input(self) -> None:
        self._buffer.clear()
        self._searched = 0

    # Writing

    def reply(self, data: bytes | None, *, last: bool = False) -> None:
        """End the frame that was handed over: send `data` (None for a one-way call), then take the next.

        With `last` the connection is closed once the data is sent.
        """
        self._last = self._last or last
        if self._closing:
            return
        if data is not None:
            try:
                sent = self._socket.send(data)
            except OSError as error:
                if error.errno not in _AGAIN:
                    self.abort()
                    return
                sent = 0
            if sent < len(data):
                self._unsent = memoryview(data)[sent:]
                self.deadline = self._loop.time() + self._timeouts.write
                self._loop.add_writer(self._socket, self._flush)
                return
        self._replied()

    def _flush(self) -> None:
        assert self._unsent is not None
        try:
            sent = self._socket.send(self._unsent)
        except OSError as error:
            if error.errno not in _AGAIN:
                self.abort()
            return
        self._unsent = self._unsent[sent:]
        if not self._unsent:
            self._unsent = None
            self._loop.remove_writer(self._socket)
            self._replied()

    def _replied(self) -> None:
        self._busy = False
        if self._last:
            self.close()
            return
        if self._buffer:
            # Not from here, since a frame may be answered within `frame_received`: so replies do not nest as deep as
            # a peer pipelines, and everybody else has a turn in between.
            self._busy = True
            self._loop.call_soon(self._go_on)
            return
        if self._end_of_input:
            self.close()
        else:
            self.deadline = self._loop.time() + self._timeouts.idle
            if self._draining:
                self._drain()
        if self._paused and not self._busy:
            self._resume_reading()

    def _go_on(self) -> None:
        """Take the frame that came behind the one before."""
        if self._closing:
            return
        self._busy = False
        self.deadline = self._loop.time() + self._timeouts.frame
        self._next_frame()
        if self._paused and not self._busy and not self._closing:
            self._resume_reading()

    # Ending

    def expire(self) -> None:
        """The deadline has passed."""
        self.deadline = _NEVER
        if self._unsent is not None:
            self._frames.dropped(f"it did not take a reply within {self._timeouts.write:g} s")
            self.abort()
        elif self._first:
            self._violation(f"no whole message came within {self._timeouts.first_frame:g} s of connecting")
        elif self._buffer:
            self._violation(f"a message was not complete within {self._timeouts.frame:g} s of its first byte")
        else:
            self.close()

    def drain(self) -> None:
        """Let what runs be answered; answer what comes with `shutting_down`; close. Loses no call:

        first the receiving side is shut, after which a client's send fails with no byte taken, then what was
        queued before is read and answered. So every client knows whether its call was run.
        """
        self._draining = True
        if not self._busy and not self._closing:
            self._drain()

    def _drain(self) -> None:
        if self._buffer:
            return  # somebody is in the middle of sending: the deadline for a frame holds
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
        while not self._closing and not self._busy and not self._end_of_input and self._receive():
            if not self._end_of_input:
                self._next_frame()
        if not self._busy and not self._closing:
            if self._buffer:
                self._busy = True
                self._forget_input()
                self._frames.cut_off()
            else:
                self.close()

    def abort(self) -> None:
        """Close now; what was not sent is lost."""
        if self._unsent is not None:
            self._unsent = None
            self._loop.remove_writer(self._socket)
        self._last = True
        self.close()

    def _connection_lost(self, exc: Exception | None = None) -> None:
        try:
            super()._connection_lost(exc)
        finally:
            self._ended(self)
