"""What the operations tell the audit: each write with its outcome, of reads what has to do with rights."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.audit import Audit, Field
from amux_hub.identity import Caller
from amux_hub.memory import Memory
from amux_hub.store import Store

ANN = Caller(1001, "ann", "ann", "principal:ann", administrator=False)
ROOT = Caller(0, "root", "", "", administrator=True)


class Kept(Audit):
    def __init__(self) -> None:
        super().__init__()
        self.told: list[tuple[str, str, dict[str, Field]]] = []

    def did(self, event: str, **fields: Field) -> None:
        self.told.append((event, "ok", fields))

    def refused(self, event: str, uid: int, reason: str, **fields: Field) -> None:
        self.told.append((event, reason, {"uid": uid, **fields}))


class World:
    def __init__(self, store: Store, enabled: bool) -> None:
        self.audit = Kept()
        self.memory = Memory(store, enabled, self.audit)

    def call(self, method: str, caller: Caller = ANN, **parameters: object) -> Mapping[str, object]:
        async def who() -> Caller:
            return caller

        return asyncio.run(self.memory.call(who, method, parameters))

    def refused(self, method: str, caller: Caller = ANN, **parameters: object) -> str:
        with pytest.raises(AmuxError) as caught:
            self.call(method, caller, **parameters)
        return caught.value.code


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "home").mkdir(mode=0o700)
    made = Store(str(tmp_path / "home"), 1 << 20, 0)
    yield made
    made.close()


def test_a_write_is_told_with_both_revisions_and_never_its_content(store: Store) -> None:
    world = World(store, enabled=True)
    first = world.call("upsert", path="a.md", content="a secret", expected_revision="absent")["revision"]
    world.call("forget", path="a.md", expected_revision=first)
    who = {"uid": 1001, "account": "ann", "principal": "ann", "scope": "principal:ann", "path": "a.md"}
    assert world.audit.told == [
        ("upsert", "ok", {**who, "before": "absent", "revision": first}),
        ("forget", "ok", {**who, "before": first, "revision": "absent"}),
    ]
    assert "secret" not in repr(world.audit.told)
    world.memory.close()


def test_a_refused_write_is_told_and_a_read_is_not(store: Store) -> None:
    world = World(store, enabled=True)
    world.call("search", query="x")
    world.call("get", path="a.md")
    world.call("list")
    assert not world.audit.told
    assert world.refused("forget", path="no/../way.md", expected_revision="absent") == "invalid_path"
    assert world.refused("upsert", path="a.md", content="x", expected_revision="0" * 64) == "conflict"
    assert world.audit.told == [("upsert", "conflict", {"uid": 1001, "principal": "ann", "path": "a.md"})]
    world.memory.close()


def test_reads_refused_for_their_rights_are_told(store: Store) -> None:
    world = World(store, enabled=False)
    assert world.refused("get", path="a.md") == "memory_disabled"
    assert world.refused("get", path="a.md", binding="global") == "binding_mismatch"
    assert world.refused("list", session="s1") == "binding_required"
    assert world.refused("search", ROOT, query="x") == "identity_refused"
    assert [reason for _, reason, _ in world.audit.told] == [
        "memory_disabled",
        "binding_mismatch",
        "binding_required",
        "identity_refused",
    ]
    world.memory.close()


def test_root_has_no_memory_whatever_it_asks(store: Store) -> None:
    world = World(store, enabled=True)
    for method, parameters in (
        ("search", {"query": "x"}),
        ("get", {"path": "a.md"}),
        ("upsert", {"path": "a.md", "content": "", "expected_revision": "absent"}),
        ("forget", {"path": "a.md", "expected_revision": "absent"}),
        ("list", {}),
    ):
        assert world.refused(method, ROOT, **parameters) == "identity_refused"
    world.memory.close()


def test_d7_whoever_meets_anothers_memory_is_told_to_the_audit(store: Store, tmp_path: Path) -> None:
    world = World(store, enabled=True)
    world.call("upsert", path="a.md", content="hers", expected_revision="absent")
    (directory,) = (tmp_path / "home" / "memory" / "users").iterdir()
    (directory / ".amux-owner").write_text("principal:bob\n")
    del world.audit.told[:]
    (directory / "touched").touch()
    assert world.refused("get", path="a.md") == "unsafe_file"
    assert world.refused("search", query="hers") == "unsafe_file"
    assert world.refused("list") == "unsafe_file"
    assert [told[:2] for told in world.audit.told] == [(name, "unsafe_file") for name in ("get", "search", "list")]
    assert {told[2]["principal"] for told in world.audit.told} == {"ann"}
    world.memory.close()
