"""The whole chain of a system Hub: account → verdict → principal → scope; every failure is an error, never global."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.accounts import Account
from amux_hub.audit import Audit, Field
from amux_hub.identity import Caller, Peer
from amux_hub.people import HostIdentity, People
from amux_hub.registry import Registry
from amux_hub.verdicts import REFUSALS, Verdict, Verdicts

_NAMES = {1001: "ann", 1002: "bob", 1003: "ann-admin", 105: "ci", 106: "www", 61200: "lent", 4_000_000_000: "far"}


class _Audit(Audit):
    """Keeps what it is told, instead of writing it."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[tuple[str, dict[str, Field]]] = []

    def did(self, event: str, **fields: Field) -> None:
        self.records.append((event, fields))


class Host:
    """A host whose accounts, verdicts and configuration a test sets."""

    def __init__(self, home: Path, *, isolation: bool = True, seconds: float = 60) -> None:
        self.names: dict[int, str] = dict(_NAMES)
        self.name_service: Exception | None = None
        self.verdict: str | AmuxError = "allow"
        self.people = People({"ann-admin": "ann"}, frozenset({"ci"}))
        self.audit = _Audit()
        self.asked: list[int] = []
        self.registry = Registry(str(home))
        self.identity = HostIdentity(
            self.registry,
            self,  # type: ignore[arg-type]
            isolation=isolation,
            people=lambda: self.people,
            seconds=lambda: seconds,
            audit=self.audit,
        )

    def account_of(self, uid: int) -> Account | None:
        if self.name_service is not None:
            raise self.name_service
        return Account(uid, self.names[uid]) if uid in self.names else None

    def forget(self, uid: int | None = None) -> None:
        """Of Verdicts."""

    async def of(self, uid: int) -> Verdict:
        """Of Verdicts."""
        self.asked.append(uid)
        if isinstance(self.verdict, AmuxError):
            raise self.verdict
        return Verdict(self.verdict, time.monotonic())

    async def who(self, uid: int) -> Caller:
        return await self.identity.identify(Peer(1, uid, uid))

    async def refused(self, uid: int) -> AmuxError:
        with pytest.raises(AmuxError) as caught:
            await self.who(uid)
        return caught.value


Make = Callable[..., Host]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[Host] = []
    monkeypatch.setattr(accounts, "uid_min", lambda: 1000)
    numbers = itertools.count()

    def fresh(**options: object) -> Host:
        home = tmp_path / f"home{next(numbers)}"
        home.mkdir(mode=0o700)
        host = Host(home, **options)  # type: ignore[arg-type]
        monkeypatch.setattr(accounts, "account_of", host.account_of)
        made.append(host)
        return host

    yield fresh
    for host in made:
        host.identity.close()


def run(test: Awaitable[None]) -> None:
    async def main() -> None:
        await test

    asyncio.run(main())


def test_the_chain_with_and_without_isolation(make: Make) -> None:
    async def test() -> None:
        host = make()
        assert await host.who(1001) == Caller(1001, "ann", "ann", "principal:ann", administrator=False)
        assert await host.who(1003) == Caller(1003, "ann-admin", "ann", "principal:ann", administrator=False)
        assert host.audit.records == [
            ("enrol", {"uid": 1001, "account": "ann", "principal": "ann"}),
            ("enrol", {"uid": 1003, "account": "ann-admin", "principal": "ann"}),
        ]
        host = make(isolation=False)
        assert (await host.who(1001)).scope == "global"

    run(test())


def test_c47_a_uid_above_two_to_the_31_is_its_own_principal(make: Make) -> None:
    async def test() -> None:
        assert (await make().who(4_000_000_000)).scope == "principal:far"

    run(test())


def test_s8_nobody_in_particular_is_refused_each_by_name(make: Make) -> None:
    async def test() -> None:
        host = make()
        for uid, word in ((65534, "overflow"), (2**32 - 1, "UID -1"), (1234, "no account")):
            error = await host.refused(uid)
            assert error.code == "identity_refused" and word in error.message
        assert not host.asked and not host.registry.records()

    run(test())


