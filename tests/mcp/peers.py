"""The client's side of MCP for tests, in raw lines: through `amux mcp`, or straight on mcp.sock.

Every line that `amux mcp` writes to standard output is checked to be one JSON-RPC message (C19), whatever the
test is about.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness import WAIT_SECONDS, Hub

AMUX = [str(Path(sys.executable).parent / "amux"), "mcp"]
HANDSHAKE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "amux-tests", "version": "1"},
}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "amux-tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}

Message = dict[str, Any]


class ToolError(Exception):
    """A result with isError: the error object of its text block."""

    def __init__(self, error: Message) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: str = error["code"]
        self.message: str = error["message"]
        self.details: Message = error["details"]


class Peer:
    """What both ways have in common: numbering, waiting for an answer by id, tools."""

    modern = False

    def __init__(self) -> None:
        self._number = 0
        self._early: list[Message] = []
        self.other: list[Message] = []
        """Messages that answer nothing: notifications, and errors without an id."""

    def send_bytes(self, data: bytes) -> None:
        raise NotImplementedError

    def receive(self, seconds: float = WAIT_SECONDS) -> Message | None:
        """The next message, None at the end of the stream."""
        raise NotImplementedError

    def send(self, message: Any) -> None:
        self.send_bytes(json.dumps(message, ensure_ascii=False).encode() + b"\n")

    def request(self, method: str, parameters: Message | None = None, name: Any = None) -> Any:
        """Send a request without waiting; its id."""
        self._number += 1
        name = self._number if name is None else name
        parameters = dict(parameters or {})
        if self.modern:
            parameters["_meta"] = ENVELOPE
        self.send({"jsonrpc": "2.0", "id": name, "method": method, "params": parameters})
        return name

    def answer(self, name: Any) -> Message:
        """The answer to the request of this id, in whatever order answers come."""
        for message in self._early:
            if message.get("id") == name:
                self._early.remove(message)
                return message
        while True:
            received = self.receive()
            assert received is not None, f"the stream ended before {name!r} was answered"
            if received.get("id") == name:
                return received
            (self.other if received.get("id") is None else self._early).append(received)

    def rpc(self, method: str, parameters: Message | None = None) -> Message:
        """The result; a JSON-RPC error fails the test."""
        answer = self.answer(self.request(method, parameters))
        assert "result" in answer, answer
        result: Message = answer["result"]
        return result

    def open(self) -> Message:
        """Begin the conversation in this peer's era."""
        if self.modern:
            return self.rpc("server/discover")
        result = self.rpc("initialize", HANDSHAKE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return result

    def start_tool(self, tool: str, /, **arguments: Any) -> Any:
        return self.request("tools/call", {"name": f"amux.{tool}", "arguments": arguments})

    def block(self, tool: str, /, **arguments: Any) -> str:
        """The text block of a call that went well."""
        return text_of(self.rpc("tools/call", {"name": f"amux.{tool}", "arguments": arguments}))

    def tool(self, tool: str, /, **arguments: Any) -> Message:
        """The answer of a tool, all pages joined. Raises ToolError."""
        return self.joined(self.block(tool, **arguments))

    def joined(self, block: str) -> Message:
        answer: Message = json.loads(block)
        if "pages" not in answer:
            return answer
        texts = [answer["text"]]
        while "continuation" in answer:
            answer = json.loads(self.block("result_continue", continuation=answer["continuation"]))
            texts.append(answer["text"])
        assert answer["page"] == answer["pages"] == len(texts)
        whole: Message = json.loads("".join(texts))
        return whole


def text_of(result: Message) -> str:
    """The one text block of a tool's result. Raises ToolError for isError."""
    assert [block["type"] for block in result["content"]] == ["text"], result
    assert "structuredContent" not in result
    text: str = result["content"][0]["text"]
    assert len(text.encode()) <= 6144
    if result.get("isError"):
        raise ToolError(json.loads(text)["error"])
    return text


class Direct(Peer):
    """A connection to mcp.sock itself, the first line included."""

    def __init__(self, path: str | Path, greeting: Message | None = None, *, modern: bool = False) -> None:
        super().__init__()
        self.modern = modern
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_SECONDS)
        self.socket.connect(str(path))
        self._buffer = b""
        self.send({"amux": 1} if greeting is None else greeting)
        self.greeting = self.receive()

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self, seconds: float = WAIT_SECONDS) -> Message | None:
        self.socket.settimeout(seconds)
        while b"\n" not in self._buffer:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def __enter__(self) -> Direct:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Relay(Peer):
    """A process `amux mcp`, with pipes as an MCP client gives it."""

    def __init__(
        self,
        hub: Hub | Path,
        *,
        modern: bool = False,
        env: Mapping[str, str] | None = None,
        command: Sequence[str] = AMUX,
        cwd: Path | None = None,
    ) -> None:
        super().__init__()
        self.modern = modern
        path = hub.sockets["hub"] if isinstance(hub, Hub) else hub
        environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "AMUX_HUB": str(path), **(env or {})}
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
        )
        self._buffer = b""

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def receive(self, seconds: float = WAIT_SECONDS) -> Message | None:
        assert self.process.stdout is not None
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(until - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"nothing from amux mcp within {seconds} s")
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                assert not self._buffer, "standard output ended inside a line"
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol_message(line)

    def finish(self, status: int = 0) -> str:
        """Close standard input, expect the end; what stood on standard error."""
        assert self.process.stdin is not None and self.process.stderr is not None
        self.process.stdin.close()
        while (message := self.receive()) is not None:
            self._early.append(message)
        assert self.process.wait(WAIT_SECONDS) == status
        return self.process.stderr.read().decode()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def protocol_message(line: bytes) -> Message:
    """One line of standard output: a JSON-RPC 2.0 message, or the test fails (C19)."""
    message = json.loads(line)
    assert isinstance(message, dict) and message["jsonrpc"] == "2.0", line
    assert "method" in message or ("id" in message and ("result" in message) != ("error" in message)), line
    return message
