"""io.amux.Hub: who am I, what does this Hub offer, how is it doing."""

# No postponed annotations: asyncvarlink reads them when the class is made.
import os
import time
import typing

from asyncvarlink import VarlinkInterface, varlinkmethod

from amux import __version__, limits
from amux.errors import AmuxError
from amux_hub import metrics
from amux_hub.interfaces.errors import ERRORS
from amux_hub.interfaces.shared import Shared
from amux_hub.wire.accept import Connection

OPERATIONS = ["search", "get", "upsert", "forget", "list"]


class WhoAmIReply(typing.TypedDict):
    uid: int
    account: str
    principal: str
    scope: str
    binding: str
    isolation: bool
    administrator: bool


class CapabilitiesReply(typing.TypedDict):
    version: str
    interfaces: list[str]
    operations: list[str]
    limits: dict[str, int]


class _Status(typing.TypedDict):
    version: str
    pid: int
    uptime_ms: int
    isolation: bool
    memory_enabled_saved: bool
    memory_enabled_running: bool
    draining: bool
    connections: int
    connections_accepted: int
    connections_refused: int
    connections_dropped: int
    requests_running: int
    requests_served: int
    requests_refused: int
    violations: int


class StatusReply(_Status, total=False):
    home: str
    config_file: str


class MetricsReply(typing.TypedDict):
    text: str


class HubInterface(VarlinkInterface, name="io.amux.Hub"):
    """The Hub itself: who the caller is to it, what it offers, how it is doing.

    A call may carry the extension field `amux`, the client's version as "major.minor". The Hub serves its own
    and the previous minor version; another gets VersionMismatch. Every error of the io.amux interfaces is
    one of those below; `message` is for people, `details` holds the same facts for programs.
    """

    errors = ERRORS

    def __init__(self, shared: Shared, connection: Connection, interfaces: tuple[str, ...]) -> None:
        self._shared = shared
        self._connection = connection
        self._interfaces = interfaces

    @varlinkmethod
    async def WhoAmI(self) -> WhoAmIReply:  # noqa: N802 - the wire's name
        """Who the caller is, from what the kernel says about the connection.

        `scope` names the memory that the caller's operations use: "global" or "principal:<id>". `binding` is
        the value of AMUX_MEMORY_BINDING that such a conversation carries.
        """
        caller = await self._connection.caller()
        return {
            "uid": caller.uid,
            "account": caller.account,
            "principal": caller.principal,
            "scope": caller.scope,
            "binding": caller.binding,
            "isolation": bool(self._shared.running["isolation"]),
            "administrator": caller.administrator,
        }

    @varlinkmethod
    async def GetCapabilities(self) -> CapabilitiesReply:  # noqa: N802
        """What a client can rely on: interfaces, operations of the memory, and limits by name."""
        await self._connection.caller()
        running = self._shared.running
        return {
            "version": __version__,
            "interfaces": list(self._interfaces),
            "operations": list(OPERATIONS),
            "limits": {
                "entry_bytes": limits.ENTRY_BYTES,
                "entry_lines": limits.ENTRY_LINES,
                "document_bytes": limits.DOCUMENT_BYTES,
                "scope_documents": limits.SCOPE_DOCUMENTS,
                "scope_bytes": limits.SCOPE_BYTES,
                "path_bytes": limits.PATH_BYTES,
                "query_bytes": limits.QUERY_BYTES,
                "query_terms": limits.QUERY_TERMS,
                "search_maximum": limits.SEARCH_MAXIMUM,
                "reply_bytes": limits.REPLY_BYTES,
                "page_bytes": limits.PAGE_BYTES,
                "frame_bytes": limits.FRAME_BYTES,
                "connections_per_uid": int(running["limits.connections_per_uid"]),
                "requests_per_uid": int(running["limits.requests_per_uid"]),
            },
        }

    @varlinkmethod
    async def GetStatus(self) -> StatusReply:  # noqa: N802
        """How the Hub is doing. Counts are since its start; `home` and `config_file` only for administrators.

        `memory_enabled_saved` is what the next start will use, `memory_enabled_running` what is in force.
        """
        caller = await self._connection.caller()
        shared = self._shared
        configured = await shared.configured_or_running()
        admission, counters = shared.admission, shared.admission.counters
        status: StatusReply = {
            "version": __version__,
            "pid": os.getpid(),
            "uptime_ms": int((time.monotonic() - shared.started) * 1000),
            "isolation": bool(shared.running["isolation"]),
            "memory_enabled_saved": bool(configured["memory.enabled"]),
            "memory_enabled_running": bool(shared.running["memory.enabled"]),
            "draining": admission.draining,
            "connections": admission.connections,
            "connections_accepted": counters.connections_accepted,
            "connections_refused": counters.connections_refused,
            "connections_dropped": counters.connections_dropped,
            "requests_running": admission.requests,
            "requests_served": counters.requests_served,
            "requests_refused": counters.requests_refused,
            "violations": counters.violations,
        }
        if caller.administrator:
            status["home"] = str(shared.running["home"])
            status["config_file"] = shared.config.file
        return status

    @varlinkmethod
    async def GetMetrics(self) -> MetricsReply:  # noqa: N802
        """The Hub's numbers in Prometheus' text form, for administrators. The one reply that is not bounded."""
        caller = await self._connection.caller()
        if not caller.administrator:
            raise AmuxError("forbidden", f"UID {caller.uid} is no administrator of this Hub: ask one", uid=caller.uid)
        shared = self._shared
        refusals = shared.administration.refusals
        return {"text": metrics.render(metrics.of_hub(shared.running, shared.admission, refusals))}
