"""The part of io.amux.Admin that is about people: principals, usage, connections."""

# No postponed annotations: asyncvarlink reads them when the class is made.
import typing

from asyncvarlink import varlinkmethod

from amux import limits
from amux.errors import AmuxError
from amux_hub.administration import Administration, Measured
from amux_hub.identity import Caller
from amux_hub.interfaces.shared import REPLY_BUDGET, fitting
from amux_hub.registry import Record
from amux_hub.wire import strictjson

PAGE = 20
"""Entries of one page; fewer where their names are long."""


class Account(typing.TypedDict):
    name: str
    uid: int
    by: str


class Principal(typing.TypedDict):
    principal: str
    first_seen: str
    accounts: list[Account]
    former: list[Account]
    retired: str


class _Principals(typing.TypedDict):
    principals: list[Principal]
    total: int


class PrincipalsReply(_Principals, total=False):
    next_after: str


class _Usage(typing.TypedDict):
    scope: str
    principal: str
    documents: int
    bytes: int


class Usage(_Usage, total=False):
    refused: str


class _UsageReply(typing.TypedDict):
    usage: list[Usage]
    total: int
    scope_documents: int
    scope_bytes: int


class UsageReply(_UsageReply, total=False):
    next_after: str


class Connected(typing.TypedDict):
    uid: int
    pid: int
    listener: str
    seconds: int


class _ConnectionsReply(typing.TypedDict):
    connections: list[Connected]
    total: int


class ConnectionsReply(_ConnectionsReply, total=False):
    next_after: int


class PurgeReply(typing.TypedDict):
    principal: str
    memory_removed: bool


class PeopleMethods:
    """Mixed into the interface, which says who is an administrator."""

    _administration: Administration

    async def _administrator(self) -> Caller:
        raise NotImplementedError

    @varlinkmethod
    async def ListPrincipals(self, *, after: str | None = None) -> PrincipalsReply:  # noqa: N802 - the wire's name
        """Principals by name, a page at a time: when there are more, `next_after` is the next call's `after`."""
        await self._administrator()
        records, total = await self._administration.principals(after or "", PAGE)
        shown = fitting([_short(_principal(record)) for record in records])
        reply: PrincipalsReply = {"principals": shown, "total": total}
        if shown and (len(shown) < len(records) or len(records) == PAGE):
            reply["next_after"] = shown[-1]["principal"]
        return reply

    @varlinkmethod
    async def GetPrincipal(self, *, principal: str) -> Principal:  # noqa: N802
        """One principal: its accounts, those it had, and when it was retired, if it was."""
        await self._administrator()
        return _short(_principal(self._administration.principal(principal)))

    @varlinkmethod
    async def RebindPrincipal(self, *, principal: str, old_uid: int, new_uid: int) -> Principal:  # noqa: N802
        """Put the account of `new_uid` in the place of the one with `old_uid`, which may be the same, renamed.

        Busy while either is connected.
        """
        by = await self._administrator()
        _check_uids(old_uid, new_uid)
        return _short(_principal(await self._administration.rebind(by, principal, old_uid, new_uid)))

    @varlinkmethod
    async def RetirePrincipal(self, *, principal: str) -> Principal:  # noqa: N802
        """Nobody is this principal any more: its connections end, its accounts are free, its memory stays."""
        by = await self._administrator()
        return _short(_principal(await self._administration.retire(by, principal)))

    @varlinkmethod
    async def PurgePrincipal(self, *, principal: str) -> PurgeReply:  # noqa: N802
        """Delete the memory, the launch states and the record of a retired principal. There is no undo."""
        by = await self._administrator()
        return {"principal": principal, "memory_removed": await self._administration.purge(by, principal)}

    @varlinkmethod
    async def GetUsage(self, *, after: str | None = None) -> UsageReply:  # noqa: N802
        """Documents and bytes of each memory, against what one may hold.

        The scope "global" is everybody's; "principal:" and a name is that principal's, also of one called global.
        """
        await self._administrator()
        found, total = await self._administration.usage(after or "", PAGE)
        usage = [_usage(one) for one in found]
        shown = fitting(usage)
        reply: UsageReply = {
            "usage": shown,
            "total": total,
            "scope_documents": limits.SCOPE_DOCUMENTS,
            "scope_bytes": limits.SCOPE_BYTES,
        }
        if shown and (len(shown) < len(found) or len(found) == PAGE):
            reply["next_after"] = shown[-1]["scope"]
        return reply

    @varlinkmethod
    async def ListConnections(self, *, after: int | None = None) -> ConnectionsReply:  # noqa: N802
        """Open connections, oldest first: whose, over which socket, since how many seconds. `after` counts them."""
        await self._administrator()
        first = max(after or 0, 0)
        found, total = self._administration.connections(first, 4 * PAGE)
        age = self._administration.age
        shown: list[Connected] = [
            {"uid": one.peer.uid, "pid": one.peer.pid, "listener": one.listener, "seconds": int(age(one))}
            for one in found
        ]
        reply: ConnectionsReply = {"connections": shown, "total": total}
        if first + len(shown) < total:
            reply["next_after"] = first + len(shown)
        return reply


def _usage(one: Measured) -> Usage:
    usage: Usage = {
        "scope": one.scope,
        "principal": one.scope.removeprefix("principal:"),
        "documents": one.documents,
        "bytes": one.bytes,
    }
    if one.refused:
        usage["refused"] = one.refused
    return usage


def _principal(record: Record) -> Principal:
    return {
        "principal": record.principal,
        "first_seen": record.first_seen,
        "accounts": [{"name": pin.name, "uid": pin.uid, "by": pin.by} for pin in record.accounts],
        "former": [{"name": pin.name, "uid": pin.uid, "by": pin.by} for pin in record.former],
        "retired": record.retired,
    }


def _short(entry: Principal) -> Principal:
    """One that fits a reply: of very many accounts the oldest are left out, former ones first."""
    while len(strictjson.dumps(entry)) > REPLY_BUDGET and (entry["former"] or entry["accounts"]):
        del (entry["former"] or entry["accounts"])[0]
    return entry


def _check_uids(*uids: int) -> None:
    for uid in uids:
        if not 0 < uid < 0xFFFFFFFF:
            raise AmuxError("invalid_argument", f"{uid} is no UID of a person", uid=uid)
