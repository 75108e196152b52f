"""What an administrator decides, on a real store and registry: retire, rebind, purge, usage."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

import pytest

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.accounts import Account
from amux_hub.administration import Administration, Host, Measured
from amux_hub.admission import Admission
from amux_hub.audit import Audit, Field
from amux_hub.identity import Caller, Identity, Peer
from amux_hub.memory import Memory
from amux_hub.people import HostIdentity
from amux_hub.registry import Registry
from amux_hub.sessions import Sessions
from amux_hub.store import Store
from amux_hub.wire.accept import Connection

T = TypeVar("T")
ROOT = Caller(0, "root", "", "", administrator=True)
ANN, BOB = Account(1001, "ann"), Account(1002, "bob")


class Kept(Audit):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, dict[str, Field]]] = []

    def did(self, event: str, **fields: Field) -> None:
        self.told.append((event, fields))


class Forgetting:
    """In the place of the identity: what it is told to find out anew."""

    def __init__(self) -> None:
        self.forgotten: list[int | None] = []

    def forget(self, uid: int | None = None) -> None:
        self.forgotten.append(uid)


class World:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = Store(str(home), 1 << 20, 0)
        self.registry = Registry(str(home))
        self.identity, self.audit = Forgetting(), Kept()
        self.sessions = Sessions(str(home), Memory(self.store, True), self.audit)
        self.connections: set[Connection] = set()
        host = Host(self.registry, cast("HostIdentity", self.identity), self.audit)
        self.made = Administration(self.store, self.sessions, self.connections, isolation=True, host=host)
        for account in (ANN, BOB):
            self.registry.principal_of(account, None)
            scope = self.store.scope(f"principal:{account.name}")
            scope.upsert(f"{account.name}/note.md", f"{account.name} was here", "absent")

    def connect(self, uid: int) -> Connection:
        return Connection(Peer(1, uid, uid), cast("Identity", None), Admission(), None, "hub", self.connections)

    def run(self, work: Awaitable[T]) -> T:
        async def main() -> T:
            return await work

        return asyncio.run(main())

    def refused(self, work: Awaitable[object]) -> str:
        with pytest.raises(AmuxError) as caught:
            self.run(work)
        return caught.value.code

    def close(self) -> None:
        self.registry.close()
        self.store.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    (tmp_path / "home").mkdir(mode=0o700)
    made = World(tmp_path / "home")
    yield made
    made.close()


def documents(world: World, name: str) -> int:
    return world.store.scope(f"principal:{name}").measure()[0]


def test_usage_counts_each_principal_and_nothing_of_what_it_stores(world: World) -> None:
    found, total = world.run(world.made.usage("", 20))
    assert found == [Measured("global", 0, 0), Measured("principal:ann", 1, 12), Measured("principal:bob", 1, 12)]
    assert total == 3
    assert world.run(world.made.usage("principal:ann", 1))[0] == [Measured("principal:bob", 1, 12)]


def test_usage_tells_a_principal_called_global_from_everybody(world: World) -> None:
    world.registry.principal_of(Account(1003, "global"), None)
    world.store.scope("principal:global").upsert("a.md", "hers", "absent")
    found, total = world.run(world.made.usage("", 20))
    assert {one.scope: one.documents for one in found}["global"] == 0
    assert {one.scope: one.documents for one in found}["principal:global"] == 1
    assert total == len(found) == 4
    pages, after = [], ""
    while page := world.run(world.made.usage(after, 1))[0]:
        pages += page
        after = page[-1][0]
    assert pages == found, "none is left out between two pages"


def test_d7_usage_and_purge_of_an_exchanged_memory(world: World) -> None:
    """One that cannot be looked at hides no other, and a purge never deletes another's."""
    users = world.home / "memory" / "users"
    (ann,) = [one for one in users.iterdir() if (one / "ann").exists()]
    (bob,) = [one for one in users.iterdir() if (one / "bob").exists()]
    ann.rename(users / "swap")
    bob.rename(ann)
    found, _ = world.run(world.made.usage("", 20))
    assert [(one.scope, one.documents, bool(one.refused)) for one in found] == [
        ("global", 0, False),
        ("principal:ann", 0, True),
        ("principal:bob", 0, False),
    ]
    world.run(world.made.retire(ROOT, "ann"))
    assert world.refused(world.made.purge(ROOT, "ann")) == "unsafe_file"
    assert (ann / "bob").exists() and world.registry.get("ann") is not None


def test_a_purge_takes_what_was_retired_and_nothing_else(world: World) -> None:
    assert world.refused(world.made.purge(ROOT, "ann")) == "forbidden"
    assert documents(world, "ann") == 1
    world.run(world.made.retire(ROOT, "ann"))
    assert documents(world, "ann") == 1
    assert world.run(world.made.purge(ROOT, "ann")) is True
    assert documents(world, "ann") == 0 and documents(world, "bob") == 1
    assert [record.principal for record in world.registry.records()] == ["bob"]
    assert len(list((world.home / "memory" / "users").iterdir())) == 1
    assert [event for event, _ in world.audit.told] == ["retire", "purge"]
    assert world.refused(world.made.purge(ROOT, "ann")) == "not_found"
    world.registry.principal_of(ANN, None)
    world.store.scope("principal:ann").upsert("new.md", "x", "absent")
    assert documents(world, "ann") == 1


