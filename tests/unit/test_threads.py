"""Work in threads: handed over, handed back, and run to its end whatever becomes of the caller."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from amux.errors import AmuxError
from amux_hub.threads import Threads


@pytest.fixture
def threads() -> Iterator[Threads]:
    made = Threads(3)
    yield made
    made.shutdown()


def nothing() -> None:
    return None


def test_an_answer_comes_from_another_thread(threads: Threads) -> None:
    ended: list[int] = []
    here = threading.get_ident()

    async def main() -> int:
        return await threads.call(threading.get_ident, lambda: ended.append(threading.get_ident()))

    assert asyncio.run(main()) != here
    assert ended == [here]


def test_nobody_waits_for_what_comes_after() -> None:
    go, after = threading.Event(), []

    def behind() -> None:
        assert go.wait(60)
        after.append(threading.get_ident())

    slow = Threads(1, after=behind)

    async def main() -> int:
        return await slow.call(threading.get_ident, nothing)

    ran = asyncio.run(main())
    assert not after
    go.set()
    slow.shutdown()
    assert after == [ran]


def test_what_comes_after_follows_an_error_too() -> None:
    after: list[int] = []
    made = Threads(1, after=lambda: after.append(1))

    def fail() -> None:
        raise AmuxError("conflict", "no")

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(AmuxError):
                await made.call(fail, nothing)

    asyncio.run(main())
    made.shutdown()
    assert after == [1, 1, 1]


def test_an_error_is_the_caller_s(threads: Threads) -> None:
    ended: list[int] = []

    def fail() -> None:
        raise AmuxError("conflict", "no")

    async def main() -> None:
        with pytest.raises(AmuxError, match="no"):
            await threads.call(fail, lambda: ended.append(1))

    asyncio.run(main())
    assert ended == [1]


def test_an_error_leaves_no_cycle_that_holds_what_was_sent(threads: Threads) -> None:
    class Sent:
        pass

    def failing(sent: Sent) -> Callable[[], None]:
        def fail() -> None:
            raise AmuxError("conflict", str(id(sent)))

        return fail

    async def main() -> weakref.ref[Sent]:
        sent = Sent()
        with contextlib.suppress(AmuxError):
            await threads.call(failing(sent), nothing)
        known = weakref.ref(sent)
        del sent
        await threads.call(nothing, nothing)  # the thread is done with the one before
        return known

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


def test_who_is_cancelled_waits_until_the_work_ran(threads: Threads) -> None:
    go, order = threading.Event(), []

    def work() -> None:
        go.wait(30)
        order.append("ran")

    async def main() -> None:
        task = asyncio.ensure_future(threads.call(work, lambda: order.append("ended")))
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.05)
        assert not done
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        order.append("cancelled")

    asyncio.run(main())
    assert order == ["ran", "ended", "cancelled"]


def test_threads_are_bounded_and_used_again(threads: Threads) -> None:
    running, most, lock = 0, 0, threading.Lock()
    names = set()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            names.add(threading.get_ident())
        threading.Event().wait(0.002)
        with lock:
            running -= 1

    async def main() -> None:
        await asyncio.gather(*(threads.call(work, nothing) for _ in range(30)))

    asyncio.run(main())
    assert most == 3
    assert len(names) == 3


def test_shutdown_waits_for_what_runs_although_its_loop_is_gone() -> None:
    threads, go, ran = Threads(1), threading.Event(), []

    def work() -> None:
        go.wait(30)
        ran.append(1)

    async def main() -> None:
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, threads.call(work, nothing))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    go.set()
    threads.shutdown()
    assert ran == [1]


def test_where_the_system_gives_no_thread_those_there_are_serve(
    threads: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        ended: list[int] = []
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError, match="can't start"):
                await threads.call(nothing, lambda: ended.append(1))
        assert ended == [1]
        await threads.call(nothing, nothing)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            await asyncio.gather(*(threads.call(nothing, lambda: ended.append(2)) for _ in range(5)))
        assert ended == [1, 2, 2, 2, 2, 2]

    asyncio.run(main())
