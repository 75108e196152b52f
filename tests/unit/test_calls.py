"""`Memory.call`: exact types, and the order of checks: grammar, identity, switch, content, revision, quota."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amux.errors import AmuxError
from amux_hub.identity import Caller
from amux_hub.memory import Memory, check_binding
from amux_hub.store import Store, owner
from amux_hub.store.root import scope_location
from tests.refusals import refused

ALICE = Caller(1001, "alice", "alice", "principal:alice", administrator=False)
BOB = Caller(1002, "bob", "bob", "principal:bob", administrator=False)
REVISION = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    umask = os.umask(0o022)
    opened = Store(str(tmp_path), 1 << 20, 0)
    yield opened
    opened.close()
    os.umask(umask)


@pytest.fixture
def memory(store: Store) -> Iterator[Memory]:
    made = Memory(store, enabled=True)
    yield made
    made.close()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where alice's documents lie."""
    return tmp_path.joinpath("memory", *scope_location(ALICE.scope))


def put(disk: Path, path: str, data: bytes) -> None:
    """Write a file as any program would, directories included."""
    (disk / path).parent.mkdir(parents=True, exist_ok=True)
    (disk / owner.MARK).write_bytes(owner.text_of(ALICE.scope))
    (disk / path).write_bytes(data)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def call(memory: Memory, method: str, who: Caller | AmuxError = ALICE, **parameters: object) -> dict[str, Any]:
    async def caller() -> Caller:
        if isinstance(who, AmuxError):
            raise who
        return who

    return asyncio.run(memory.call(caller, method, parameters))


WRONG_TYPES: list[tuple[str, dict[str, Any]]] = [
    ("get", {"path": 1}),
    ("get", {"path": "a.md", "offset": True}),
    ("get", {"path": "a.md", "offset": "1"}),
    ("get", {"path": "a.md", "offset": 1.0}),
    ("get", {"path": "a.md", "offset": -1}),
    ("get", {"path": "a.md", "start_line": -1}),
    ("get", {"path": "a.md", "start_line": False}),
    ("get", {"path": "a.md", "end_line": -5}),
    ("get", {"path": "a.md", "start_line": 1, "offset": 1}),
    ("get", {"path": "a.md", "start_line": 3, "end_line": 2}),
    ("get", {}),
    ("get", {"path": None}),
    ("get", {"path": "a.md", "principal": "bob"}),
    ("get", {"path": "a.md", "scope": "global"}),
    ("get", {"path": "a.md", "scope": None}),
    ("list", {"scope": None}),
    ("search", {"query": ["a"]}),
    ("search", {"query": "a", "limit": 21}),
    ("search", {"query": "a", "limit": -1}),
    ("search", {"query": "a", "limit": True}),
    ("search", {"query": " "}),
    ("search", {"query": "a", "path_prefix": {}}),
    ("upsert", {"path": "a.md", "content": "x"}),
    ("upsert", {"path": "a.md", "content": b"x", "expected_revision": "absent"}),
    ("upsert", {"path": "a.md", "expected_revision": "absent"}),
    ("upsert", {"path": "a.md", "content": "x", "expected_revision": ""}),
    ("upsert", {"path": "a.md", "content": "x", "expected_revision": "Absent"}),
    ("upsert", {"path": "a.md", "content": "x", "expected_revision": "A" * 64}),
    ("upsert", {"path": "a.md", "content": "x", "expected_revision": "a" * 63}),
    ("upsert", {"path": "a.md", "content": "x", "expected_revision": "a" * 64 + "\n"}),
    ("upsert", {"path": "a.md", "content": "x", "expected_revision": "٣" * 64}),
    ("forget", {"path": "a.md", "expected_revision": "g" * 64}),
    ("forget", {"path": "a.md", "expected_revision": 0}),
    ("list", {"after": 5}),
    ("get", {"path": "a.md", "session": "../x", "binding": "principal:alice"}),
    ("get", {"path": "a.md", "binding": "principal:"}),
    ("get", {"path": "a.md", "binding": "principal:a:b"}),
    ("get", {"path": "a.md", "binding": "principal:a/b"}),
    ("get", {"path": "a.md", "binding": "nobody"}),
]


@pytest.mark.parametrize(("method", "parameters"), WRONG_TYPES)
def test_malformed_parameters_are_invalid_arguments(memory: Memory, method: str, parameters: dict[str, Any]) -> None:
    with pytest.raises(AmuxError) as caught:
        call(memory, method, **parameters)
    assert caught.value.code == "invalid_argument"


