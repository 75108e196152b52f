"""Talking to sockets of a Hub and of amux-pam: one question, one bounded answer, a few seconds."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

from amux import limits
from amux_hub.identity import peer_of

SECONDS = 5.0


@dataclass(frozen=True)
class Running:
    """A Hub that answers. `status` is empty where it does not serve us, `refusal` then says why."""

    listener: int
    version: str
    status: dict[str, Any]
    refusal: str = ""


def exchange(path: str, request: bytes, end: bytes, seconds: float = SECONDS) -> tuple[int, bytes]:
    """Connect, send, read until `end`, the other side closes, or a frame is full; the listener's UID and the answer.

    Raises OSError, TimeoutError among them.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.settimeout(seconds)
        connected.connect(path)
        listener = peer_of(connected).uid
        connected.sendall(request)
        answer = b""
        while end not in answer and len(answer) <= limits.FRAME_BYTES:
            part = connected.recv(65536)
            if not part:
                break
            answer += part
        return listener, answer.partition(end)[0]


def leave(path: str, seconds: float = SECONDS) -> int:
    """Connect, say goodbye without a word, wait until the other side closes; the listener's UID.

    It shows that a Hub serves, and asks for nothing that it could refuse: root has no memory, and every refusal is
    in the audit. Raises OSError, TimeoutError among them.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected:
        connected.settimeout(seconds)
        connected.connect(path)
        connected.shutdown(socket.SHUT_WR)
        while connected.recv(65536):
            pass
        return peer_of(connected).uid


def call(path: str, method: str) -> tuple[int, dict[str, Any]]:
    """One Varlink call without parameters: the listener's UID and the reply. Raises OSError, or ValueError."""
    listener, answer = exchange(path, json.dumps({"method": method, "parameters": {}}).encode() + b"\0", b"\0")
    reply = json.loads(answer)
    if not isinstance(reply, dict):
        raise ValueError("no object")
    return listener, reply


def running(path: str, *, served: bool) -> Running:
    """Ask the Hub for its version, which it tells everybody, and for its status. Raises OSError, ValueError.

    Without `served` it is not asked for the status: it would refuse, and count that in the audit.
    """
    listener, info = call(path, "org.varlink.service.GetInfo")
    version = str(_parameters(info).get("version", "unknown"))
    if not served:
        return Running(listener, version, {}, "it tells its status to root and to accounts of people")
    _, reply = call(path, "io.amux.Hub.GetStatus")
    if "error" in reply:
        return Running(listener, version, {}, str(_parameters(reply).get("message", reply["error"])))
    return Running(listener, version, _parameters(reply))


def _parameters(reply: dict[str, Any]) -> dict[str, Any]:
    found = reply.get("parameters")
    return found if isinstance(found, dict) else {}
