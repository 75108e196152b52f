"""Inputs to mcp.sock against a running Hub, several connections at a time.

A connection lives for some inputs: a first line, then messages in either era of the protocol. Each input is
followed by a request of ours. Promises that are held here: the first line gets one line; every request of ours
is answered, whatever came before it; a line over the limit is answered once and ends the connection; when the
client has sent everything the Hub answers what is left and closes; no text block is over 6,144 bytes; nothing
is an internal error.
"""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from random import Random
from typing import Any

from amux import limits
from tests.fuzz import generators
from tests.fuzz.failure import FoundError

WAIT_SECONDS = 60.0
CONNECTIONS = 4
INPUTS_A_CONNECTION = 25

_HANDSHAKES: tuple[tuple[dict[str, Any], ...], ...] = (
    (
        {
            "jsonrpc": "2.0",
            "id": "hello",
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "fuzz", "version": "0"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ),
    ({"jsonrpc": "2.0", "id": "hello", "method": "server/discover", "params": {"_meta": generators.MODERN}},),
    (),
)
_INTERNAL_CODES = (-32603, 0)


class Conversation:
    """One connection to mcp.sock, opened again when it ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._sent = b""
        self._left = 0
        self._handshake: tuple[dict[str, Any], ...] = ()
        self._token = ""

    def send(self, data: bytes, token: str, rng: Random, first: bytes | None = None) -> None:
        """Open a connection if there is none, then write one input and a request of ours behind it."""
        self._token = token
        if self._socket is None:
            self._open(generators.greeting(rng) if first is None else first, rng)
        if self._socket is None:
            return  # the first line was refused, as it must be: that was the input
        self._sent = data
        self._left -= 1
        parameters: dict[str, Any] = {"name": "amux.memory_get", "arguments": {"path": f"{token}.md"}}
        if self._handshake and self._handshake[0]["method"] == "server/discover":
            parameters["_meta"] = generators.MODERN
        ours = {"jsonrpc": "2.0", "id": token, "method": "tools/call", "params": parameters}
        self._write(data + (b"" if data.endswith(b"\n") else b"\n") + json.dumps(ours).encode() + b"\n")

    def _open(self, first: bytes, rng: Random) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(WAIT_SECONDS)
        self._socket.connect(str(self._path))
        self._buffer = b""
        self._sent = first
        self._left = INPUTS_A_CONNECTION
        self._handshake = rng.choice(_HANDSHAKES)
        self._write(first)
        answer = self._line()
        if answer is None:
            raise FoundError("the first line was not answered", first)
        if answer.get("amux") != 1:
            code = answer.get("error", {}).get("code")
            if code in (None, "internal") or self._line() is not None:
                raise FoundError(f"the first line was answered {answer}", first)
            self._close()
            return
        for message in self._handshake:
            self._write(json.dumps(message).encode() + b"\n")
        if self._handshake:
            self._until("hello")

    def receive(self) -> int:
        """Wait for the answer to our request. Answers 1 if the connection ended. Raises FoundError."""
        if self._socket is None:
            return 1
        if not self._until(self._token):
            self._close()
            if max(map(len, self._sent.split(b"\n"))) <= limits.FRAME_BYTES:
                raise FoundError("the connection was closed although no line is too long", self._sent)
            return 1
        if self._left <= 0:
            self._finish()
        return 0

    def _finish(self) -> None:
        """Say that nothing follows: the Hub answers what is left and closes."""
        assert self._socket is not None
        self._socket.shutdown(socket.SHUT_WR)
        while self._line() is not None:
            pass
        self._close()

    def _until(self, token: str) -> bool:
        while (message := self._line()) is not None:
            if message.get("id") == token:
                return True
        return False

    def _write(self, data: bytes) -> None:
        assert self._socket is not None
        # The Hub may give up in the middle: its answer is still there to be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(data)

    def _line(self) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            assert self._socket is not None
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise FoundError(f"neither an answer nor an end within {WAIT_SECONDS:g} s", self._sent) from None
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return self._checked(line)

    def _checked(self, line: bytes) -> dict[str, Any]:
        message = json.loads(line.decode())
        if not isinstance(message, dict):
            raise FoundError(f"an answer is no message: {line[:300]!r}", self._sent)
        error = message.get("error")
        if isinstance(error, dict) and error.get("code") in _INTERNAL_CODES:
            raise FoundError(f"the Hub answered {line[:500]!r}", self._sent)
        result = message.get("result")
        if not isinstance(result, dict):
            return message
        for block in result.get("content", ()):
            if len(block["text"].encode()) > limits.PAGE_BYTES:
                raise FoundError(f"a block has {len(block['text'].encode())} bytes", self._sent)
            if result.get("isError") and json.loads(block["text"])["error"]["code"] == "internal":
                raise FoundError(f"the Hub answered {line[:500]!r}", self._sent)
        return message

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def leave(self) -> None:
        self._close()


class Mcp:
    """A target; see `tests.fuzz.wire.Wire`."""

    def __init__(self, path: Path, seed: int) -> None:
        self._seed = seed
        self._conversations = [Conversation(path) for _ in range(CONNECTIONS)]
        self.violations = 0

    def batch(self, first: int, count: int, fixed: list[bytes] | None = None) -> None:
        """Inputs `first` to `first + count - 1`, at most CONNECTIONS. Raises FoundError."""
        waiting: list[tuple[int, Conversation]] = []
        for index, conversation in zip(range(first, first + count), self._conversations, strict=False):
            rng = Random(f"{self._seed}:mcp:{index}")
            data = generators.mcp(rng) if fixed is None else fixed[index - first]
            try:
                conversation.send(data, f"token-{index}", rng, None if fixed is None else b'{"amux":1}\n')
            except FoundError as error:
                error.add_note(f"mcp input {index} of seed {self._seed}")
                raise
            if rng.random() < 0.02:
                conversation.leave()
            else:
                waiting.append((index, conversation))
        for index, conversation in waiting:
            try:
                self.violations += conversation.receive()
            except FoundError as error:
                error.add_note(f"mcp input {index} of seed {self._seed}")
                raise

    def close(self) -> None:
        for conversation in self._conversations:
            conversation.leave()
