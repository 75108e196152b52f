"""Limits per UID on connections and on requests that run at once, and what was counted.

Promises: one UID's flood costs only that UID; what is acquired is released exactly once; a limit that is hit
says which, its value and what was found. It knows UIDs, not people, and lives on the loop alone (no locks).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass

from amux.errors import AmuxError
from amux_hub.pace import Pace

RETRY_MILLISECONDS = 1000


@dataclass
class Limits:
    """The limits in force; the service replaces the values when its configuration is read again."""

    connections_per_uid: int = 128
    connections: int = 4096
    requests_per_uid: int = 16
    rate_per_uid: int = 0
    """Requests a second, 0 for no limit."""
    input_bytes_per_uid: int = 16 * 1024 * 1024
    request_wait: float = 10.0
    """Seconds."""


@dataclass
class Counters:
    """Since the start of the process, for the status."""

    connections_accepted: int = 0
    connections_refused: int = 0
    requests_served: int = 0
    requests_refused: int = 0
    violations: int = 0
    connections_dropped: int = 0


class _Uid:
    __slots__ = ("connections", "input", "pacing", "requests", "waiting")

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0
        self.pacing = 0
        self.input = 0
        self.waiting: deque[asyncio.Future[None]] = deque()


class Admission:
    """Counts the connections and requests of each UID; forgets a UID that has none."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.counters = Counters()
        self.connections = 0
        self.requests = 0
        self.draining = False
        self._pace = Pace(lambda: self.limits.rate_per_uid)
        self._uids: dict[int, _Uid] = {}

    # Connections

    def connect(self, uid: int) -> None:
        """Count a connection of `uid`. Raises `limit_exceeded` (its own limit) or `busy` (everybody's)."""
        state = self._uids.get(uid)
        own = 0 if state is None else state.connections
        if own >= self.limits.connections_per_uid:
            self.counters.connections_refused += 1
            raise AmuxError(
                "limit_exceeded",
                f"UID {uid} has {own} connections open and may have {self.limits.connections_per_uid} "
                "(limits.connections_per_uid): close some",
                limit="limits.connections_per_uid",
                value=self.limits.connections_per_uid,
                found=own + 1,
            )
        if self.connections >= self.limits.connections:
            self.counters.connections_refused += 1
            raise AmuxError(
                "busy",
                f"the Hub has {self.connections} connections open and may have {self.limits.connections} "
                "(limits.connections): try again later",
                limit="limits.connections",
                value=self.limits.connections,
                found=self.connections + 1,
                retry_after_ms=RETRY_MILLISECONDS,
            )
        if state is None:
            state = self._uids[uid] = _Uid()
        state.connections += 1
        self.connections += 1
        self.counters.connections_accepted += 1

    def disconnect(self, uid: int) -> None:
        """Give back what `connect` counted."""
        state = self._uids[uid]
        state.connections -= 1
        self.connections -= 1
        self._forget(uid, state)

    def hold(self, uid: int, more: int) -> None:
        """The connections of `uid` hold `more` bytes of input (fewer if negative) that make no whole message yet.

        Raises `limit_exceeded`; the bytes are counted all the same, until the connection gives them back.
        """
        state = self._uids[uid]
        state.input += more
        if more > 0 and state.input > self.limits.input_bytes_per_uid:
            raise AmuxError(
                "limit_exceeded",
                f"the connections of UID {uid} hold {state.input} bytes of messages that are not complete, and may "
                f"hold {self.limits.input_bytes_per_uid} (limits.input_bytes_per_uid); the connection is closed",
                limit="limits.input_bytes_per_uid",
                value=self.limits.input_bytes_per_uid,
                found=state.input,
            )

    # Requests

    def enter(self, uid: int) -> bool:
        """Take a request slot if one is free at once and nobody waits before; the fast path of `request`."""
        state = self._uids.get(uid)
        if state is None:
            state = self._uids[uid] = _Uid()
        if self.draining or state.waiting or state.requests >= self.limits.requests_per_uid:
            return False
        if self._pace.take(uid) > 0:
            return False
        state.requests += 1
        self.requests += 1
        return True

    async def wait(self, uid: int) -> None:
        """Wait in order for a request slot. Raises `busy` after `request_wait`, or `shutting_down`."""
        if self.draining:
            raise shutting_down()
        if self.enter(uid):
            return
        state = self._uids[uid]
        await self._keep_pace(uid, state)
        if not state.waiting and state.requests < self.limits.requests_per_uid:
            state.requests += 1
            self.requests += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        state.waiting.append(turn)
        try:
            async with asyncio.timeout(self.limits.request_wait):
                await turn
        except TimeoutError:
            self._abandon(uid, state, turn)
            self.counters.requests_refused += 1
            raise AmuxError(
                "busy",
                f"UID {uid} has {state.requests} requests running and may have "
                f"{self.limits.requests_per_uid} (limits.requests_per_uid): try again later",
                limit="limits.requests_per_uid",
                value=self.limits.requests_per_uid,
                found=state.requests + 1,
                retry_after_ms=RETRY_MILLISECONDS,
            ) from None
        except BaseException:
            self._abandon(uid, state, turn)
            raise

    async def _keep_pace(self, uid: int, state: _Uid) -> None:
        """Wait for the next token of `uid`. Raises `busy` after `request_wait`, or `shutting_down`."""
        state.pacing += 1
        try:
            async with asyncio.timeout(self.limits.request_wait):
                while (delay := self._pace.take(uid)) > 0:  # noqa: ASYNC110 - a token comes with time alone
                    await asyncio.sleep(delay)
            if self.draining:
                raise shutting_down()
        except TimeoutError:
            self.counters.requests_refused += 1
            raise AmuxError(
                "busy",
                f"UID {uid} may make {self.limits.rate_per_uid} requests a second (limits.rate_per_uid): slow down",
                limit="limits.rate_per_uid",
                value=self.limits.rate_per_uid,
                retry_after_ms=RETRY_MILLISECONDS,
            ) from None
        finally:
            state.pacing -= 1
            self._forget(uid, state)

    def leave(self, uid: int) -> None:
        """Give back a slot; the one who waits longest takes it."""
        state = self._uids[uid]
        state.requests -= 1
        self.requests -= 1
        self.counters.requests_served += 1
        self._admit(state)
        self._forget(uid, state)

    @contextlib.asynccontextmanager
    async def request(self, uid: int) -> AsyncIterator[None]:
        """One request of `uid`, for a front end that is not in a hurry."""
        if not self.enter(uid):
            await self.wait(uid)
        try:
            yield
        finally:
            self.leave(uid)

    def drain(self) -> None:
        """Let nothing further begin: who waits for a slot is told `shutting_down`, and so is who comes."""
        self.draining = True
        for state in self._uids.values():
            while state.waiting:
                turn = state.waiting.popleft()
                if not turn.done():
                    turn.set_exception(shutting_down())

    def resize(self) -> None:
        """The limits changed: admit whoever may now run."""
        for state in self._uids.values():
            self._admit(state)

    def _admit(self, state: _Uid) -> None:
        while state.waiting and state.requests < self.limits.requests_per_uid:
            turn = state.waiting.popleft()
            if not turn.done():
                state.requests += 1
                self.requests += 1
                turn.set_result(None)

    def _abandon(self, uid: int, state: _Uid, turn: asyncio.Future[None]) -> None:
        """A waiter gave up; it may have been admitted in the same moment."""
        if turn in state.waiting:
            state.waiting.remove(turn)
        elif turn.done() and not turn.cancelled() and turn.exception() is None:
            state.requests -= 1
            self.requests -= 1
            self._admit(state)
        self._forget(uid, state)

    def _forget(self, uid: int, state: _Uid) -> None:
        if not (state.connections or state.requests or state.waiting or state.pacing):
            self._uids.pop(uid, None)


def shutting_down() -> AmuxError:
    """The answer to a call that came while the Hub stops: it was not run, so it may be sent again."""
    return AmuxError(
        "shutting_down",
        "the Hub is stopping and did not run this call: send it again to the next one",
        retry_after_ms=RETRY_MILLISECONDS,
    )
