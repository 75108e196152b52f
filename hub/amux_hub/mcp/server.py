"""MCP on mcp.sock: one SDK server object for all connections, one session for each.

Promises: the preamble is answered by one line before any MCP; `tools/list` is the table of `amux.tools` and
never changes in a Hub's life; both protocol eras are served (`initialize`, and `server/discover` of
2026-07-28). Must not know files, scopes or sockets' addresses.
"""

from __future__ import annotations

import asyncio
import logging
import socket

import mcp_types as types
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.exceptions import MCPError

from amux import __version__, limits
from amux.errors import AmuxError
from amux.tools import TOOLS
from amux_hub.admission import Admission, shutting_down
from amux_hub.mcp import preamble
from amux_hub.mcp.calls import ARGUMENTS, Connection, Session, note
from amux_hub.mcp.lines import Lines, Timeouts
from amux_hub.mcp.streams import Incoming, Outgoing
from amux_hub.memory import Memory, check_binding
from amux_hub.wire import strictjson

log = logging.getLogger(__name__)

INSTRUCTIONS = (
    "Long-term memory of the user you work for, kept as Markdown documents. Read MEMORY.md once at the start of "
    "a conversation; search before you answer about earlier work, decisions or preferences. To write, read the "
    "document first and pass its revision. If a tool says memory_disabled or hub_unavailable, go on without "
    "memory and do not keep anything elsewhere instead."
)
"""The same bytes for everybody and always: no memory, no time, no path."""

_LIST_MILLISECONDS = 60 * 60 * 1000
"""How long a client of 2026-07-28 may keep `tools/list`: it changes with the Hub's version alone."""

_VIOLATIONS = frozenset({"invalid_argument", "protocol_error"})

# The SDK logs, at debug level, what it was sent: memory; and it warns of each malformed notification, of which a peer
# may send as many as it likes. Its errors name methods and types alone.
logging.getLogger("mcp").setLevel(logging.ERROR)


_TOOLS = types.ListToolsResult.model_validate({"tools": TOOLS})


async def _list_tools(
    _: ServerRequestContext[Session], parameters: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    if parameters is not None and parameters.cursor is not None:
        raise MCPError(types.INVALID_PARAMS, "tools/list has one page: there is no cursor")
    return _TOOLS


async def _call_tool(
    context: ServerRequestContext[Session], parameters: types.CallToolRequestParams
) -> types.CallToolResult:
    if parameters.name not in ARGUMENTS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {parameters.name[:80]}")
    text, failed = await context.lifespan_context.call(parameters.name, parameters.arguments or {})
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=failed)


def sdk_server() -> Server[Session]:
    """The SDK's server. Its lifespan value is the session, given anew with each connection."""
    hint = CacheHint(ttl_ms=_LIST_MILLISECONDS, scope="public")
    server: Server[Session] = Server(
        "amux",
        version=__version__,
        title="amux memory",
        instructions=INSTRUCTIONS,
        cache_hints={"tools/list": hint, "server/discover": hint},
        on_list_tools=_list_tools,
        on_call_tool=_call_tool,
    )
    server.middleware.clear()  # OpenTelemetry: nothing here exports spans, and each call would pay for one
    return server


class McpServer:
    """Serves connections to mcp.sock until `drain`."""

    def __init__(self, memory: Memory, admission: Admission, timeouts: Timeouts) -> None:
        self._memory = memory
        self._admission = admission
        self._timeouts = timeouts
        self._server = sdk_server()
        self._options = self._server.create_initialization_options()
        self._open: dict[Lines, Session | None] = {}
        self._draining = False
        self._empty = asyncio.Event()

    async def serve(self, accepted: socket.socket, connection: Connection) -> None:
        """Serve one connection to its end and close it. Whoever calls this admitted and counts it."""
        lines = await Lines.open(accepted, self._timeouts, connection.hold)
        connection.moved(lines.taken)
        self._open[lines] = None
        try:
            try:
                greeting = await self._greet(lines, connection)
            except AmuxError as error:
                self._admission.counters.violations += error.code in _VIOLATIONS
                if not self._draining:
                    note(connection, "connection refused: %s", error)
                lines.write(preamble.refused(error))
                return
            if greeting is not None:
                lines.write(preamble.accepted())
                await self._session(lines, connection, Session(self._memory, connection, greeting, lines.shut))
        finally:
            await lines.finish()
            if lines.dropped is not None:
                self._admission.counters.connections_dropped += 1
                note(connection, "connection dropped: %s", lines.dropped)
            del self._open[lines]
            if self._draining and not self._open:
                self._empty.set()

    @staticmethod
    def refusal(error: AmuxError) -> bytes:
        """What a connection is sent that is refused before it is served: one line."""
        return preamble.refused(error) + b"\n"

    async def drain(self) -> None:
        """Finish and answer what runs, refuse what comes, say goodbye; return when every session ended."""
        self._draining = True
        for lines, session in self._open.items():
            if session is not None:
                session.ending = True
            lines.shut()
        if self._open:
            await self._empty.wait()

    async def _session(self, lines: Lines, connection: Connection, session: Session) -> None:
        incoming = Incoming(lines)
        outgoing = Outgoing(lines, incoming)
        self._open[lines] = session
        try:
            await serve_dual_era_loop(
                self._server, incoming, outgoing, lifespan_state=session, init_options=self._options
            )
            if session.ending:
                lines.write(preamble.CLOSING)
        finally:
            session.close()
            if incoming.violated is not None:
                self._admission.counters.violations += 1
                note(connection, "protocol violation: %s", incoming.violated)

    async def _greet(self, lines: Lines, connection: Connection) -> preamble.Preamble | None:
        """Read and check the first line; None if the peer left without one."""
        seconds = self._timeouts.first_frame
        try:
            async with asyncio.timeout(seconds):
                line = await lines.next_line(limits.PREAMBLE_BYTES)
        except TimeoutError:
            raise AmuxError(
                "protocol_error",
                f"the first line did not arrive within {seconds:g} s (timeouts.first_frame); the connection is closed",
                limit="timeouts.first_frame",
            ) from None
        if line is None:
            return None
        try:
            value = strictjson.loads(line)
        except AmuxError as error:
            raise AmuxError("invalid_argument", f"the first line is refused: {error.message}") from None
        greeting = preamble.parse(value)
        who = await connection.caller()
        check_binding(who, greeting.session, greeting.binding)
        if self._draining:
            raise shutting_down()
        return greeting
