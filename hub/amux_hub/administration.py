"""What an administrator sees and decides about people: principals, what they store, who is connected.

Promises: never content, never a document's name; what changes rights is told to the audit; nobody keeps a connection
under rights that ended here. Pages are bounded, in order, and continued by the last entry's key. All on the loop, what
blocks in threads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.audit import Audit, Field
from amux_hub.identity import Caller, scope_of
from amux_hub.people import HostIdentity
from amux_hub.registry import Record, Registry
from amux_hub.sessions import Sessions
from amux_hub.store import Store
from amux_hub.store.root import GLOBAL
from amux_hub.wire.accept import Connection

T = TypeVar("T")


class Host(NamedTuple):
    """What a system Hub has beside the memory."""

    registry: Registry
    identity: HostIdentity
    audit: Audit


class Measured(NamedTuple):
    """What a scope holds; `refused` says why it could not be looked at."""

    scope: str
    documents: int
    bytes: int
    refused: str = ""


class Administration:
    """`host` is None at a private Hub."""

    def __init__(
        self, store: Store, sessions: Sessions, connections: set[Connection], *, isolation: bool, host: Host | None
    ) -> None:
        self._store = store
        self._sessions = sessions
        self._connections = connections
        self._isolation = isolation
        self._host = host
        self._deciding = asyncio.Lock()

    def _people(self) -> Host:
        if self._host is None:
            raise AmuxError("forbidden", "a private Hub serves its owner alone: it has no principals to administer")
        return self._host

    def told(self, event: str, by: Caller, **fields: Field) -> None:
        """Tell the audit what an administrator did elsewhere; a private Hub has none."""
        if self._host is not None:
            self._host.audit.did(event, uid=by.uid, **fields)

    # Looking

    @property
    def refusals(self) -> dict[str, int]:
        """Since the start, by reason; a private Hub audits nothing."""
        return {} if self._host is None else self._host.audit.refusals

    async def principals(self, after: str, most: int) -> tuple[list[Record], int]:
        """Records behind `after`, and how many there are in all."""
        registry, _, _ = self._people()
        records = await asyncio.to_thread(registry.records)
        return _page(records, after, most, lambda record: record.principal), len(records)

    def principal(self, name: str) -> Record:
        registry, _, _ = self._people()
        record = registry.get(name)
        if record is None:
            raise AmuxError("not_found", f"there is no principal {name[:80]!r}", principal=name[:80])
        return record

    async def usage(self, after: str, most: int) -> tuple[list[Measured], int]:
        """What each scope behind `after` holds, and how many scopes there are in all.

        Whole scopes, for a principal may be called `global` too.
        """
        scopes = [GLOBAL]
        if self._host is not None and self._isolation:
            records = await asyncio.to_thread(self._host[0].records)
            scopes += [scope_of(record.principal, isolation=True) for record in records]
        chosen = _page(scopes, after, most, lambda scope: scope)
        return [await asyncio.to_thread(self._measure, scope) for scope in chosen], len(scopes)

    def _measure(self, scope: str) -> Measured:
        try:
            return Measured(scope, *self._store.scope(scope).measure())
        except AmuxError as error:  # one that cannot be looked at hides no other
            return Measured(scope, 0, 0, error.message)

    def connections(self, after: int, most: int) -> tuple[list[Connection], int]:
        """Open connections, oldest first, skipping `after`; and how many there are in all."""
        found = sorted(self._connections, key=lambda one: one.since)
        return found[after : after + most], len(found)

    @staticmethod
    def age(connection: Connection) -> float:
        """Seconds since it was accepted."""
        return time.monotonic() - connection.since

    # Deciding

    async def rebind(self, by: Caller, principal: str, old_uid: int, new_uid: int) -> Record:
        """Let the account of `new_uid` take the place of the one with `old_uid`; both must be disconnected."""
        registry, identity, audit = self._people()
        async with self._deciding:
            for uid in sorted({old_uid, new_uid}):
                self._check_disconnected(uid)
            account = await asyncio.to_thread(accounts.account_of, new_uid)
            if account is None:
                raise AmuxError("not_found", f"UID {new_uid} has no account on this host: make it first", uid=new_uid)
            record = await asyncio.to_thread(registry.rebind, principal, old_uid, account)
            for uid in (old_uid, new_uid):
                identity.forget(uid)
            audit.did("rebind", uid=by.uid, principal=principal, old_uid=old_uid, new_uid=new_uid, account=account.name)
        return record

    async def retire(self, by: Caller, principal: str) -> Record:
        """End a principal, and its connections; its memory stays."""
        registry, identity, audit = self._people()
        async with self._deciding:
            before = self.principal(principal)
            record = await asyncio.to_thread(registry.retire, principal)
            for pin in before.accounts:
                identity.forget(pin.uid)
                self._end(pin.uid)
            if not before.retired:
                audit.did("retire", uid=by.uid, principal=principal)
        return record

    async def purge(self, by: Caller, principal: str) -> bool:
        """Delete the memory, the launch states and the record of a retired principal; whether there was any memory."""
        registry, _, audit = self._people()
        async with self._deciding:
            if not self.principal(principal).retired:
                raise AmuxError(
                    "forbidden",
                    f"principal {principal} is not retired: amux admin principals retire comes first",
                    principal=principal,
                )
            scope = self._store.scope(scope_of(principal, isolation=True))
            gone = await asyncio.to_thread(scope.purge)
            await asyncio.to_thread(self._sessions.purge, principal)
            await asyncio.to_thread(registry.remove, principal)
            audit.did("purge", uid=by.uid, principal=principal, memory=gone)
        return gone

    def _check_disconnected(self, uid: int) -> None:
        found = sum(one.peer.uid == uid for one in self._connections)
        if found:
            raise AmuxError(
                "busy",
                f"UID {uid} has {found} connections open: end its agents first; amux admin connections shows them",
                uid=uid,
                found=found,
                retry_after_ms=1000,
            )

    def _end(self, uid: int) -> None:
        for connection in [one for one in self._connections if one.peer.uid == uid]:
            connection.end()


def _page(entries: Iterable[T], after: str, most: int, key: Callable[[T], str]) -> list[T]:
    """Up to `most` of `entries`, in order, whose key comes behind `after`."""
    found = sorted((entry for entry in entries if key(entry) > after), key=key)
    return found[:most]