def test_s8_a_failing_name_service_is_try_again_and_never_retires(make: Make) -> None:
    async def test() -> None:
        host = make(seconds=-1)
        await host.who(1001)
        host.name_service = AmuxError("identity_unavailable", "the name service failed: try again")
        assert (await host.refused(1001)).code == "identity_unavailable"
        host.name_service = None
        host.names.pop(1001)
        assert (await host.refused(1001)).code == "identity_refused"
        host.names[1001] = "ann"
        assert (await host.who(1001)).principal == "ann"

    run(test())


@pytest.mark.parametrize("isolation", [True, False])
@pytest.mark.parametrize("verdict", [*sorted(REFUSALS), None])
def test_whatever_is_not_yes_is_an_error_never_global(verdict: str | None, isolation: bool, make: Make) -> None:
    async def test() -> None:
        host = make(isolation=isolation)
        host.verdict = verdict or AmuxError("identity_unavailable", "the helper does not answer: try again")
        error = await host.refused(1001)
        assert error.code == ("identity_refused" if verdict else "identity_unavailable")
        assert not host.registry.records()

    run(test())


def test_c31_the_class_of_a_refusal_is_not_told(make: Make) -> None:
    async def test() -> None:
        host = make()
        told = set()
        for verdict in sorted(REFUSALS):
            host.verdict = verdict
            error = await host.refused(1001)
            told.add((error.message, tuple(error.details.items())))
            assert host.audit.refusals[verdict] == 1
        assert len(told) == 1

    run(test())


def test_system_accounts_need_to_be_named(make: Make) -> None:
    async def test() -> None:
        host = make()
        for uid in (106, 61200):
            error = await host.refused(uid)
            assert error.code == "identity_refused" and "identity.services" in error.message
        assert (await host.who(105)).principal == "ci"

    run(test())


def test_root_is_the_administrator_and_nobody_s_memory(make: Make) -> None:
    async def test() -> None:
        host = make(isolation=False)
        root = await host.who(0)
        assert (root.administrator, root.principal, root.scope) == (True, "", "")
        assert not host.asked

    run(test())


@pytest.mark.parametrize("name", ["a:b", "a/b", "a\nb", "a\x7fb", "n" * 256, "\u2028"])
def test_a_name_that_cannot_be_a_principal_is_refused(name: str, make: Make) -> None:
    async def test() -> None:
        host = make()
        host.names[1001] = name
        assert (await host.refused(1001)).code == "identity_refused"

    run(test())


@pytest.mark.parametrize("name", ["user@corp.example", "CORP\\user", "Ärztin", "名前", "a b"])
def test_names_of_directories_are_principals_as_they_are(name: str, make: Make) -> None:
    async def test() -> None:
        host = make()
        host.names[1001] = name
        assert (await host.who(1001)).scope == f"principal:{name}"

    run(test())


def test_what_was_found_holds_for_its_seconds_then_all_is_asked_again(make: Make) -> None:
    async def test() -> None:
        host = make()
        await host.who(1001)
        host.verdict = "expired"
        assert (await host.who(1001)).principal == "ann"
        host.identity.forget(1001)
        assert (await host.refused(1001)).code == "identity_refused"
        host = make(seconds=-1)
        await host.who(1001)
        host.names[1001] = "eve"
        assert "was account ann" in (await host.refused(1001)).message

    run(test())


def test_a_flood_of_one_uid_asks_once(make: Make) -> None:
    async def test() -> None:
        host = make()
        found = await asyncio.gather(*(host.who(1001) for _ in range(100)))
        assert len(set(found)) == 1 and host.asked == [1001]

    run(test())


def test_the_configuration_is_looked_at_each_time(make: Make) -> None:
    async def test() -> None:
        host = make(seconds=-1)
        assert (await host.who(1003)).principal == "ann"
        host.people = People({}, frozenset())
        assert (await host.who(1003)).principal == "ann-admin"
        assert (await host.refused(105)).code == "identity_refused"

    run(test())


def test_an_error_is_not_remembered(make: Make) -> None:
    async def test() -> None:
        host = make()
        host.verdict = AmuxError("identity_unavailable", "try again")
        await host.refused(1001)
        host.verdict = "allow"
        assert (await host.who(1001)).principal == "ann"

    run(test())


def test_verdicts_have_the_face_that_this_test_imitates() -> None:
    assert {"of", "forget"} <= set(vars(Verdicts))
