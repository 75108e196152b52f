"""Who is calling at a system Hub: account → PAM verdict → principal → scope. docs/explanation/identity.md draws it.

Promises: each step either answers or refuses by name; an error is never `global`. Root is the administrator and has
no memory. Nothing found out is used later than `identity.verdict_seconds` after it was asked; then everything is asked
again, for connections that live on too. Nothing here blocks the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.accounts import Account
from amux_hub.audit import Audit
from amux_hub.identity import Caller, Peer, check_principal, refuse_nobody, scope_of
from amux_hub.registry import Registry
from amux_hub.verdicts import ALLOW, Verdicts

THREADS = 8
"""For the name service: one that hangs holds up eight callers, and nobody who is known already."""

ROOT = Caller(0, "root", "", "", administrator=True)


@dataclass(frozen=True)
class People:
    """What hub.yaml says of people: account → principal, and the system accounts that may have a memory."""

    aliases: Mapping[str, str]
    services: frozenset[str]


class VerdictError(AmuxError):
    """The host's PAM account stack says no. `verdict` is its class: for the audit alone, the caller is not told."""

    def __init__(self, account: Account, verdict: str) -> None:
        what = f"the account of UID {account.uid} may not be used now: ask the administrator"
        super().__init__("identity_refused", what, uid=account.uid)
        self.account = account.name
        self.verdict = verdict


class HostIdentity:
    """A system Hub's identity. `people` and `seconds` are asked for each time, since a reload may change them.

    Refusals and enrolments are told to `audit`, with the class of a verdict, which the caller is not told.
    """

    def __init__(
        self,
        registry: Registry,
        verdicts: Verdicts,
        *,
        isolation: bool,
        people: Callable[[], People],
        seconds: Callable[[], float],
        audit: Audit,
    ) -> None:
        self._registry = registry
        self._verdicts = verdicts
        self._isolation = isolation
        self._people = people
        self._seconds = seconds
        self._audit = audit
        self._known: dict[int, tuple[Caller, float]] = {}
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="names")
        self._finding: dict[int, asyncio.Task[Caller]] = {}

    def forget(self, uid: int | None = None) -> None:
        """Find out anew the next time: one UID, or all (an administrator decided, or the configuration changed).

        A search that is under way answers those who wait for it, and nobody else.
        """
        self._verdicts.forget(uid)
        if uid is None:
            self._known.clear()
            self._finding.clear()
        else:
            self._known.pop(uid, None)
            self._finding.pop(uid, None)

    def knows(self, uid: int) -> bool:
        """Whether what was found out about a UID still holds. Nobody who was refused is known."""
        return self._remembered(uid) is not None

    def known(self, peer: Peer) -> Caller | None:
        """The caller, if who that is was found out and still holds."""
        return self._remembered(peer.uid)

    def _remembered(self, uid: int) -> Caller | None:
        known = self._known.get(uid)
        return known[0] if known is not None and known[1] > time.monotonic() else None

    async def identify(self, peer: Peer) -> Caller:
        """Raises `identity_refused` or `identity_unavailable`."""
        known = self._remembered(peer.uid)
        if known is not None:
            return known
        if peer.uid == 0:
            return ROOT
        try:
            refuse_nobody(peer)
            return await self._found(peer)
        except AmuxError as error:
            reason = error.verdict if isinstance(error, VerdictError) else error.code
            account = error.account if isinstance(error, VerdictError) else error.details.get("account")
            self._audit.refused("identify", peer.uid, reason, pid=peer.pid, account=str(account or ""))
            raise

    async def _found(self, peer: Peer) -> Caller:
        """One search for a UID at a time, which all who ask for it wait for."""
        task = self._finding.get(peer.uid)
        if task is None:
            task = self._finding[peer.uid] = asyncio.get_running_loop().create_task(self._find(peer.uid))
            task.add_done_callback(lambda done: self._found_out(peer.uid, done))
        return await asyncio.shield(task)

    def _found_out(self, uid: int, task: asyncio.Task[Caller]) -> None:
        if self._finding.get(uid) is task:
            del self._finding[uid]

    async def _find(self, uid: int) -> Caller:
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        people = self._people()
        account = await loop.run_in_executor(self._threads, self._account, uid, people)
        verdict = await self._verdicts.of(uid)
        if verdict.word != ALLOW:
            raise VerdictError(account, verdict.word)
        alias = people.aliases.get(account.name)
        check_principal(account.name if alias is None else alias)
        principal, new = await loop.run_in_executor(self._threads, self._registry.principal_of, account, alias)
        if new:
            self._audit.did("enrol", uid=uid, account=account.name, principal=principal)
        scope = scope_of(principal, isolation=self._isolation)
        caller = Caller(uid, account.name, principal, scope, administrator=False)
        if self._finding.get(uid) is asyncio.current_task():
            # The verdict may be a remembered one, of a search that the registry ended.
            self._known[uid] = caller, min(began, verdict.asked) + self._seconds()
        return caller

    def _account(self, uid: int, people: People) -> Account:
        """In a thread: the account, if it is one that may have a memory."""
        account = accounts.account_of(uid)
        if account is None:
            raise AmuxError(
                "identity_refused", f"UID {uid} has no account on this host: it is not served", uid=uid
            )
        if accounts.is_system(uid, accounts.uid_min()) and account.name not in people.services:
            raise AmuxError(
                "identity_refused",
                f"account {account.name} (UID {uid}) is a system account and has no memory unless the administrator "
                "names it in identity.services of hub.yaml",
                uid=uid,
                account=account.name,
            )
        return account

    def close(self) -> None:
        """Wait for the name service, then give up the registry."""
        self._threads.shutdown()
        self._registry.close()
