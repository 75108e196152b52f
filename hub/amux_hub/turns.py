"""Turns for what runs in threads: of one caller's UID only a few at a time, in the order in which they came.

Promises: who waits holds up nobody of another UID; a UID that has nothing running and nothing waiting is forgotten.
It lives on the loop alone (no locks).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial


class _Uid:
    __slots__ = ("free", "users")

    def __init__(self, most: int) -> None:
        self.free = asyncio.Semaphore(most)
        self.users = 0


class Turns:
    """At most `most` for each UID."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._uids: dict[int, _Uid] = {}

    async def take(self, uid: int) -> Callable[[], None]:
        """Wait for a turn of `uid`. What is answered gives it back: call it exactly once, on the loop."""
        one = self._uids.get(uid)
        if one is None:
            one = self._uids[uid] = _Uid(self._most)
        one.users += 1
        try:
            await one.free.acquire()
        except BaseException:
            self._leave(uid, one)
            raise
        return partial(self._give_back, uid, one)

    def _give_back(self, uid: int, one: _Uid) -> None:
        one.free.release()
        self._leave(uid, one)

    def _leave(self, uid: int, one: _Uid) -> None:
        one.users -= 1
        if not one.users:
            del self._uids[uid]

    def __len__(self) -> int:
        """How many UIDs have something running or waiting."""
        return len(self._uids)
