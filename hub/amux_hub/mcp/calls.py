"""One tool call: its arguments, the operation, and its answer as one text block.

Promises: an argument that the tool's schema does not name is refused here, so nothing that a model writes can
become a session or a binding; a call that began ends, whatever its client does meanwhile; no block is longer
than `limits.PAGE_BYTES`. An unknown tool is a protocol error (MCP, "Tools", error handling); everything else
that goes wrong is a result with `isError`, which the model reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any, Protocol

from amux import limits
from amux.errors import AmuxError
from amux.tools import TOOLS
from amux_hub.admission import shutting_down
from amux_hub.identity import Caller, Peer
from amux_hub.logs import Throttle
from amux_hub.mcp.pages import Pages, compact
from amux_hub.mcp.preamble import Preamble
from amux_hub.memory import Memory, check_binding

log = logging.getLogger(__name__)
_throttle = Throttle()

METHODS = {
    "amux.memory_search": "search",
    "amux.memory_get": "get",
    "amux.memory_upsert": "upsert",
    "amux.memory_forget": "forget",
}
CONTINUE = "amux.result_continue"
ARGUMENTS: dict[str, frozenset[str]] = {tool["name"]: frozenset(tool["inputSchema"]["properties"]) for tool in TOOLS}

_LONGEST_TEXT = 512
"""Code points of one text in an error that would not fit a block otherwise."""


class Connection(Protocol):
    """One accepted and admitted connection, as the service knows it."""

    @property
    def peer(self) -> Peer: ...

    async def caller(self) -> Caller:
        """Raises `identity_refused` or `identity_unavailable`."""
        ...

    def moved(self, connected: socket.socket) -> None:
        """Its descriptor belongs to `connected` now: whoever ends it from outside ends that."""

    def hold(self, size: int) -> None:
        """`size` bytes of input wait to be taken. Raises `limit_exceeded` if that is more than its UID may have."""
        ...

    def request(self) -> contextlib.AbstractAsyncContextManager[None]:
        """One request slot. Entering raises `busy` or `shutting_down`."""
        ...


class Session:
    """What one connection remembers between its calls."""

    __slots__ = ("_bound", "_connection", "_end", "_memory", "_pages", "_running", "ending")

    def __init__(self, memory: Memory, connection: Connection, preamble: Preamble, end: Callable[[], None]) -> None:
        """`end` stops taking requests from this connection; those that were taken are still answered."""
        self._end = end
        self._memory = memory
        self._connection = connection
        self._pages = Pages()
        self._running: set[asyncio.Task[dict[str, Any]]] = set()
        self.ending = False
        self._bound = {"session": preamble.session, "binding": preamble.binding}

    def close(self) -> None:
        self._pages.clear()

    async def call(self, tool: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        """The text block that answers, and whether it is an error. `tool` must be one of `ARGUMENTS`."""
        if log.isEnabledFor(logging.DEBUG):
            log.debug("call %s", tool, extra={"amux": _fields(self._connection)})
        try:
            if self.ending:
                raise shutting_down()
            unknown = sorted(set(arguments) - ARGUMENTS[tool])
            if unknown:
                raise AmuxError(
                    "invalid_argument",
                    f"{tool} has no argument {unknown[0][:80]!r}; it takes {', '.join(sorted(ARGUMENTS[tool]))}",
                    argument=unknown[0][:80],
                )
            if tool == CONTINUE:
                return await self._continue(arguments), False
            reply = await self._run(METHODS[tool], {**arguments, **self._bound})
            return self._pages.first(compact(reply)), False
        except AmuxError as error:
            if error.code == "identity_refused":  # who is not served any more is not kept connected either
                note(self._connection, "refused: %s", error)
                self._end()
            return error_text(error), True
        except Exception:
            # The trace names code, never the arguments or the answer.
            log.exception("call failed: %s", tool, extra={"amux": _fields(self._connection)})
            return error_text(AmuxError("internal", f"{tool} failed inside the Hub: its log says why")), True

    async def _run(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run to the end even if the client cancels or leaves: a write that began is never half awaited."""
        task = asyncio.get_running_loop().create_task(self._admitted(method, parameters))
        self._running.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        finally:
            del task  # an error in it holds this frame by its traceback, and so what was sent, until a collection

    def _ended(self, task: asyncio.Task[dict[str, Any]]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # taken note of, even if nobody waits any more

    async def _admitted(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        async with self._connection.request():
            return await self._memory.call(self._connection.caller, method, parameters)

    async def _continue(self, arguments: dict[str, Any]) -> str:
        continuation = arguments.get("continuation")
        if not isinstance(continuation, str):
            raise AmuxError(
                "invalid_argument",
                f"{CONTINUE} needs the argument continuation: the text of that name in the page before",
                argument="continuation",
            )
        async with self._connection.request():
            check_binding(await self._connection.caller(), **self._bound)
            self._memory.check_enabled()
            return self._pages.get(continuation)


def note(connection: Connection, text: str, error: AmuxError) -> None:
    """Log what was refused: one record a minute for each UID and kind, however often it happens."""
    suppressed = _throttle.admit((connection.peer.uid, text, error.code))
    if suppressed is not None:
        log.warning(text, error.message, extra={"amux": {**_fields(connection), "more": suppressed}})


def _fields(connection: Connection) -> dict[str, object]:
    return {"uid": connection.peer.uid, "pid": connection.peer.pid}


def error_text(error: AmuxError) -> str:
    """`{"error": …}` in one block. Long texts are cut: an error that is not read whole helps nobody."""
    text = compact(error.to_json())
    if len(text.encode()) <= limits.PAGE_BYTES:
        return text
    short = AmuxError(error.code, _cut(error.message))
    text = compact(short.to_json())
    for key, value in error.details.items():
        short.details[key] = _cut(value) if isinstance(value, str) else value
        longer = compact(short.to_json())
        if len(longer.encode()) > limits.PAGE_BYTES:
            del short.details[key]
        else:
            text = longer
    return text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 1] + "…"