def test_zero_and_missing_mean_the_default(memory: Memory) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get", {"path": "a.md", "start_line": 0, "end_line": 0, "offset": 0}),
        ("get", {"path": "a.md", "start_line": None, "session": None, "binding": ""}),
        ("search", {"query": "a", "limit": 0, "path_prefix": ""}),
        ("search", {"query": "a", "limit": 20}),
    ]
    for method, parameters in calls:
        call(memory, method, **parameters)


GRAMMAR: list[tuple[str, dict[str, Any], str]] = [
    ("get", {"path": "../x.md"}, "invalid_path"),
    ("get", {"path": "a.md", "start_line": 2, "end_line": 1}, "invalid_argument"),
    ("search", {"query": "x" * 513}, "limit_exceeded"),
    ("search", {"query": "a", "path_prefix": "../x"}, "invalid_path"),
    ("upsert", {"path": "/x.md", "content": "x", "expected_revision": "absent"}, "invalid_path"),
    ("upsert", {"path": "x.md", "content": "x", "expected_revision": "no"}, "invalid_argument"),
    ("forget", {"path": "~.md", "expected_revision": "absent"}, "invalid_path"),
    ("list", {"path_prefix": "a//b"}, "invalid_path"),
    ("get", {"path": "a.md", "binding": "nonsense"}, "invalid_argument"),
]


@pytest.mark.parametrize(("method", "parameters", "code"), GRAMMAR)
def test_grammar_is_checked_before_identity(store: Store, method: str, parameters: dict[str, Any], code: str) -> None:
    memory = Memory(store, enabled=False)
    nobody = AmuxError("identity_refused", "nobody")
    with pytest.raises(AmuxError) as caught:
        call(memory, method, nobody, **parameters)
    assert caught.value.code == code
    memory.close()


def test_identity_is_checked_before_the_switch_and_the_switch_before_content(store: Store) -> None:
    memory = Memory(store, enabled=False)
    upsert: dict[str, Any] = {"path": "a.md", "content": "\0", "expected_revision": REVISION}
    expected: list[tuple[Caller | AmuxError, dict[str, Any], str]] = [
        (AmuxError("identity_refused", "nobody"), {}, "identity_refused"),
        (ALICE, {"binding": "principal:bob"}, "binding_mismatch"),
        (ALICE, {"session": "s1"}, "binding_required"),
        (ALICE, {"session": "s1", "binding": "principal:alice"}, "memory_disabled"),
    ]
    for who, more, code in expected:
        with pytest.raises(AmuxError) as caught:
            call(memory, "upsert", who, **upsert, **more)
        assert caught.value.code == code
    memory.close()


