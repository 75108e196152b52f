"""Varlink inputs against a running Hub, several connections at a time.

Each input is followed by a call of ours whose answer is known. Promises of the wire that are held here: each
frame is answered by one frame or, after a violation, by one `protocol_error` and the end; no answer but an
interface description is over 8,192 bytes; nothing is answered `internal`; what is no JSON at all never passes.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from random import Random
from typing import Any

from amux import limits
from amux.errors import CODES, varlink_name
from tests.fuzz import generators
from tests.fuzz.failure import FoundError

WAIT_SECONDS = 60.0
CONNECTIONS = 8

_NAMES = {varlink_name(code) for code in CODES}
_SERVICE_NAMES = {"org.varlink.service." + name for name in ("InterfaceNotFound", "MethodNotFound", "InvalidParameter")}
_VIOLATION = varlink_name("protocol_error")
_INTERNAL = varlink_name("internal")


def must_violate(frame: bytes) -> bool:
    """Whether no parser of anybody's takes this for a call; the converse is the Hub's business."""
    try:
        message = json.loads(frame.decode())
    except (ValueError, RecursionError):
        return True
    return not isinstance(message, dict) or not isinstance(message.get("method"), str)


class Line:
    """One connection that is opened again whenever the Hub closed it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._frames: list[bytes] = []
        self._token = ""
        self._sent = b""
        self._ends = False

    def send(self, data: bytes, token: str, manner: str) -> None:
        """Write one input. `manner`: at once, byte by byte, or with the sending side shut behind it."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.settimeout(WAIT_SECONDS)
            self._socket.connect(str(self._path))
            self._buffer = b""
        self._token = token
        self._sent = data
        self._ends = manner == "shut"
        ours = json.dumps({"method": "io.amux.Memory.Get", "parameters": {"path": token}}).encode() + b"\0"
        whole = data if self._ends else data + ours
        self._frames = whole.split(b"\0")
        try:
            if manner == "dribble":
                for at in range(min(len(whole), 200)):
                    self._socket.sendall(whole[at : at + 1])
                whole = whole[200:]
            self._socket.sendall(whole)
            if self._ends:
                self._socket.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the Hub gave up in the middle: its answer is still there to be read

    def receive(self) -> int:
        """Read what the Hub makes of it. Answers 1 for a violation. Raises FoundError."""
        expected = sum(1 for frame in self._frames[:-1])
        violates = any(must_violate(frame) for frame in self._frames[:-1])
        last: dict[str, Any] = {}
        answers = 0
        while (answer := self._answer()) is not None:
            answers += 1
            last = answer
            if answers > expected:
                raise FoundError(f"{answers} answers to {expected} messages: {str(answer)[:300]}", self._sent)
            if not violates and answer.get("parameters", {}).get("path") == self._token:
                return 0
        self._close()
        violated = last.get("error") == _VIOLATION
        if violates and not violated:
            raise FoundError(f"a message that is none was not refused; last came {str(last)[:300]}", self._sent)
        if not violated and not self._ends:
            raise FoundError(f"the connection was closed without a violation, after {str(last)[:300]}", self._sent)
        return int(violated)

    def _answer(self) -> dict[str, Any] | None:
        while b"\0" not in self._buffer:
            assert self._socket is not None
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise FoundError(f"neither an answer nor an end within {WAIT_SECONDS:g} s", self._sent) from None
            except ConnectionResetError:
                data = b""
            if not data:
                if self._buffer:
                    raise FoundError(f"the stream ended inside a frame: {self._buffer[:300]!r}", self._sent)
                return None
            self._buffer += data
        frame, _, self._buffer = self._buffer.partition(b"\0")
        return self._checked(frame)

    def _checked(self, frame: bytes) -> dict[str, Any]:
        answer = json.loads(frame.decode())
        if not isinstance(answer, dict) or not isinstance(answer.get("parameters"), dict):
            raise FoundError(f"an answer is no reply: {frame[:300]!r}", self._sent)
        name = answer.get("error")
        if name == _INTERNAL or (name is not None and name not in _NAMES | _SERVICE_NAMES):
            raise FoundError(f"the Hub answered {frame[:500]!r}", self._sent)
        if len(frame) >= limits.REPLY_BYTES and "description" not in answer["parameters"]:
            raise FoundError(f"an answer has {len(frame) + 1} bytes", self._sent)
        return answer

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def leave(self) -> None:
        """Go without reading anything."""
        self._close()


def manner(rng: Random) -> str:
    return rng.choices(("whole", "dribble", "shut", "leave"), (92, 3, 3, 2))[0]


class Wire:
    """A target: `one(index)` sends an input; violations are counted. Every sixteenth goes to admin.sock."""

    def __init__(self, hub: Path, admin: Path, seed: int) -> None:
        self._seed = seed
        self._lines = [Line(hub if number < CONNECTIONS - 1 else admin) for number in range(CONNECTIONS)]
        self.violations = 0

    def batch(self, first: int, count: int, fixed: list[bytes] | None = None) -> None:
        """Inputs `first` to `first + count - 1`, at most CONNECTIONS. Raises FoundError."""
        waiting: list[tuple[int, Line]] = []
        for index, line in zip(range(first, first + count), self._lines, strict=False):
            rng = Random(f"{self._seed}:wire:{index}")
            data = generators.wire(rng) if fixed is None else fixed[index - first]
            how = manner(rng) if fixed is None else "whole"
            line.send(data, f"token-{index}.md", how)
            if how == "leave":
                line.leave()
            else:
                waiting.append((index, line))
        for index, line in waiting:
            try:
                self.violations += line.receive()
            except FoundError as error:
                error.add_note(f"wire input {index} of seed {self._seed}")
                raise

    def close(self) -> None:
        for line in self._lines:
            line.leave()
