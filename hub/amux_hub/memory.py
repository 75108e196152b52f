"""The operations on memory, for every front end: one call in, one answer or `AmuxError` out.

The order of checks is fixed: grammar, identity, switch, content, revision, quota. Everything that touches a
file runs in a thread; of one caller's UID only a few at a time, so that one person's flood leaves threads for
the others.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping

from amux import limits
from amux.errors import AmuxError
from amux_hub.audit import Audit
from amux_hub.identity import Caller
from amux_hub.store import Store
from amux_hub.store.owner import OwnerError
from amux_hub.store.paths import check_document, check_prefix
from amux_hub.store.read import check_range
from amux_hub.store.reply import Reply
from amux_hub.store.scope import Scope
from amux_hub.store.text import parse_query
from amux_hub.threads import Threads
from amux_hub.turns import Turns

THREADS = 16
THREADS_PER_UID = 4

_REVISION = re.compile(r"absent|[0-9a-f]{64}")
_BINDING = re.compile(r"global|principal:[^:/\x00-\x1f\x7f]{1,255}")
_SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

_WRITES = frozenset({"upsert", "forget"})
_RIGHTS = frozenset({"identity_refused", "binding_required", "binding_mismatch", "memory_disabled"})

Who = Callable[[], Awaitable[Caller]]
"""Answers the caller of a connection, or raises identity_refused or identity_unavailable."""

_Run = Callable[[Scope], Reply]


class _Get:
    """A get, which may need no thread: `Store.ready`."""

    __slots__ = ("arguments",)

    def __init__(self, path: str, start_line: int, end_line: int, offset: int) -> None:
        self.arguments = (path, start_line, end_line, offset)

    def __call__(self, scope: Scope) -> Reply:
        return scope.get(*self.arguments)


class _Parameters:
    """Checked access to a call's parameters: each is taken once, by name and exact type. Null is as good as missing."""

    def __init__(self, given: Mapping[str, object]) -> None:
        self._left = dict(given)

    def text(self, name: str, default: str | None = None) -> str:
        value = self._left.pop(name, None)
        if value is None:
            value = default
        if value is None:
            raise AmuxError("invalid_argument", f"{name} is missing", argument=name)
        if type(value) is not str:
            raise AmuxError("invalid_argument", f"{name} must be a string, found {_kind(value)}", argument=name)
        return value

    def number(self, name: str, maximum: int | None = None) -> int:
        value = self._left.pop(name, None)
        if value is None:
            value = 0
        if type(value) is not int:  # a bool is no number here
            raise AmuxError("invalid_argument", f"{name} must be an integer, found {_kind(value)}", argument=name)
        if value < 0:
            raise AmuxError("invalid_argument", f"{name} is {value}; it must be 0 or more", argument=name)
        if maximum is not None and value > maximum:
            raise AmuxError(
                "invalid_argument", f"{name} is {value}; the most is {maximum}", argument=name, value=maximum
            )
        return value

    def revision(self) -> str:
        value = self.text("expected_revision")
        if not _REVISION.fullmatch(value):
            raise AmuxError(
                "invalid_argument",
                f"expected_revision must be absent or 64 lower-case hex digits, found {value[:80]!r}",
                argument="expected_revision",
            )
        return value

    def end(self) -> None:
        for name in self._left:
            raise AmuxError("invalid_argument", f"{name[:80]!r} is no argument of this call", argument=name[:80])


def _kind(value: object) -> str:
    names = {
        bool: "a boolean",
        int: "an integer",
        float: "a number",
        str: "a string",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "null")


def _search(parameters: _Parameters) -> _Run:
    query = parameters.text("query")
    prefix = parameters.text("path_prefix", "")
    limit = parameters.number("limit", limits.SEARCH_MAXIMUM)
    check_prefix(prefix)
    parse_query(query)
    return lambda scope: scope.search(query, prefix, limit)


def _get(parameters: _Parameters) -> _Get:
    path = parameters.text("path")
    start_line = parameters.number("start_line")
    end_line = parameters.number("end_line")
    offset = parameters.number("offset")
    check_document(path)
    check_range(start_line, end_line, offset)
    return _Get(path, start_line, end_line, offset)


def _upsert(parameters: _Parameters) -> _Run:
    path = parameters.text("path")
    content = parameters.text("content")
    revision = parameters.revision()
    check_document(path)
    return lambda scope: scope.upsert(path, content, revision)


def _forget(parameters: _Parameters) -> _Run:
    path = parameters.text("path")
    revision = parameters.revision()
    check_document(path)
    return lambda scope: scope.forget(path, revision)


def _list(parameters: _Parameters) -> _Run:
    after = parameters.text("after", "")
    prefix = parameters.text("path_prefix", "")
    check_prefix(prefix)
    return lambda scope: scope.listing(after, prefix)


