"""1,000 idle MCP sessions: what one costs the Hub, and that every one of them still answers."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.ours import SESSIONS
from tests.bench.processes import memory_kib, say
from tests.harness import Hub, until

_WARM = 32
_CLIENT = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


@dataclass(frozen=True)
class Idle:
    """`errors` counts sessions that did not open or did not answer; memory is of the Hub's process."""

    sessions: int
    errors: int
    kib_each: float
    rss_before: float
    rss_during: float


def allow_descriptors(count: int) -> None:
    """Raise the soft limit of descriptors, of this process and of the Hub that it starts, setrlimit(2)."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def measure(hub: Hub) -> Idle:
    """Open the sessions as `amux mcp` does (its first line, the handshake, tools/list), leave them, call each once.

    Over the sockets themselves: 1,000 relays would measure the machine, not the Hub.
    """
    say(f"{SESSIONS} idle MCP sessions")
    # What the first sessions bring into memory once is no cost of a session.
    for connection in [_open(hub) for _ in range(_WARM)]:
        _search(connection)
        connection.close()
    until(lambda: _connections(hub) <= 1, "the first sessions ended")
    before = memory_kib(hub.pid, "VmRSS")
    opened: list[socket.socket] = []
    errors = 0
    for _ in range(SESSIONS):
        try:
            opened.append(_open(hub))
        except (OSError, ValueError, KeyError):
            errors += 1
    during = memory_kib(hub.pid, "VmRSS")
    for connection in opened:
        try:
            _search(connection)
        except (OSError, ValueError, KeyError):
            errors += 1
    for connection in opened:
        connection.close()
    return Idle(SESSIONS, errors, (during - before) / SESSIONS, before / 1024, during / 1024)


def _connections(hub: Hub) -> int:
    found: int = hub.call("io.amux.Hub.GetStatus")["parameters"]["connections"]
    return found


def _open(hub: Hub) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(str(hub.sockets["mcp"]))
    connection.sendall(b'{"amux":1}\n')
    if json.loads(_line(connection))["amux"] != 1:
        raise ValueError("the first line was refused")
    _request(connection, 1, "initialize", _CLIENT)
    connection.sendall(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    _request(connection, 2, "tools/list", {})
    return connection


def _search(connection: socket.socket) -> None:
    arguments = {"name": "amux.memory_get", "arguments": {"path": "MEMORY.md"}}
    if _request(connection, 3, "tools/call", arguments)["isError"]:
        raise ValueError("the call failed")


def _request(
    connection: socket.socket, number: int, method: str, parameters: Mapping[str, object]
) -> dict[str, object]:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": parameters}
    connection.sendall(json.dumps(message).encode() + b"\n")
    answer: dict[str, object] = json.loads(_line(connection))["result"]
    return answer


def _line(connection: socket.socket) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        data = connection.recv(65536)
        if not data:
            raise ConnectionError("the Hub closed the session")
        received += data
    return received
