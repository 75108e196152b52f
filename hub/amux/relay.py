"""`amux mcp`: MCP on standard input and output, relayed to the Hub's mcp.sock, across restarts of the Hub.

Promises: standard output carries protocol messages alone; a read that a restart cut off is sent again; a write
is sent again only if the Hub cannot have run it, otherwise its answer is `outcome_uncertain`; every request is
answered, at the latest RECONNECT_SECONDS after the Hub went away (docs/reference/mcp.md). It must not import
asyncio, click or subprocess: an agent waits for it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time

from amux import endpoint, limits, relay_call
from amux.errors import EXIT_OK, EXIT_USAGE, AmuxError
from amux.relay_call import INVALID_REQUEST, PARSE_ERROR, Call
from amux.relay_ends import KEPT, QUEUED, Client, Link

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
_CALLS = 256
"""Unanswered requests above which standard input is not read."""
_REPLAYED = "amux-relay-"
"""How the ids begin of requests that are the relay's own, whose answers no client sees."""


class Relay:
    """The two conversations: with the client on `source` and `sink`, with the Hub on one link at a time."""

    def __init__(self, where: endpoint.Endpoint, greeting: bytes, source: int = 0, sink: int = 1) -> None:
        self._where = where
        self._greeting = greeting
        self._source, self._sink = source, sink
        self._client = Client(source, sink)
        self._link: Link | None = None
        self._calls: list[Call] = []
        self._handshake: dict[str, Any] | None = None
        self._initialized = False
        self._replays = 0
        self._why = AmuxError("hub_unavailable", f"{where} did not answer")
        self._attempt_at, self._pause = 0.0, _PAUSES[0]

    # The life of the relay

    def start(self) -> None:
        """The first connection, with its refusals as exceptions. Nothing of the client is read before."""
        until = time.monotonic() + START_SECONDS
        while self._link is None or not self._link.greeted:
            left = until - time.monotonic()
            if left <= 0:
                raise AmuxError(
                    "hub_unavailable", f"{self._where} did not answer within {START_SECONDS:g} s ({self._why.message})"
                )
            if self._link is None:
                link = self._open(min(left, endpoint.REFUSED_SECONDS))
                self._why = AmuxError("hub_unavailable", f"connected, but no answer; try: {self._where.start}")
            poll = select.poll()
            poll.register(link.connection.socket, select.POLLIN | (select.POLLOUT if link.sending else 0))
            for _, events in poll.poll(left * 1000):
                self._hub_ready(link, events)
            if self._link is None:
                if self._why.code not in _TRANSIENT or self._why.details.pop("retry", True) is not True:
                    raise self._why
                time.sleep(min(_PAUSES[1], max(until - time.monotonic(), 0)))

    def run(self) -> int:
        """Relay until the client closed its side and everything is answered; the exit status."""
        client = self._client
        while True:
            now = time.monotonic()
            self._give_up(now)
            if self._link is None and self._calls and now >= self._attempt_at:
                self._reconnect(now)
            if not client.open and not self._calls and not client.waiting:
                return EXIT_OK
            poll = select.poll()
            # Even without events, poll tells when nobody reads the sink any more.
            poll.register(self._sink, select.POLLOUT if client.waiting else 0)
            if client.open and self._has_room():
                poll.register(self._source, select.POLLIN)
            link = self._link
            hub = -1
            if link is not None:
                hub = link.connection.socket.fileno()
                wanted = select.POLLIN if client.waiting < QUEUED else 0
                poll.register(hub, wanted | (select.POLLOUT if link.sending else 0))
            for fd, events in poll.poll(self._timeout(now)):
                if fd == self._sink:
                    if events & ~select.POLLOUT or not client.write():
                        return EXIT_OK
                elif fd == self._source:
                    self._client_ready()
                elif fd == hub and link is not None and link is self._link:
                    self._hub_ready(link, events)

    def _has_room(self) -> bool:
        queued = 0 if self._link is None else self._link.queued
        return self._client.waiting < QUEUED and queued < QUEUED and len(self._calls) < _CALLS

    def _usable(self) -> Link | None:
        """The link, if requests may be sent on it."""
        return self._link if self._link is not None and self._link.usable else None

    def _timeout(self, now: float) -> float | None:
        """Milliseconds until something is due although no descriptor is ready."""
        if self._usable() is not None or not self._calls:
            return None
        times = [call.deadline for call in self._calls if call.deadline is not None and not call.sent]
        if self._link is None:
            times.append(self._attempt_at)
        return max(min(times) - now, 0) * 1000 + 1 if times else None

    # The client

    def _client_ready(self) -> None:
        for line in self._client.read():
            if line is None:
                self._refuse(INVALID_REQUEST, relay_call.too_long(f"over {KEPT}"))
            elif line.strip():
                self._line(line)

    def _refuse(self, code: int, error: AmuxError) -> None:
        self._client.say(relay_call.failed(None, code, error))

    def _line(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._refuse(PARSE_ERROR, AmuxError("protocol_error", "a line that is no JSON was not sent on"))
            return
        if not isinstance(message, dict):
            error = AmuxError("protocol_error", "a line that is no JSON object was not sent on: no batches")
            self._refuse(INVALID_REQUEST, error)
        elif "method" not in message or "id" not in message:
            if len(line) <= limits.FRAME_BYTES:
                self._notification(message, line)
        elif not relay_call.is_id(message["id"]):
            error = AmuxError("protocol_error", relay_call.WANTED_ID)
            self._refuse(INVALID_REQUEST, error)
        else:
            self._request(message, Call(message, line))

    def _request(self, message: dict[str, Any], call: Call) -> None:
        if len(call.line) > limits.FRAME_BYTES:
            self._client.say(call.failed(relay_call.too_long(str(len(call.line)))))
            return
        if relay_call.is_crowded(message, call.line):
            self._client.say(relay_call.failed(call.id, PARSE_ERROR, relay_call.crowded()))
            return
        self._calls.append(call)
        link = self._usable()
        if link is not None:
            link.enqueue(call, call.line)
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
                    if self._link is not None:
                        self._link.forget(call)
                    return
        link = self._usable()
        if link is not None:
            link.enqueue(None, line)

    def _find(self, name: object) -> Call | None:
        """The oldest unanswered call of this id: 1 and "1" are two ids, and a client may repeat one."""
        for call in self._calls:
            if call.id == name and isinstance(call.id, str) == isinstance(name, str):
                return call
        return None

    # The Hub

    def _open(self, wait: float) -> Link:
        """A new link, with the first line queued. Raises AmuxError."""
        link = Link(self._where.connect("mcp", wait))
        link.enqueue(None, self._greeting)
        self._link = link
        return link

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
                self._client.say(call.failed(error))
            self._calls.clear()

    def _give_up(self, now: float) -> None:
        """Answer the calls for which no Hub came in time."""
        if self._usable() is not None:
            return
        text = f"the Hub went away and did not come back within {RECONNECT_SECONDS:g} s: {self._why.message}"
        for call in list(self._calls):
            if call.deadline is not None and call.deadline <= now and not call.sent:
                self._calls.remove(call)
                if self._link is not None:
                    self._link.forget(call)
                self._client.say(call.failed(AmuxError("hub_unavailable", text)))

    def _hub_ready(self, link: Link, events: int) -> None:
        if events & select.POLLOUT:
            link.send()
            if link.leaving:
                self._wait_for_another()
        if events & ~select.POLLOUT:
            lines = link.receive()
            for line in lines or []:
                if self._link is link:
                    self._from_hub(link, line)
            if lines is None and self._link is link:
                self._lost(link)

    def _from_hub(self, link: Link, line: bytes) -> None:
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("no object")
        except (ValueError, RecursionError):
            self._lost(link)
            return
        if not link.greeted:
            self._greeted(link, message)
        elif "amux" in message:
            link.leaving = True
            link.goodbye = link.goodbye or message.get("closing") is True
            self._wait_for_another()
        elif "method" in message:
            self._client.say(line + b"\n")
        else:
            self._answered(link, message, line)

    def _greeted(self, link: Link, message: dict[str, Any]) -> None:
        if message.get("amux") == PROTOCOL and "error" not in message:
            link.greeted = True
            self._pause = _PAUSES[0]
            self._replay(link)
            return
        link.connection.close()
        self._link = None
        self._failed(relay_call.refusal(message.get("error")), time.monotonic())

    def _replay(self, link: Link) -> None:
        """Bring a new Hub to where the last one was: the handshake, then every call without an answer."""
        if self._handshake is not None:
            self._replays += 1
            again = {**self._handshake, "id": f"{_REPLAYED}{self._replays}"}
            link.enqueue(None, json.dumps(again).encode())
            if self._initialized and self._handshake["method"] == "initialize":
                link.enqueue(None, b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        for call in self._calls:
            link.enqueue(call, call.line)

    def _answered(self, link: Link, message: dict[str, Any], line: bytes) -> None:
        name = message.get("id")
        call = self._find(name)
        if call is None:
            if not (isinstance(name, str) and name.startswith(_REPLAYED)):
                self._client.say(line + b"\n")  # of a call that was cancelled meanwhile, or of no call
            return
        if b"shutting_down" in line and relay_call.is_shutting_down(message):
            call.sent = False  # it was not run: the next Hub gets it
            link.leaving = True
            self._wait_for_another()
            return
        self._calls.remove(call)
        if call.handshake is not None and "result" in message:
            self._handshake = call.handshake
        self._client.say(line + b"\n")

    def _wait_for_another(self) -> None:
        """The Hub of now takes nothing further: what it does not answer waits for the next one."""
        deadline = time.monotonic() + RECONNECT_SECONDS
        for call in self._calls:
            call.deadline = call.deadline or deadline

    def _lost(self, link: Link) -> None:
        """The link ended: decide for each call without an answer whether it may be sent again."""
        now = time.monotonic()
        if link.greeted:
            link.connection.close()
            why = AmuxError("hub_unavailable", f"{self._where} closed the connection")
        else:
            why = link.connection.hung_up()
        self._link = None
        for call in list(self._calls):
            path = call.writes() if call.sent and not link.goodbye else None
            if path is not None:
                self._calls.remove(call)
                self._client.say(call.failed(relay_call.uncertain(path)))
            call.sent = False
        self._wait_for_another()
        self._why = why
        if link.greeted:
            self._attempt_at = now  # most often the next Hub is there already
        else:
            self._failed(why, now)


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
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, else the connection would get it
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # ends without a trace of Python on the client's terminal
    try:
        relay = Relay(endpoint.choose(), greeting_of(os.environ))
        relay.start()
    except AmuxError as error:
        output.line(2, f"amux mcp: {error.message}")
        return error.exit_status
    return relay.run()
