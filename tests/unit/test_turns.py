"""Turns of each UID: a few at a time, in order, and nothing kept of a UID that has none."""

from __future__ import annotations

import asyncio

import pytest

from amux_hub.turns import Turns


def test_a_uid_has_as_many_as_it_may_and_the_next_waits_its_turn() -> None:
    async def run() -> list[int]:
        turns = Turns(2)
        order: list[int] = []
        first, second = await turns.take(1), await turns.take(1)

        async def later(number: int) -> None:
            give_back = await turns.take(1)
            order.append(number)
            give_back()

        waiting = [asyncio.ensure_future(later(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert order == []
        (await asyncio.wait_for(turns.take(2), 5))()  # another UID waits for nobody
        first()
        await asyncio.gather(*waiting)
        second()
        assert len(turns) == 0
        return order

    assert asyncio.run(run()) == [0, 1, 2]


def test_s6_nothing_is_kept_of_uids_that_are_gone() -> None:
    async def run() -> int:
        turns = Turns(1)
        for uid in range(1000):
            (await turns.take(uid))()
        return len(turns)

    assert asyncio.run(run()) == 0


def test_who_gives_up_waiting_takes_no_turn() -> None:
    async def run() -> None:
        turns = Turns(1)
        give_back = await turns.take(1)
        waiting = asyncio.ensure_future(turns.take(1))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        give_back()
        (await asyncio.wait_for(turns.take(1), 5))()
        assert len(turns) == 0

    asyncio.run(run())
