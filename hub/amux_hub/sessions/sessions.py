"""The operations on launch state: begin, resume, name, list, show, end.

The order of checks is fixed: grammar, identity, switch, whose it is, binding. A session of somebody else is answered
as one that never was. Files are touched in threads, for one UID one at a time.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from amux.errors import AmuxError
from amux_hub.audit import Audit
from amux_hub.identity import Caller
from amux_hub.memory import Memory, check_binding
from amux_hub.sessions import record
from amux_hub.sessions.files import Files
from amux_hub.sessions.record import Session
from amux_hub.threads import Threads
from amux_hub.turns import Turns

THREADS = 4
THREADS_PER_UID = 1

_RIGHTS = frozenset({"identity_refused", "memory_disabled", "binding_mismatch"})

T = TypeVar("T")
Who = Callable[[], Awaitable[Caller]]
"""Answers the caller of a connection, or raises identity_refused or identity_unavailable."""


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Sessions:
    """The launch state of the Hub at `home`; `memory` has the switch, `audit` is told what concerns rights."""

    def __init__(self, home: str, memory: Memory, audit: Audit | None = None) -> None:
        self._audit = audit
        self._files = Files(home)
        self._memory = memory
        self._threads = Threads(THREADS)
        self._turns = Turns(THREADS_PER_UID)

    async def begin(self, who: Who, agent: str, kind: str, isolation: str, parent: str) -> Session:
        """A new conversation, bound to the scope that the caller has now.

        Raises `memory_disabled` while the switch is off, `identity_refused` for who has no memory, storage errors.
        """
        record.check_agent(agent)
        record.check_kind(kind)
        record.check_isolation(isolation)
        if parent:
            record.check_id(parent, "parent")
        caller = await self._owner("begin", who)
        with self._audited("begin", caller):
            self._memory.check_enabled()
        now = _now()
        session = Session(
            id=record.new_id(),
            principal=caller.principal,
            binding=caller.scope,
            agent=agent,
            kind=kind,
            isolation=isolation,
            created=now,
            last_used=now,
            parent=parent,
        )
        await self._run(caller, partial(self._files.put, session))
        self._did("begin", caller, session.id)
        return session

    async def resume(self, who: Who, session_id: str) -> Session:
        """What it began with, which nothing changes; works while the switch is off.

        Raises `not_found`, or `binding_mismatch` if the caller's scope is now another.
        """
        record.check_id(session_id)
        caller = await self._owner("resume", who)
        with self._audited("resume", caller):
            session = await self._run(caller, partial(self._resume, caller, session_id))
        self._did("resume", caller, session_id)
        return session

    async def set_native(self, who: Who, session_id: str, native: str) -> None:
        """Tell the agent's own id of the conversation, once: the same again is fine, another is a `conflict`."""
        record.check_id(session_id)
        record.check_native(native)
        caller = await self._owner("set_native", who)
        await self._run(caller, partial(self._set_native, caller, session_id, native))

    async def of_caller(self, who: Who, after: str) -> list[Session]:
        """Those whose id comes behind `after`, by id."""
        if after:
            record.check_id(after, "after")
        caller = await self._owner("list", who)
        owned = await self._run(caller, partial(self._files.of, caller.principal))
        return [session for session in owned if session.id > after]

    async def show(self, who: Who, session_id: str) -> Session:
        """Raises `not_found`."""
        record.check_id(session_id)
        caller = await self._owner("show", who)
        return await self._run(caller, partial(self._find, caller, session_id))

    async def end(self, who: Who, session_id: str) -> None:
        """Forget the launch state, not memory: it cannot be resumed any more. Raises `not_found`."""
        record.check_id(session_id)
        caller = await self._owner("end", who)
        await self._run(caller, lambda: self._files.remove(self._find(caller, session_id)))
        self._did("end", caller, session_id)

    def purge(self, principal: str) -> None:
        """Forget all of a principal, which nobody is any more. Blocks."""
        for session in self._files.of(principal):
            self._files.remove(session)

    def close(self) -> None:
        """Wait for what runs in threads."""
        self._threads.shutdown()
        self._files.close()

    async def _owner(self, event: str, who: Who) -> Caller:
        """The caller, who has a memory. Raises `identity_refused`."""
        caller = await who()
        with self._audited(event, caller):
            check_binding(caller, "", "")
        return caller

    @contextlib.contextmanager
    def _audited(self, event: str, caller: Caller) -> Iterator[None]:
        """Tell the audit of a refusal that has to do with rights."""
        try:
            yield
        except AmuxError as error:
            if self._audit is not None and error.code in _RIGHTS:
                self._audit.refused(event, caller.uid, error.code, principal=caller.principal)
            raise

    def _did(self, event: str, caller: Caller, session_id: str) -> None:
        if self._audit is not None:
            who = {"account": caller.account, "principal": caller.principal, "scope": caller.scope}
            self._audit.did(event, uid=caller.uid, session=session_id, **who)

    # In a thread

    async def _run(self, caller: Caller, work: Callable[[], T]) -> T:
        give_back = await self._turns.take(caller.uid)
        return await self._threads.call(work, give_back)

    def _find(self, caller: Caller, session_id: str) -> Session:
        session = self._files.get(caller.principal, session_id)
        if session is None:
            raise AmuxError(
                "not_found",
                f"you have no session {session_id}: it ended, was dropped for newer ones, or never was; see amux "
                "session list",
                session=session_id,
            )
        return session

    def _resume(self, caller: Caller, session_id: str) -> Session:
        session = self._find(caller, session_id)
        check_binding(caller, session.id, session.binding)
        used = replace(session, last_used=_now())
        with contextlib.suppress(AmuxError):  # a full disk must not keep anybody from a conversation
            self._files.put(used)
        return used

    def _set_native(self, caller: Caller, session_id: str, native: str) -> None:
        session = self._find(caller, session_id)
        if session.native == native:
            return
        if session.native:
            raise AmuxError(
                "conflict",
                f"session {session_id} is the conversation {session.native} of {session.agent} and stays it: begin a "
                "new session",
                session=session_id,
            )
        self._files.put(replace(session, native=native))
