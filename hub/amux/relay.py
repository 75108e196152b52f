"""`amux mcp`: MCP on standard input and output, relayed to the Hub's mcp.sock, across restarts of the Hub.

Promises: standard output carries protocol messages alone; a read that a restart cut off is sent again; a write
is sent again only if the Hub cannot have run it, otherwise its answer is `outcome_uncertain`; every request is
answered, at the latest RECONNECT_SECONDS after the Hub went away (docs/explanation/restarts.md). It keeps no
memory and understands no more of MCP than ids, the handshake and the names of the tools that write. It must
not import asyncio, click or subprocess: an agent waits for it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections import deque

from amux import endpoint, limits, tools
from amux.errors import CODES, EXIT_OK, EXIT_USAGE, AmuxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PROTOCOL = 1
START_SECONDS = 5.0
"""How long the first connection may take until it is answered; then the relay ends with exit 8."""
RECONNECT_SECONDS = 10.0
"""How long one request waits for a Hub that went away."""

_PAUSES = (0.02, 0.25)
"""The first and the longest pause between attempts to connect, in seconds."""
_TRANSIENT = frozenset({"hub_unavailable", "shutting_down", "busy", "identity_unavailable"})
"""What may be better at the next attempt; any other refusal is an answer."""

_READ = 64 * 1024
_QUEUED = 1024 * 1024
"""Bytes waiting in one direction above which the other end of it is not read."""
_CALLS = 256
"""Unanswered requests above which standard input is not read."""
_KEPT = 8 * limits.FRAME_BYTES
"""Of a line that is too long, so much is kept to find its id, which clients put first or last."""

_PARSE_ERROR, _INVALID_REQUEST, _SERVER_ERROR = -32700, -32600, -32000  # JSON-RPC 2.0, section 5.1
_MODERN = "io.modelcontextprotocol/protocolVersion"
"""Each request of MCP 2026-07-28 says so in its `_meta`; there, results carry a `resultType`."""


class _Call:
    """One request of the client that is not answered yet."""

    __slots__ = ("deadline", "id", "line", "message", "method", "sent")

    def __init__(self, message: dict[str, Any], line: bytes) -> None:
        self.id: str | int = message["id"]
        self.method = message["method"]
        self.message = message if self.method in ("initialize", "server/discover") else None
        self.line = line
        self.sent = False
        """Whether any byte of it left on the connection of now."""
        self.deadline: float | None = None
        """When to give up waiting for a Hub; None while there is one."""

    def parameters(self) -> dict[str, Any]:
        found = json.loads(self.line).get("params")
        return found if isinstance(found, dict) else {}

    def writes(self) -> str | None:
        """The path that this call may change, None if it changes nothing."""
        if self.method != "tools/call":
            return None
        parameters = self.parameters()
        if parameters.get("name") not in tools.WRITES:
            return None
        arguments = parameters.get("arguments")
        path = arguments.get("path") if isinstance(arguments, dict) else None
        return path if isinstance(path, str) else ""


class Relay:
    """The two conversations: with the client on `source` and `sink`, with the Hub on one link at a time.

    `source` and `sink` may be shared with other processes, so they stay blocking: only what poll(2) says is
    ready is read, and only what a pipe is sure to take is written.
    """

    def __init__(self, where: endpoint.Endpoint, greeting: bytes, source: int = 0, sink: int = 1) -> None:
        self._where = where
        self._greeting = greeting
        self._source, self._sink = source, sink
        self._source_open = True
        self._input = bytearray()
        self._skipping = False
        self._output = bytearray()
        self._calls: list[_Call] = []
        self._handshake: dict[str, Any] | None = None
        self._initialized = False
        self._replays = 0
        self._why = AmuxError("hub_unavailable", f"{where} did not answer")
        self._attempt_at, self._pause = 0.0, _PAUSES[0]
        self._forget_link()

    def _forget_link(self) -> None:
        self._link: endpoint.Connection | None = None
        self._greeted = False
        self._leaving = False
        """The Hub takes nothing further on this link: it stops, or closed its side."""
        self._goodbye = False
        """The Hub said that it ran nothing but what it answered."""
        self._received = bytearray()
        self._queue: deque[tuple[_Call | None, bytes]] = deque()
        self._queued = 0
        self._head = 0

    # The life of the relay

    def start(self) -> None:
        """The first connection, with its refusals as exceptions. Nothing of the client is read before."""
        until = time.monotonic() + START_SECONDS
        while not self._greeted:
            left = until - time.monotonic()
            if left <= 0:
                raise AmuxError(
                    "hub_unavailable",
                    f"{self._where} did not answer within {START_SECONDS:g} s ({self._why.message})",
                )
            if self._link is None:
                self._open(min(left, endpoint.REFUSED_SECONDS))
                self._why = AmuxError("hub_unavailable", f"connected, but no answer; try: {self._where.start}")
            assert self._link is not None
            poll = select.poll()
            poll.register(self._link.socket, select.POLLIN | (select.POLLOUT if self._queue else 0))
            for _, events in poll.poll(left * 1000):
                self._hub_ready(events)
            if self._link is None:
                if self._why.code not in _TRANSIENT or self._why.details.pop("retry", True) is not True:
                    raise self._why
                time.sleep(min(_PAUSES[1], max(until - time.monotonic(), 0)))

    def run(self) -> int:
        """Relay until the client closed its side and everything is answered; the exit status."""
        while True:
            now = time.monotonic()
            self._give_up(now)
            if self._link is None and self._calls and now >= self._attempt_at:
                self._reconnect(now)
            if not self._source_open and not self._calls and not self._output:
                return EXIT_OK
            poll = select.poll()
            # Even without events, poll tells when nobody reads the sink any more.
            poll.register(self._sink, select.POLLOUT if self._output else 0)
            if self._source_open and self._has_room():
                poll.register(self._source, select.POLLIN)
            if self._link is not None:
                wanted = (select.POLLIN if len(self._output) < _QUEUED else 0) | (
                    select.POLLOUT if self._queue and not self._leaving else 0
                )
                poll.register(self._link.socket, wanted)
            for fd, events in poll.poll(self._timeout(now)):
                if fd == self._sink:
                    if events & ~select.POLLOUT or not self._write():
                        return EXIT_OK
                elif fd == self._source:
                    self._read()
                elif self._link is not None and fd == self._link.socket.fileno():
                    self._hub_ready(events)

    def _has_room(self) -> bool:
        return len(self._output) < _QUEUED and self._queued < _QUEUED and len(self._calls) < _CALLS

    def _usable(self) -> bool:
        return self._greeted and not self._leaving

    def _timeout(self, now: float) -> float | None:
        """Milliseconds until something is due although no descriptor is ready."""
        if self._usable() or not self._calls:
            return None
        times = [call.deadline for call in self._calls if call.deadline is not None]
        if self._link is None:
            times.append(self._attempt_at)
        return max(min(times) - now, 0) * 1000 + 1 if times else None

    # The client

    def _read(self) -> None:
        try:
            data = os.read(self._source, _READ)
        except OSError:  # closed, or a terminal that went away: the same as its end
            data = b""
        if not data:
            self._source_open = False
            data = b"\n" if self._input or self._skipping else b""
        start = len(self._input)
        self._input += data
        while (end := self._input.find(b"\n", start)) >= 0:
            line = bytes(self._input[:end])
            del self._input[: end + 1]
            start = 0
            if self._skipping:
                self._skipping = False
                self._refuse(None, _INVALID_REQUEST, _too_long("over " + str(_KEPT)))
            else:
                self._line(line)
        if len(self._input) > _KEPT:
            self._input.clear()
            self._skipping = True

    def _line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(None, _PARSE_ERROR, AmuxError("protocol_error", "a line that is no JSON was not sent on"))
            return
        if not isinstance(message, dict):
            error = AmuxError("protocol_error", "a line that is no JSON object was not sent on: no batches")
            self._refuse(None, _INVALID_REQUEST, error)
        elif "method" not in message or "id" not in message:
            if len(line) <= limits.FRAME_BYTES:
                self._notification(message, line)
        elif not _is_id(message["id"]):
            error = AmuxError("protocol_error", "the id of a request is a string or a whole number")
            self._refuse(None, _INVALID_REQUEST, error)
        else:
            call = _Call(message, line)
            if len(line) > limits.FRAME_BYTES:
                self._answer(call, _too_long(str(len(line))))
                return
            self._calls.append(call)
            if self._usable():
                self._enqueue(call, line)
            else:
                call.deadline = time.monotonic() + RECONNECT_SECONDS

    def _notification(self, message: dict[str, Any], line: bytes) -> None:
        """What needs no answer: it goes to the Hub of now or, but for the handshake, nowhere."""
        method = message.get("method")
        if method == "notifications/initialized":
            self._initialized = True
        elif method == "notifications/cancelled":
            parameters = message.get("params")
            call = self._find(parameters.get("requestId")) if isinstance(parameters, dict) else None
            if call is not None:
                self._calls.remove(call)  # MCP: a request that was cancelled is not answered
                if not call.sent:
                    self._unqueue(call)
                    return
        if self._usable():
            self._enqueue(None, line)

    def _find(self, name: object) -> _Call | None:
        """The oldest unanswered call of this id: 1 and "1" are two ids, and a client may repeat one."""
        for call in self._calls:
            if call.id == name and isinstance(call.id, str) == isinstance(name, str):
                return call
        return None

    def _write(self) -> bool:
        """Write what fits; False once nobody reads any more."""
        try:
            written = os.write(self._sink, self._output[: select.PIPE_BUF])
        except OSError:
            return False
        del self._output[:written]
        return True

    def _refuse(self, name: str | int | None, code: int, error: AmuxError) -> None:
        body = {"code": code, "message": error.message, "data": error.to_json()["error"]}
        self._say({"jsonrpc": "2.0", "id": name, "error": body})

    def _answer(self, call: _Call, error: AmuxError) -> None:
        """Answer a call in the Hub's place."""
        if call.method != "tools/call":
            self._refuse(call.id, _SERVER_ERROR, error)
            return
        text = json.dumps(error.to_json(), ensure_ascii=False, separators=(",", ":"))
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
        meta = call.parameters().get("_meta")
        if isinstance(meta, dict) and _MODERN in meta:
            result["resultType"] = "complete"
        self._say({"jsonrpc": "2.0", "id": call.id, "result": result})

    def _say(self, message: dict[str, Any]) -> None:
        self._output += json.dumps(message, separators=(",", ":")).encode() + b"\n"

    # The Hub

    def _open(self, wait: float) -> None:
        """A new link, with the greeting queued. Raises AmuxError."""
        self._forget_link()
        self._link = self._where.connect("mcp", wait)
        self._link.socket.setblocking(False)
        self._enqueue(None, self._greeting)

    def _reconnect(self, now: float) -> None:
        try:
            self._open(0)
        except AmuxError as error:
            self._failed(error, now)

    def _failed(self, error: AmuxError, now: float) -> None:
        """An attempt came to nothing: try again in a moment, or tell everybody who waits."""
        self._why = error
        self._attempt_at = now + self._pause
        self._pause = min(self._pause * 2, _PAUSES[1])
        if error.code not in _TRANSIENT:
            for call in self._calls:
                self._answer(call, error)
            self._calls.clear()

    def _give_up(self, now: float) -> None:
        """Answer the calls for which no Hub came in time."""
        if self._usable():
            return
        for call in [call for call in self._calls if call.deadline is not None and call.deadline <= now]:
            if not call.sent:
                self._calls.remove(call)
                self._unqueue(call)
                text = f"the Hub went away and did not come back within {RECONNECT_SECONDS:g} s: {self._why.message}"
                self._answer(call, AmuxError("hub_unavailable", text))

    def _enqueue(self, call: _Call | None, line: bytes) -> None:
        self._queue.append((call, line + b"\n"))
        self._queued += len(line) + 1

    def _unqueue(self, call: _Call) -> None:
        for entry in self._queue:
            if entry[0] is call:
                self._queue.remove(entry)
                self._queued -= len(entry[1])
                return

    def _hub_ready(self, events: int) -> None:
        if events & select.POLLOUT:
            self._send()
        if events & ~select.POLLOUT:
            self._receive()

    def _send(self) -> None:
        assert self._link is not None
        while self._queue:
            call, line = self._queue[0]
            try:
                taken = self._link.socket.send(memoryview(line)[self._head :])
            except BlockingIOError:
                return
            except OSError:
                self._leaving = True  # no byte was taken; what the Hub still has to say can be read
                self._wait_for_another()
                return
            if call is not None:
                call.sent = True
            self._head += taken
            self._queued -= taken
            if self._head == len(line):
                self._queue.popleft()
                self._head = 0

    def _receive(self) -> None:
        assert self._link is not None
        try:
            data = self._link.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._received += data
        while self._link is not None and (end := self._received.find(b"\n")) >= 0:
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            self._from_hub(line)
        if self._link is not None and (not data or len(self._received) > limits.FRAME_BYTES):
            self._lost()

    def _from_hub(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            self._lost()
            return
        if not self._greeted:
            self._greeting_answered(message)
        elif "amux" in message:
            self._leaving = self._goodbye = self._goodbye or message.get("closing") is True
            self._wait_for_another()
        elif "method" in message:
            self._output += line + b"\n"
        else:
            self._answered(message, line)

    def _greeting_answered(self, message: dict[str, Any]) -> None:
        refusal = message.get("error")
        if message.get("amux") == PROTOCOL and refusal is None:
            self._greeted = True
            self._pause = _PAUSES[0]
            self._replay()
            return
        assert self._link is not None
        self._link.close()
        self._forget_link()
        self._failed(_refusal(refusal), time.monotonic())

    def _replay(self) -> None:
        """Bring a new Hub to where the last one was: the handshake, then every call without an answer."""
        if self._handshake is not None:
            self._replays += 1
            again = {**self._handshake, "id": f"amux-relay-{self._replays}"}
            self._enqueue(None, json.dumps(again).encode())
            if self._initialized and self._handshake["method"] == "initialize":
                self._enqueue(None, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        for call in self._calls:
            self._enqueue(call, call.line)

    def _answered(self, message: dict[str, Any], line: bytes) -> None:
        name = message.get("id")
        call = self._find(name)
        if call is None:
            if not (isinstance(name, str) and name.startswith("amux-relay-")):
                self._output += line + b"\n"  # of a call that was cancelled meanwhile, or of no call
            return
        if b"shutting_down" in line and _is_shutting_down(message):
            call.sent = False  # it was not run: the next Hub gets it
            self._leaving = True
            self._wait_for_another()
            return
        self._calls.remove(call)
        if call.message is not None and "result" in message:
            self._handshake = call.message
        self._output += line + b"\n"

    def _wait_for_another(self) -> None:
        """The Hub of now takes nothing further: what it does not answer waits for the next one."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        for call in self._calls:
            call.deadline = call.deadline or deadline

    def _lost(self) -> None:
        """The link ended: decide for each call without an answer whether it may be sent again."""
        assert self._link is not None
        now = time.monotonic()
        greeted, goodbye = self._greeted, self._goodbye
        if greeted:
            self._link.close()
            why = AmuxError("hub_unavailable", f"{self._where} closed the connection")
        else:
            why = self._link.hung_up()
        self._forget_link()
        for call in list(self._calls):
            path = call.writes() if call.sent and not goodbye else None
            if path is not None:
                self._calls.remove(call)
                self._answer(call, _uncertain(path))
            call.sent = False
        self._wait_for_another()
        self._why = why
        if greeted:
            self._attempt_at = now  # most often the next Hub is there already
        else:
            self._failed(why, now)


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_shutting_down(message: dict[str, Any]) -> bool:
    """Whether this answer says that the Hub stops and did not run the call."""
    try:
        if "error" in message:
            return bool(message["error"]["data"]["code"] == "shutting_down")
        result = message["result"]
        if result.get("isError") is not True:
            return False
        return bool(json.loads(result["content"][0]["text"])["error"]["code"] == "shutting_down")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False


def _refusal(error: object) -> AmuxError:
    """The error of a refused greeting; whatever else came is `protocol_error`."""
    if isinstance(error, dict) and error.get("code") in CODES and isinstance(error.get("message"), str):
        return AmuxError(error["code"], error["message"])
    return AmuxError("protocol_error", "what listens there does not answer as a Hub does: check AMUX_HUB")


def _uncertain(path: str) -> AmuxError:
    shown = path if len(path) <= limits.PATH_BYTES else path[: limits.PATH_BYTES]
    return AmuxError(
        "outcome_uncertain",
        f"the Hub went away before it answered: whether {shown} was changed is unknown; read it again before "
        "you repeat this",
        path=shown,
    )


def _too_long(found: str) -> AmuxError:
    return AmuxError(
        "limit_exceeded",
        f"one message has at most {limits.FRAME_BYTES} bytes, this one has {found}: it was not sent; a document has "
        f"at most {limits.DOCUMENT_BYTES}",
        limit="frame_bytes",
        value=limits.FRAME_BYTES,
        found=found,
    )


def greeting_of(environ: Mapping[str, str]) -> bytes:
    """The first line: the session and the binding of a launch, if the environment names them.

    Raises `invalid_argument` if they do not fit `limits.PREAMBLE_BYTES`.
    """
    greeting: dict[str, object] = {"amux": PROTOCOL}
    for key, variable in (("session", "AMUX_SESSION"), ("binding", "AMUX_MEMORY_BINDING")):
        if environ.get(variable):
            greeting[key] = environ[variable]
    line = json.dumps(greeting, separators=(",", ":")).encode()
    if len(line) > limits.PREAMBLE_BYTES:
        raise AmuxError(
            "invalid_argument",
            f"AMUX_SESSION and AMUX_MEMORY_BINDING are too long: together {len(line)} bytes of the "
            f"{limits.PREAMBLE_BYTES} of the first line",
        )
    return line


def main(argv: list[str]) -> int:
    """`amux mcp`. Everything that goes wrong before the first message is one line on standard error."""
    from amux import output

    if argv:
        output.line(2, "amux mcp: it takes no arguments; an MCP client starts it and speaks on standard input")
        return EXIT_USAGE
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends without a trace of Python on the client's terminal
    try:
        relay = Relay(endpoint.choose(), greeting_of(os.environ))
        relay.start()
    except AmuxError as error:
        output.line(2, f"amux mcp: {error.message}")
        return error.exit_status
    return relay.run()
