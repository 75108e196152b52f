"""Connections that live on are asked about again, no later than what was found out about them holds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from amux.errors import AmuxError
from amux_hub.admission import Admission
from amux_hub.identity import Caller, Peer
from amux_hub.recheck import Recheck
from amux_hub.wire.accept import Connection


class World:
    """Accounts, a clock and connections that a test sets. What is found out holds for 60 s."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.refused: dict[int, AmuxError] = {}
        self.until: dict[int, float] = {}
        self.holds = 60.0
        self.asked: list[int] = []
        self.ended: list[int] = []
        self.connections: set[Connection] = set()
        self.recheck = Recheck(self, self.connections, lambda: 60.0, lambda: self.now)

    def knows(self, uid: int) -> bool:
        return self.until.get(uid, 0) > self.now

    async def identify(self, peer: Peer) -> Caller:
        if not self.knows(peer.uid):
            self.asked.append(peer.uid)
            if peer.uid in self.refused:
                raise self.refused[peer.uid]
            self.until[peer.uid] = self.now + self.holds
        return Caller(peer.uid, "", "", "", administrator=False)

    def known(self, _peer: Peer) -> Caller | None:
        return None

    def connect(self, uid: int) -> None:
        world = self

        class One(Connection):
            def end(self) -> None:
                world.ended.append(uid)
                self.release()

        One(Peer(1, uid, uid), self, Admission(), None, "hub", self.connections).since = self.now

    async def seconds(self, count: int) -> None:
        for _ in range(count):
            self.now += 1
            self.recheck.look()
            await asyncio.sleep(0)
            await asyncio.sleep(0)


def _run(story: Callable[[World], Awaitable[None]]) -> None:
    async def main() -> None:
        await story(World())

    asyncio.run(main())


def test_one_whose_call_came_between_two_looks_is_ended_when_it_holds_no_longer() -> None:
    async def story(world: World) -> None:
        world.connect(1001)
        await world.seconds(30)
        world.until[1001] = world.now + 60  # a call found it out anew
        world.refused[1001] = AmuxError("identity_refused", "expired")
        await world.seconds(59)
        assert world.ended == []
        await world.seconds(2)
        assert world.ended == [1001]

    _run(story)


def test_one_who_was_found_out_in_part_before_the_question_is_asked_about_sooner() -> None:
    async def story(world: World) -> None:
        world.connect(1001)
        world.holds = 5
        await world.seconds(3)
        assert world.asked == [1001]
        world.refused[1001] = AmuxError("identity_refused", "expired")
        await world.seconds(6)
        assert world.ended == [1001]

    _run(story)


def test_without_an_answer_a_uid_is_asked_about_once_in_that_time_and_stays() -> None:
    async def story(world: World) -> None:
        world.connect(1001)
        world.connect(1001)
        world.refused[1001] = AmuxError("identity_unavailable", "try again")
        await world.seconds(121)
        assert (world.asked, world.ended) == ([1001] * 2, [])

    _run(story)


def test_who_is_refused_loses_every_connection_and_nobody_else_does() -> None:
    async def story(world: World) -> None:
        for uid in (1001, 1001, 1002):
            world.connect(uid)
        world.refused[1001] = AmuxError("identity_refused", "expired")
        await world.seconds(1)
        assert world.asked == [], "who has just come is told why by the answer to a call"
        await world.seconds(1)
        world.connect(1001)
        assert world.ended == [1001, 1001]
        assert [one.peer.uid for one in world.connections if one.peer.uid != 1001] == [1002]
        await world.seconds(2)
        assert world.ended == [1001, 1001, 1001]

    _run(story)
