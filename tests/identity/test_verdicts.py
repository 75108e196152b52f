"""The client of amux-pam: nobody passes without an answer that says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub import verdicts
from amux_hub.verdicts import REFUSALS, Verdicts

Answer = Callable[[int], Awaitable[bytes | None]]


class Helper:
    """A socket that answers as a test says; None closes without a word. Counts what it was asked."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.path, self.answer = str(path), answer
        self.asked: list[int] = []
        self.running = self.most = 0

    async def __aenter__(self) -> Helper:
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = int(await reader.readline())
        self.asked.append(uid)
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            answer = await self.answer(uid)
        finally:
            self.running -= 1
        if answer is not None:
            writer.write(answer)
        writer.close()


def says(answer: bytes | None) -> Answer:
    async def always(_uid: int) -> bytes | None:
        return answer

    return always


Test = Callable[[Helper, Verdicts], Awaitable[None]]


def run(tmp_path: Path, answer: Answer, test: Test, seconds: float = 60) -> None:
    async def main() -> None:
        async with Helper(tmp_path / "pam.sock", answer) as helper:
            await test(helper, Verdicts(lambda: seconds, helper.path))

    asyncio.run(main())


@pytest.mark.parametrize("word", ["allow", *sorted(REFUSALS)])
def test_an_answer_is_remembered(word: str, tmp_path: Path) -> None:
    async def test(helper: Helper, asked: Verdicts) -> None:
        assert [(await asked.of(1000)).word for _ in range(3)] == [word] * 3
        assert helper.asked == [1000]
        asked.forget(1000)
        assert (await asked.of(1000)).word == word
        assert helper.asked == [1000, 1000]
        asked.forget()
        await asked.of(1000)
        assert len(helper.asked) == 3

    run(tmp_path, says(word.encode() + b"\n"), test)


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"allow", b"unavailable\n", b"ALLOW\n", b"allow \n", b"yes\n", b"allow\n" * 2, b"\xff\n", b"x" * 100],
)
def test_anything_else_is_try_again_and_not_remembered(answer: bytes | None, tmp_path: Path) -> None:
    async def test(helper: Helper, asked: Verdicts) -> None:
        for _ in range(2):
            with pytest.raises(AmuxError) as caught:
                await asked.of(1000)
            assert caught.value.code == "identity_unavailable"
            assert "try again" in caught.value.message
        assert len(helper.asked) == 2

    run(tmp_path, says(answer), test)


def test_no_helper_is_try_again(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(AmuxError) as caught:
            await Verdicts(lambda: 60, str(tmp_path / "none.sock")).of(1000)
        assert caught.value.code == "identity_unavailable"

    asyncio.run(main())


def test_a_helper_that_is_silent_is_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "ANSWER_SECONDS", 0.05)

    async def silent(_uid: int) -> bytes | None:
        await asyncio.sleep(30)
        return b"allow\n"

    async def test(_helper: Helper, asked: Verdicts) -> None:
        with pytest.raises(AmuxError) as caught:
            await asked.of(1000)
        assert caught.value.code == "identity_unavailable"

    run(tmp_path, silent, test)


def test_behind_a_helper_that_is_silent_nobody_waits_longer_than_for_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdicts, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(verdicts, "_AT_ONCE", 1)

    async def never(_uid: int) -> bytes | None:
        await asyncio.sleep(60)
        return b"allow\n"

    async def test(helper: Helper, asked: Verdicts) -> None:
        found = await asyncio.gather(*(asked.of(uid) for uid in range(1000, 1009)), return_exceptions=True)
        assert {one.code for one in found if isinstance(one, AmuxError)} == {"identity_unavailable"}
        assert len(helper.asked) < 9, "those who waited for their turn gave up with the first"

    run(tmp_path, never, test)


def test_an_answer_ends_after_its_seconds(tmp_path: Path) -> None:
    async def test(helper: Helper, asked: Verdicts) -> None:
        await asked.of(1000)
        await asked.of(1000)
        assert len(helper.asked) == 2

    run(tmp_path, says(b"allow\n"), test, seconds=-1)


def test_all_who_wait_for_one_uid_share_one_question_and_few_run_at_once(tmp_path: Path) -> None:
    async def slow(_uid: int) -> bytes | None:
        await asyncio.sleep(0.01)
        return b"allow\n"

    async def test(helper: Helper, asked: Verdicts) -> None:
        await asyncio.gather(*(asked.of(1000 + number % 40) for number in range(400)))
        assert sorted(helper.asked) == [1000 + number for number in range(40)]
        assert helper.most <= 16

    run(tmp_path, slow, test)


def test_one_who_goes_away_does_not_end_the_question_of_others(tmp_path: Path) -> None:
    async def slow(_uid: int) -> bytes | None:
        await asyncio.sleep(0.02)
        return b"allow\n"

    async def test(_helper: Helper, asked: Verdicts) -> None:
        first = asyncio.ensure_future(asked.of(1000))
        second = asyncio.ensure_future(asked.of(1000))
        await asyncio.sleep(0)
        first.cancel()
        assert (await second).word == "allow"

    run(tmp_path, slow, test)
