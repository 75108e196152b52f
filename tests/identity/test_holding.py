"""Nothing found out about an account is used later than `identity.verdict_seconds` after it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from amux.errors import AmuxError
from amux_hub import accounts, people, verdicts
from amux_hub.accounts import Account
from amux_hub.audit import Audit, Field
from amux_hub.identity import Peer
from amux_hub.people import HostIdentity, People
from amux_hub.registry import Registry
from amux_hub.verdicts import Verdicts

ANN = 1001
SECONDS = 60.0


class _Silent(Audit):
    def did(self, event: str, **fields: Field) -> None:
        """Nothing is written."""


class _Pam(Verdicts):
    """The real memory of verdicts, before a host that a test sets."""

    host: Host

    async def _exchange(self, uid: int) -> str:
        self.host.asked.append(self.host.now)
        answer = self.host.verdict
        self.host.now += self.host.pam_takes
        return answer


class _Records(Registry):
    host: Host

    def principal_of(self, account: Account, alias: str | None) -> tuple[str, bool]:
        if self.host.refuses:
            raise AmuxError("identity_refused", "that account was another one")
        return account.name, False


class Host:
    """A clock, a name service, PAM and a registry that a test sets; each may take its time."""

    def __init__(self, home: Path) -> None:
        self.now = 1000.0
        self.verdict = "allow"
        self.refuses = False
        self.names_take = self.pam_takes = 0.0
        self.asked: list[float] = []
        self.searches = 0
        pam, registry = _Pam(lambda: SECONDS), _Records(str(home))
        pam.host = registry.host = self
        self.identity = HostIdentity(
            registry,
            pam,
            isolation=True,
            people=lambda: People({}, frozenset()),
            seconds=lambda: SECONDS,
            audit=_Silent(),
        )

    def account_of(self, uid: int) -> Account:
        self.searches += 1
        self.now += self.names_take
        return Account(uid, "ann")

    async def served(self) -> bool:
        try:
            await self.identity.identify(Peer(1, ANN, ANN))
        except AmuxError:
            return False
        return True


Story = Callable[[Host], Awaitable[None]]


@pytest.fixture
def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Story], None]:
    def run(story: Story) -> None:
        host = Host(tmp_path)
        clock = SimpleNamespace(monotonic=lambda: host.now)
        monkeypatch.setattr(people, "time", clock)
        monkeypatch.setattr(verdicts, "time", clock)
        monkeypatch.setattr(accounts, "uid_min", lambda: 1000)
        monkeypatch.setattr(accounts, "account_of", host.account_of)

        async def main() -> None:
            await story(host)

        asyncio.run(main())
        host.identity.close()

    return run


def test_a_verdict_of_a_search_that_the_registry_ended_is_not_used_twice_as_long(
    tell: Callable[[Story], None],
) -> None:
    async def story(host: Host) -> None:
        host.refuses = True
        assert not await host.served()
        host.refuses, host.verdict = False, "expired"
        host.now += SECONDS - 1
        assert await host.served()
        assert host.asked == [1000.0], "the verdict is remembered, so that one who is refused does not flood PAM"
        host.now += 1
        assert not await host.served()

    tell(story)


def test_the_time_counts_from_the_question_not_from_the_answer(tell: Callable[[Story], None]) -> None:
    async def story(host: Host) -> None:
        host.pam_takes = 9
        assert await host.served()
        host.verdict, host.pam_takes = "expired", 0
        host.now = 1000 + SECONDS - 1
        assert await host.served()
        host.now += 1
        assert not await host.served()

    tell(story)


def test_the_name_is_as_old_as_its_question_too(tell: Callable[[Story], None]) -> None:
    async def story(host: Host) -> None:
        host.names_take = 9
        assert await host.served()
        assert host.asked == [1009.0]
        host.now = 1000 + SECONDS
        assert not host.identity.knows(ANN)

    tell(story)


def test_what_was_being_found_out_when_all_was_forgotten_is_not_remembered(tell: Callable[[Story], None]) -> None:
    async def story(host: Host) -> None:
        before = asyncio.ensure_future(host.served())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        host.identity.forget(ANN)
        after = asyncio.ensure_future(host.served())
        await asyncio.gather(before, after)
        assert host.searches == 2, "one who asks after a decision does not get an answer from before it"
        host.identity.forget()
        late = asyncio.ensure_future(host.served())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        host.identity.forget()
        await late
        assert not host.identity.knows(ANN)

    tell(story)


def test_a_refusal_is_asked_about_again_in_that_time(tell: Callable[[Story], None]) -> None:
    async def story(host: Host) -> None:
        host.verdict, host.pam_takes = "expired", 9
        assert not await host.served()
        host.verdict = "allow"
        host.now = 1000 + SECONDS - 1
        assert not await host.served()
        host.now += 1
        assert await host.served()

    tell(story)
