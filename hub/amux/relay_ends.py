"""The two ends of `amux mcp` as lines: the client on two descriptors, the Hub on one connection.

Promises bounded buffers, and that nothing blocks: only what poll(2) says is ready is read, and only what a pipe
is sure to take is written, because descriptors of the client are shared with other processes and stay blocking.
"""

from __future__ import annotations

import os
import select
from collections import deque

from amux import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amux.endpoint import Connection
    from amux.relay_call import Call

READ = 64 * 1024
QUEUED = 1024 * 1024
"""Bytes waiting in one direction above which the other end of it is not read."""
KEPT = 8 * limits.FRAME_BYTES
"""Of a line that is too long, so much is kept to find its id, which clients put first or last."""


class Client:
    """Standard input and output."""

    __slots__ = ("_input", "_output", "_sink", "_skipping", "_source", "open")

    def __init__(self, source: int, sink: int) -> None:
        self._source, self._sink = source, sink
        self.open = True
        """Whether there may be more to read."""
        self._input = bytearray()
        self._skipping = False
        self._output = bytearray()

    @property
    def waiting(self) -> int:
        """Bytes that the client did not take yet."""
        return len(self._output)

    def say(self, line: bytes) -> None:
        """Queue one line, its end included."""
        self._output += line

    def write(self) -> bool:
        """Write what fits; False once nobody reads any more."""
        try:
            written = os.write(self._sink, self._output[: select.PIPE_BUF])
        except OSError:
            return False
        del self._output[:written]
        return True

    def read(self) -> list[bytes | None]:
        """The lines that are whole now, without their ends; None stands for one of over `KEPT` bytes."""
        try:
            data = os.read(self._source, READ)
        except OSError:  # closed, or a terminal that went away: the same as its end
            data = b""
        if not data:
            self.open = False
            data = b"\n"  # a last line without its end is a line
        lines: list[bytes | None] = []
        start = len(self._input)
        self._input += data
        while (end := self._input.find(b"\n", start)) >= 0:
            lines.append(None if self._skipping else bytes(self._input[:end]))
            del self._input[: end + 1]
            self._skipping = False
            start = 0
        if len(self._input) > KEPT:
            self._input.clear()
            self._skipping = True
        return lines


class Link:
    """One connection to the Hub, with what waits to be sent on it."""

    __slots__ = ("_head", "_queue", "_received", "connection", "goodbye", "greeted", "leaving", "queued")

    def __init__(self, connection: Connection) -> None:
        connection.socket.setblocking(False)
        self.connection = connection
        self.greeted = False
        """The Hub answered the first line."""
        self.leaving = False
        """The Hub takes nothing further: it stops, or closed its side. It may still have something to say."""
        self.goodbye = False
        """The Hub said that it ran nothing but what it answered."""
        self.queued = 0
        self._received = bytearray()
        self._queue: deque[tuple[Call | None, bytes]] = deque()
        self._head = 0

    @property
    def usable(self) -> bool:
        """Whether a request may be sent."""
        return self.greeted and not self.leaving

    @property
    def sending(self) -> bool:
        return bool(self._queue) and not self.leaving

    def enqueue(self, call: Call | None, line: bytes) -> None:
        self._queue.append((call, line + b"\n"))
        self.queued += len(line) + 1

    def forget(self, call: Call) -> None:
        """Do not send `call`, of which no byte left yet."""
        for entry in self._queue:
            if entry[0] is call:
                self._queue.remove(entry)
                self.queued -= len(entry[1])
                return

    def send(self) -> None:
        """Send what the Hub takes; `leaving` once it takes nothing."""
        while self._queue:
            call, line = self._queue[0]
            try:
                taken = self.connection.socket.send(memoryview(line)[self._head :])
            except BlockingIOError:
                return
            except OSError:
                self.leaving = True  # no byte was taken
                return
            if call is not None:
                call.sent = True
            self._head += taken
            self.queued -= taken
            if self._head == len(line):
                self._queue.popleft()
                self._head = 0

    def receive(self) -> list[bytes] | None:
        """The lines that are whole now; None at the end, and for a line that no Hub would send."""
        try:
            data = self.connection.socket.recv(READ)
        except BlockingIOError:
            return []
        except OSError:
            return None
        self._received += data
        *lines, rest = self._received.split(b"\n")
        self._received = rest
        if not data or len(rest) > limits.FRAME_BYTES:
            return None
        return [bytes(line) for line in lines]