def caller(account: Account, scope: str | None = None) -> Callable[[], Awaitable[Caller]]:
    async def who() -> Caller:
        own = f"principal:{account.name}" if scope is None else scope
        return Caller(account.uid, account.name, account.name, own, administrator=False)

    return who


def test_the_audit_is_told_of_sessions(world: World) -> None:
    begun = world.run(world.sessions.begin(caller(ANN), "pi", "task", "none", ""))
    world.run(world.sessions.resume(caller(ANN), begun.id))
    assert world.refused(world.sessions.resume(caller(ANN, "global"), begun.id)) == "binding_mismatch"
    assert world.refused(world.sessions.resume(caller(ANN, ""), begun.id)) == "identity_refused"
    assert world.refused(world.sessions.end(caller(BOB), begun.id)) == "not_found"
    world.run(world.sessions.end(caller(ANN), begun.id))
    assert [event for event, _ in world.audit.told] == ["begin", "resume", "end"]
    for _, fields in world.audit.told:
        assert (fields["uid"], fields["principal"], fields["session"]) == (ANN.uid, "ann", begun.id)
    assert world.audit.refusals == {"binding_mismatch": 1, "identity_refused": 1}


def test_a_purge_takes_the_sessions_too(world: World) -> None:
    """Or whoever is the next of that name would find them."""
    for account in (ANN, ANN, BOB):
        world.run(world.sessions.begin(caller(account), "pi", "task", "none", ""))
    world.run(world.made.retire(ROOT, "ann"))
    assert len(world.run(world.sessions.of_caller(caller(ANN), ""))) == 2
    world.run(world.made.purge(ROOT, "ann"))
    assert world.run(world.sessions.of_caller(caller(ANN), "")) == []
    (left,) = (world.home / "sessions").iterdir()
    assert left.name == world.run(world.sessions.of_caller(caller(BOB), ""))[0].id + ".json"


def test_a_purge_follows_no_link_and_leaves_what_links_point_to(world: World, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept.md").write_text("kept")
    users = world.home / "memory" / "users"
    ann = next(one for one in users.iterdir() if (one / "ann").exists())
    (ann / "link").symlink_to(outside)
    (ann / "ann" / "link.md").symlink_to(outside / "kept.md")
    world.run(world.made.retire(ROOT, "ann"))
    world.run(world.made.purge(ROOT, "ann"))
    assert (outside / "kept.md").read_text() == "kept"


def test_what_a_crash_leaves_of_a_purge_goes_with_the_next_start(world: World) -> None:
    users = world.home / "memory" / "users"
    left = users / f".amux-purge-{'0' * 32}"
    (left / "deep").mkdir(parents=True)
    (left / "deep" / "a.md").write_text("x")
    like = users / ".amux-purge-mine"
    like.mkdir()
    world.store.close()
    world.store = Store(str(world.home), 1 << 20, 0)
    assert not left.exists() and like.exists()


def test_retiring_ends_the_connections_of_its_accounts(world: World) -> None:
    ended: list[int] = []

    class Ending(Connection):
        def end(self) -> None:
            ended.append(self.peer.uid)

    for uid in (1001, 1001, 1002):
        Ending(Peer(1, uid, uid), cast("Identity", None), Admission(), None, "hub", world.connections)
    world.run(world.made.retire(ROOT, "ann"))
    assert ended == [1001, 1001]
    assert world.identity.forgotten == [1001]
    world.run(world.made.retire(ROOT, "ann"))
    assert [event for event, _ in world.audit.told] == ["retire"]


def test_rebind_wants_both_disconnected_and_an_account(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts_now = {2001: Account(2001, "ann")}
    monkeypatch.setattr(accounts, "account_of", accounts_now.get)
    for uid in (1001, 2001):
        connection = world.connect(uid)
        assert world.refused(world.made.rebind(ROOT, "ann", 1001, 2001)) == "busy"
        connection.release()
    assert world.refused(world.made.rebind(ROOT, "ann", 1001, 2002)) == "not_found"
    assert world.refused(world.made.rebind(ROOT, "carl", 1001, 2001)) == "not_found"
    record = world.run(world.made.rebind(ROOT, "ann", 1001, 2001))
    assert [pin.uid for pin in record.accounts] == [2001]
    assert set(world.identity.forgotten) == {1001, 2001}
    assert world.audit.told[-1] == (
        "rebind",
        {"uid": 0, "principal": "ann", "old_uid": 1001, "new_uid": 2001, "account": "ann"},
    )


def test_a_private_hub_has_no_principals(world: World) -> None:
    private = Administration(world.store, world.sessions, world.connections, isolation=False, host=None)
    assert world.refused(private.principals("", 20)) == "forbidden"
    assert world.refused(private.retire(ROOT, "ann")) == "forbidden"
    assert world.run(private.usage("", 20)) == ([Measured("global", 0, 0)], 1)


def test_connections_are_listed_oldest_first_and_forgotten_when_released(world: World) -> None:
    made = [world.connect(uid) for uid in (1003, 1001, 1002)]
    found, total = world.made.connections(1, 5)
    assert (found, total) == (made[1:], 3)
    made[0].release()
    assert world.made.connections(0, 5) == (made[1:], 2)


def test_what_an_administrator_did_elsewhere_is_told_too(world: World) -> None:
    world.made.told("set", ROOT, key="memory.enabled", value="true")
    assert world.audit.told[-1] == ("set", {"uid": 0, "key": "memory.enabled", "value": "true"})
    Administration(world.store, world.sessions, set(), isolation=False, host=None).told("set", ROOT, key="x")