_METHODS: dict[str, Callable[[_Parameters], _Run]] = {
    "search": _search,
    "get": _get,
    "upsert": _upsert,
    "forget": _forget,
    "list": _list,
}


def _check_bound(session: str, binding: str) -> None:
    if session and not _SESSION.fullmatch(session):
        raise AmuxError("invalid_argument", "session is malformed", argument="session")
    if binding and not _BINDING.fullmatch(binding):
        raise AmuxError(
            "invalid_argument", f"binding {binding[:80]!r} is neither global nor principal:<id>", argument="binding"
        )


def check_binding(caller: Caller, session: str, binding: str) -> None:
    """The precondition that a managed conversation began with the scope that it has now.

    No credential: it can only refuse. Raises `binding_required` for a session without a binding,
    `binding_mismatch`, `invalid_argument` for either when malformed, and `identity_refused` for who has no memory.
    """
    _check_bound(session, binding)
    if not caller.scope:
        raise AmuxError(
            "identity_refused",
            f"UID {caller.uid} administers this Hub and has no memory at it: use an account of a person, as in "
            "sudo -u NAME amux …",
            uid=caller.uid,
        )
    if session and not binding:
        raise AmuxError(
            "binding_required", "a call that names a session must carry its binding: set AMUX_MEMORY_BINDING"
        )
    if binding and binding != caller.scope:
        raise AmuxError(
            "binding_mismatch",
            f"this conversation began with the memory {binding}, which is not yours now: begin a new conversation",
            binding=binding,
        )


class Memory:
    """`enabled` is the switch as it runs: it changes with a restart only. `audit` is told of writes and refusals."""

    def __init__(self, store: Store, enabled: bool, audit: Audit | None = None) -> None:
        self.enabled = enabled
        self._audit = audit
        self._store = store
        self._threads = Threads(THREADS, after=store.settle)
        self._turns = Turns(THREADS_PER_UID)

    async def call(self, who: Who, method: str, parameters: Mapping[str, object]) -> Reply:
        """Run `search`, `get`, `upsert`, `forget` or `list`; parameters as they came off the wire.

        `session` and `binding` may be among the parameters. Raises any code of docs/reference/errors.md that
        concerns memory or identity.
        """
        given = _Parameters(parameters)
        session = given.text("session", "")
        binding = given.text("binding", "")
        _check_bound(session, binding)
        run = _METHODS[method](given)
        given.end()
        caller = await who()
        if self._audit is None:
            return await self._run(caller, session, binding, run)
        return await self._audited(self._audit, caller, method, parameters, self._run(caller, session, binding, run))

    def at_once(self, caller: Caller, method: str, parameters: Mapping[str, object]) -> Reply | None:
        """What `call` would answer, if that is a get which cannot wait (`Store.ready`); None for all else.

        Nothing is refused here: whatever a rule forbids is left to `call`, which says so.
        """
        if method != "get" or not self.enabled:
            return None
        try:
            given = _Parameters(parameters)
            session = given.text("session", "")
            binding = given.text("binding", "")
            check_binding(caller, session, binding)
            run = _get(given)
            given.end()
        except AmuxError:
            return None
        return self._store.ready(caller.scope, *run.arguments)

    async def _audited(
        self, audit: Audit, caller: Caller, method: str, parameters: Mapping[str, object], work: Awaitable[Reply]
    ) -> Reply:
        """Of writes every outcome, of reads what has to do with rights."""
        writes = method in _WRITES
        try:
            answer = await work
        except AmuxError as error:
            if writes or error.code in _RIGHTS or isinstance(error, OwnerError):
                which = {"principal": caller.principal, "path": str(parameters.get("path") or "")}
                audit.refused(method, caller.uid, error.code, **which)
            raise
        if writes:
            audit.did(
                method,
                uid=caller.uid,
                account=caller.account,
                principal=caller.principal,
                scope=caller.scope,
                path=str(answer["path"]),
                before=str(parameters["expected_revision"]),
                revision=str(answer["revision"]),
            )
        return answer

    async def _run(self, caller: Caller, session: str, binding: str, run: _Run) -> Reply:
        check_binding(caller, session, binding)
        self.check_enabled()
        if type(run) is _Get and (ready := self._store.ready(caller.scope, *run.arguments)) is not None:
            return ready  # for who comes through MCP
        give_back = await self._turns.take(caller.uid)
        return await self._threads.call(lambda: run(self._store.scope(caller.scope)), give_back)

    def check_enabled(self) -> None:
        """Raises `memory_disabled` while the switch is off."""
        if not self.enabled:
            raise AmuxError(
                "memory_disabled",
                "memory is switched off on this Hub; its administrator turns it on with "
                "'amux system config set memory.enabled true' and a restart",
            )

    def close(self) -> None:
        """Wait for what runs in threads."""
        self._threads.shutdown()
