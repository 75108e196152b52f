"""An mcp.sock whose Hub does exactly what a test says, to stand still at moments that a real one passes in no time.

with FakeHub(directory) as hub:
    relay = Relay(hub.hub_socket)
    first = hub.accept()          # greets, unless greet=False
    call = first.receive(); first.answer(call, {...}); first.close()
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness import WAIT_SECONDS
from tests.mcp.peers import Relay

Message = dict[str, Any]

INITIALIZED: Message = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "amux", "version": "0"},
}


class Link:
    """One accepted connection, from the Hub's side."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.socket.settimeout(WAIT_SECONDS)
        self._buffer = b""

    def receive(self) -> Message | None:
        while b"\n" not in self._buffer:
            data = self.socket.recv(65536)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def expect(self, method: str) -> Message:
        message = self.receive()
        assert message is not None, f"the relay closed instead of sending {method}"
        assert message.get("method") == method, message
        return message

    def send(self, message: Any) -> None:
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def answer(self, request: Message, result: Message) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def text(self, request: Message, text: str, failed: bool = False) -> None:
        self.answer(request, {"content": [{"type": "text", "text": text}], "isError": failed})

    def shutting_down(self, request: Message) -> None:
        error = {"code": "shutting_down", "message": "the Hub is stopping", "details": {}}
        self.text(request, json.dumps({"error": error}), failed=True)

    def handshake(self) -> Message:
        """Answer the client's initialize; that request."""
        request = self.expect("initialize")
        self.answer(request, INITIALIZED)
        self.expect("notifications/initialized")
        return request

    def close(self) -> None:
        self.socket.close()


class FakeHub:
    """Listens as a private Hub of this user does."""

    def __init__(self, directory: Path) -> None:
        self.hub_socket = directory / "hub.sock"
        self._path = directory / "mcp.sock"
        self._links: list[Link] = []
        self.listen()

    def listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.settimeout(WAIT_SECONDS)
        self._listener.bind(str(self._path))
        self._listener.listen(16)

    def accept(self, *, greet: bool = True) -> Link:
        link = Link(self._listener.accept()[0])
        self._links.append(link)
        if greet:
            self.greeting = link.receive()
            link.send({"amux": 1, "version": "0.1.0"})
        return link

    def gone(self) -> None:
        """Stop listening, as a Hub without anybody who holds its sockets."""
        self._listener.close()
        self._path.unlink()

    def __enter__(self) -> FakeHub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        for link in self._links:
            link.close()


def opened(fake: FakeHub, client: Relay) -> Link:
    """The link of a conversation that has begun."""
    link = fake.accept()
    name = client.request("initialize", {"protocolVersion": "2025-11-25"})
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    link.handshake()
    client.answer(name)
    return link


def again(fake: FakeHub) -> Link:
    """The next link, with the handshake replayed and answered."""
    link = fake.accept()
    replayed = link.handshake()
    assert str(replayed["id"]).startswith("amux-relay-")
    assert replayed["params"] == {"protocolVersion": "2025-11-25"}
    return link