def test_content_is_checked_before_the_revision_and_the_revision_before_the_quota(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    call(memory, "upsert", path="a.md", content="x", expected_revision="absent")
    monkeypatch.setattr("amux.limits.SCOPE_DOCUMENTS", 1)
    monkeypatch.setattr("amux.limits.SCOPE_BYTES", 1)
    for content, revision, code in (
        ("\0", REVISION, "invalid_content"),
        ("x" * 65537, REVISION, "limit_exceeded"),
        ("xx", REVISION, "conflict"),
    ):
        with pytest.raises(AmuxError) as caught:
            call(memory, "upsert", path="a.md", content=content, expected_revision=revision)
        assert caught.value.code == code
    with pytest.raises(AmuxError) as caught:
        call(memory, "upsert", path="b.md", content="xx", expected_revision=REVISION)
    assert caught.value.code == "conflict"
    with pytest.raises(AmuxError) as caught:
        call(memory, "upsert", path="b.md", content="xx", expected_revision="absent")
    assert caught.value.details["limit"] == "scope_documents"


# A new name, what other programs made before, the code: whatever revision is expected.
NAMES = [
    ("a.md", ["A.md"], "name_twin"),
    ("dir/b.md", ["Dir/a.md"], "name_twin"),
    ("\u00e9.md", ["e\u0301.md"], "name_twin"),
    ("e\u0301.md", ["\u00e9.md"], "name_twin"),
    ("e\u0301.md", [], "invalid_path"),
    ("e\u0301/a.md", [], "invalid_path"),
    ("memory.md", [], "name_twin"),
    ("memory.MD/a.md", [], "name_twin"),
    ("memory.md", ["MEMORY.md"], "name_twin"),
]


@pytest.mark.parametrize("revision", [REVISION, sha(b"other"), "absent"])
@pytest.mark.parametrize(("path", "others", "code"), NAMES)
def test_a_new_name_is_checked_before_the_revision(
    memory: Memory, disk: Path, path: str, others: list[str], code: str, revision: str
) -> None:
    for other in others:
        put(disk, other, b"other")
    with pytest.raises(AmuxError) as caught:
        call(memory, "upsert", path=path, content="x", expected_revision=revision)
    assert caught.value.code == code
    assert [found["path"] for found in call(memory, "list")["documents"]] == others


@pytest.mark.parametrize(
    ("path", "other"), [("memory.md", "MEMORY.md"), ("memory.md", "a.md"), ("A.md", "a.md"), ("a.md", "A.md")]
)
def test_a_name_that_could_not_be_made_now_is_reached_by_its_exact_bytes(
    memory: Memory, disk: Path, path: str, other: str
) -> None:
    """Reserved, or one of a pair, and made behind the Hub's back: each call means this document and no other."""
    put(disk, path, b"mine")
    put(disk, other, b"other")
    assert call(memory, "get", path=path)["content"] == "mine"
    meant = {"path": path, "expected_revision": sha(b"other")}
    writes: list[tuple[str, dict[str, Any]]] = [("upsert", {**meant, "content": "x"}), ("forget", meant)]
    for method, parameters in writes:
        with pytest.raises(AmuxError) as caught:
            call(memory, method, **parameters)
        assert (caught.value.code, caught.value.details["observed_revision"]) == ("conflict", sha(b"mine"))
    longer = call(memory, "upsert", path=path, content="mine, and longer", expected_revision=sha(b"mine"))
    assert call(memory, "get", path=path)["content"] == "mine, and longer"
    shorter = call(memory, "upsert", path=path, content="m", expected_revision=longer["revision"])
    assert (disk / path).read_bytes() == b"m"
    gone = call(memory, "forget", path=path, expected_revision=shorter["revision"])
    assert gone["already_absent"] is False
    assert call(memory, "get", path=path)["exists"] is False
    assert {found.name: found.read_bytes() for found in disk.glob("*.md")} == {other: b"other"}


def test_while_off_every_data_call_is_refused_and_every_file_kept(store: Store, memory: Memory) -> None:
    written = call(memory, "upsert", path="a.md", content="x", expected_revision="absent")
    off = Memory(store, enabled=False)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("get", {"path": "a.md"}),
        ("search", {"query": "x"}),
        ("upsert", {"path": "b.md", "content": "x", "expected_revision": "absent"}),
        ("forget", {"path": "a.md", "expected_revision": written["revision"]}),
        ("list", {}),
    ]
    for method, parameters in calls:
        with pytest.raises(AmuxError) as caught:
            call(off, method, **parameters)
        assert caught.value.code == "memory_disabled"
    off.close()
    assert call(memory, "get", path="a.md")["content"] == "x"
    assert call(memory, "get", path="b.md")["exists"] is False


def test_c24_two_principals_have_two_memories(memory: Memory) -> None:
    written = call(memory, "upsert", ALICE, path="secret.md", content="alices word", expected_revision="absent")
    nothing = call(memory, "get", BOB, path="nothing.md")
    assert call(memory, "get", BOB, path="secret.md") == {**nothing, "path": "secret.md"}
    assert call(memory, "search", BOB, query="alices")["matches"] == []
    assert call(memory, "list", BOB)["documents"] == []
    gone = call(memory, "forget", BOB, path="secret.md", expected_revision=written["revision"])
    assert gone["already_absent"] is True
    with pytest.raises(AmuxError) as caught:
        call(memory, "upsert", BOB, path="secret.md", content="mine", expected_revision=written["revision"])
    assert caught.value.details["observed_revision"] == "absent"
    assert call(memory, "get", ALICE, path="secret.md")["content"] == "alices word"


def test_a_binding_can_only_refuse() -> None:
    check_binding(ALICE, "", "")
    check_binding(ALICE, "", "principal:alice")
    check_binding(ALICE, "s1", "principal:alice")
    refused("binding_required", check_binding, ALICE, "s1", "")
    refused("binding_mismatch", check_binding, ALICE, "", "global")
    refused("binding_mismatch", check_binding, ALICE, "s1", "principal:bob")
    refused("invalid_argument", check_binding, ALICE, "", "principal:")


def test_a_call_that_is_cancelled_finishes_its_write_before_it_gives_up_its_turn(
    memory: Memory, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = store.scope("principal:alice")
    started, go_on = threading.Event(), threading.Event()
    upsert = scope.upsert

    def slowly(path: str, text: str, expected: str) -> dict[str, object]:
        started.set()
        assert go_on.wait(30)
        return upsert(path, text, expected)

    monkeypatch.setattr(scope, "upsert", slowly)

    async def caller() -> Caller:
        return ALICE

    async def run() -> None:
        parameters = {"path": "a.md", "content": "x", "expected_revision": "absent"}
        task = asyncio.create_task(memory.call(caller, "upsert", parameters))
        await asyncio.to_thread(started.wait, 30)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)  # the cancellation arrives, and finds the write running
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert call(memory, "get", path="a.md")["content"] == "x"
