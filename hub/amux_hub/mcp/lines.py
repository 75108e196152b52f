"""One connection as bounded lines: reading stops when nobody takes them, and a silent reader is dropped.

Promises: at most one line over the buffer's target is held, a line over `limits.FRAME_BYTES` or one that does
not end in time is `protocol_error`, and what waits to be sent is bounded by the caller that awaits `drain`. It
knows neither JSON nor MCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol, cast

from amux import limits
from amux.errors import AmuxError

_UNCOUNTED = 4096
"""Bytes too few to be worth counting, which most messages are."""

_READ_AHEAD = 64 * 1024
"""Bytes that are read although nobody asked for a line: pipelined calls arrive together."""


class Timeouts(Protocol):
    """Seconds, from the Hub's configuration (`timeouts.…`), which may change while connections are open."""

    @property
    def first_frame(self) -> float: ...
    @property
    def frame(self) -> float: ...
    @property
    def write(self) -> float: ...


class _Accepted(socket.socket):
    """Receives no descriptors: without room for them the kernel closes them and says so, recvmsg(2)."""

    ancillary = False

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        data, _, told, _ = self.recvmsg(size, 0, flags)
        if told & socket.MSG_CTRUNC:
            self.ancillary = True
            return b""
        return data


class Lines(asyncio.Protocol):
    """The two directions of one accepted socket."""

    __slots__ = (
        "_accepted",
        "_broken",
        "_buffer",
        "_closed",
        "_deadline",
        "_eof",
        "_hold",
        "_holding",
        "_loop",
        "_partial",
        "_paused",
        "_reader",
        "_scanned",
        "_timeouts",
        "_transport",
        "_writable",
        "dropped",
    )

    def __init__(self, timeouts: Timeouts, accepted: _Accepted, hold: Callable[[int], None]) -> None:
        self._hold = hold
        self._holding = False
        self.dropped: AmuxError | None = None
        self._accepted = accepted
        self._loop = asyncio.get_running_loop()
        self._timeouts = timeouts
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._scanned = 0
        self._eof = False
        self._paused = False
        self._broken: AmuxError | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._partial: float | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls, accepted: socket.socket, timeouts: Timeouts, hold: Callable[[int], None] = lambda _size: None
    ) -> Lines:
        """Take over a connected socket; it is closed with this object.

        `hold` is told how many bytes wait here to be taken, and raises `limit_exceeded` if that is too much.
        """
        taken = _Accepted(fileno=accepted.detach())
        taken.setblocking(False)
        lines = cls(timeouts, taken, hold)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: lines, taken)
        return lines

    @property
    def taken(self) -> socket.socket:
        """The socket that has the descriptor now."""
        return self._accepted

    # Reading

    async def next_line(self, limit: int = limits.FRAME_BYTES) -> bytes | None:
        """The next line without its end; None at the end of the stream, whatever a line without end began.

        Raises `protocol_error` for a line of more than `limit` bytes, for one that does not end within
        `timeouts.frame`, and for descriptors.
        """
        if self._buffer:
            await asyncio.sleep(0)  # of messages that arrived together, others wait for one at a time
        while True:
            end = self._buffer.find(b"\n", self._scanned)
            if end > limit or (end < 0 and len(self._buffer) > limit):
                raise AmuxError(
                    "protocol_error",
                    f"a message here has at most {limit} bytes; the connection is closed",
                    limit="frame_bytes",
                    value=limit,
                )
            if end >= 0:
                return self._take(end)
            self._scanned = len(self._buffer)
            if self._broken is not None:
                raise self._broken
            if self._eof:
                return None
            self._watch_partial()
            self._resume()
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None

    def shut(self) -> None:
        """Take nothing further: a later send of the peer fails with no byte taken, what is queued is still read.

        So a client knows of each call whether it can have been run (shutdown(2), SHUT_RD on a Unix socket).
        """
        if self._transport is not None:
            with contextlib.suppress(OSError):
                self._transport.get_extra_info("socket").shutdown(socket.SHUT_RD)

    def _take(self, end: int) -> bytes:
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._scanned = 0
        self._partial = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if not self._buffer:
            self._buffer = bytearray()  # a bytearray keeps what it once had to hold
        if self._holding:
            self._account()
        return line

    def _account(self) -> None:
        self._holding = bool(self._buffer)
        try:
            self._hold(len(self._buffer))
        except AmuxError as error:
            self._buffer = bytearray()
            self._scanned = 0
            self._broken = error
            self._hold(0)

    def _watch_partial(self) -> None:
        """A line that has begun must end in time; the clock runs only while we read."""
        if self._buffer and self._deadline is None:
            self._deadline = self._loop.call_later(self._timeouts.frame, self._late)

    def _late(self) -> None:
        self._deadline = None
        if b"\n" not in self._buffer:
            self._broken = AmuxError(
                "protocol_error",
                f"a message did not end within {self._timeouts.frame:g} s (timeouts.frame); the connection is closed",
                limit="timeouts.frame",
            )
            self._wake(self._reader)

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    # Writing

    def write(self, line: bytes) -> None:
        """Queue one line. The caller awaits `drain` before it makes more."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(line + b"\n")

    async def drain(self) -> None:
        """Wait until the peer took enough. One that does not within `timeouts.write` is dropped."""
        if self._writable is None:
            return
        try:
            async with asyncio.timeout(self._timeouts.write):
                await asyncio.shield(self._writable)
        except TimeoutError:
            self._drop()

    async def finish(self) -> None:
        """Send what is queued, close, and return when the socket is closed; bounded by `timeouts.write`."""
        if self._transport is not None:
            self._transport.close()
        try:
            async with asyncio.timeout(self._timeouts.write):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self._drop()

    def _drop(self) -> None:
        text = f"it did not take an answer within {self._timeouts.write:g} s (timeouts.write)"
        self.dropped = AmuxError("protocol_error", text, limit="timeouts.write")
        self.abort()

    def abort(self) -> None:
        """Drop the connection and whatever waits to be sent."""
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._holding or len(self._buffer) > _UNCOUNTED:
            self._account()
        self._wake(self._reader)
        if len(self._buffer) > _READ_AHEAD and not self._paused and self._transport is not None:
            self._paused = True  # until `next_line` finds that it needs more
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keep the writing side: the answers to what came before are still to be sent."""
        self._eof = True
        if self._accepted.ancillary:
            self._buffer.clear()
            self._broken = AmuxError(
                "protocol_error",
                "a message carried file descriptors or other ancillary data; the connection is closed",
            )
        self._wake(self._reader)
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._eof = True
        self._transport = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        for future in (self._reader, self._writable, self._closed):
            self._wake(future)
        self._writable = None

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        self._wake(self._writable)
        self._writable = None

    @staticmethod
    def _wake(future: asyncio.Future[None] | None) -> None:
        if future is not None and not future.done():
            future.set_result(None)
