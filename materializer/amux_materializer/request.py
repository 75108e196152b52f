"""What a client may say, and what it is answered: lines of JSON, each matched whole before anything is done with it.

Promises: a request has the three fields below and no other. None of them names a person, a path or a content; the two
that are used end in a file of the caller's own, which this caller could have written without us.
"""

from __future__ import annotations

import json
import re
import socket
import time
from typing import NamedTuple, NoReturn

LINE_BYTES = 4096
"""With its line feed."""

VERSION = 1
SESSION = re.compile(r"s-[a-z2-7]{26}")
BINDING = re.compile(r"global|principal:[^:/\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
BINDING_BYTES = len("principal:") + 255


class RefusedError(Exception):
    """A code of docs/reference/errors.md, and a text that says what to do."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Request(NamedTuple):
    """Both are the client's word, and only for the client's own copy of `amux`."""

    session: str
    binding: str


def parse(line: bytes) -> Request:
    """Raises `RefusedError`."""
    value = _object(line)
    version = value.get("amux")
    if type(version) is not int or version != VERSION:
        raise RefusedError(
            "version_mismatch", f"this materializer speaks version {VERSION}, not {version!r:.40}: restart it"
        )
    if surplus := sorted(value.keys() - {"amux", "session", "binding"}):
        raise RefusedError(
            "invalid_argument",
            f"unknown field {surplus[0]!r:.60}: a launch is the connecting account's, and no field changes that",
        )
    session, binding = value.get("session"), value.get("binding")
    if not isinstance(session, str) or not SESSION.fullmatch(session):
        raise RefusedError("invalid_argument", f"session is {session!r:.60}, not s- and 26 characters a-z, 2-7")
    if not isinstance(binding, str) or not BINDING.fullmatch(binding) or len(binding.encode()) > BINDING_BYTES:
        raise RefusedError("invalid_argument", f"binding is {binding!r:.60}, neither global nor principal:NAME")
    return Request(session, binding)


def is_locked(line: bytes) -> bool:
    """Whether it is the client's word that it holds the lock."""
    value = _object(line)
    return value.keys() == {"locked"} and value["locked"] is True


def connection(request: Request, hub: str) -> bytes:
    """The file that the launch's copy of `amux` reads."""
    return say({"hub": hub, "session": request.session, "binding": request.binding})


def say(value: dict[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def error(refused: RefusedError) -> bytes:
    return say({"error": {"code": refused.code, "message": refused.message}})


class Reader:
    """Lines of one connection. Raises `RefusedError` for what is too long, too late or cut."""

    def __init__(self, peer: socket.socket) -> None:
        self._peer = peer

    def line(self, seconds: float) -> bytes:
        """The next line, without what ends it; nothing may stand behind it, for it is our turn to speak."""
        deadline = time.monotonic() + seconds
        data = b""
        while b"\n" not in data:
            self._peer.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                more = self._peer.recv(LINE_BYTES + 1 - len(data))
            except TimeoutError:
                raise RefusedError("protocol_error", f"no whole line within {seconds:g} s") from None
            except OSError as failure:
                raise RefusedError("protocol_error", f"the connection failed: {failure.strerror}") from None
            if not more:
                raise RefusedError("protocol_error", "the connection ended before a whole line")
            data += more
            if len(data) > LINE_BYTES:
                raise RefusedError("limit_exceeded", f"a line has over {LINE_BYTES} bytes")
        line, _, rest = data.partition(b"\n")
        if rest:
            raise RefusedError("protocol_error", "something stands behind the line")
        return line


def _object(line: bytes) -> dict[str, object]:
    """A JSON object without what JSON readers differ about: keys said twice, NaN."""
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_constant)
    except (ValueError, RecursionError) as problem:
        raise RefusedError("protocol_error", f"the line is no JSON ({type(problem).__name__})") from None
    if not isinstance(value, dict):
        raise RefusedError("protocol_error", "the line is no JSON object")
    return value


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(name)
