"""The order of a durable write, seen in the system calls of a real Hub.

The rule that every test here applies (fsync(2), rename(2), open(2)): the bytes of a temporary file are synced
before it is renamed; each directory in which a name was made, replaced or removed is synced afterwards; and no
byte of the answer leaves before the last of these syncs has returned.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults import trace
from tests.faults.ledger import TEMPORARY, revision_of
from tests.faults.trace import Call
from tests.harness import Hub, until
from tests.mcp.peers import Direct

pytestmark = pytest.mark.usefixtures("strace")

_TRACED = (
    "openat,creat,write,pwrite64,writev,ftruncate,fallocate,fsync,fdatasync,/^rename,/^unlink,rmdir,/^mkdir,/^link,"
    "/^symlink,sendto,sendmsg"
)
OLD, NEW = "old\n" * 10, "new\n" * 5000


class Traced:
    """A Hub under strace; `during` gives the system calls of one call to it, up to its answer."""

    def __init__(self, directory: Path, *, mcp: bool) -> None:
        self.out = directory / "trace"
        # Started once without: what only the first start makes is not the subject.
        with Hub(directory / "hub", mcp=mcp):
            pass
        self.hub = Hub(directory / "hub", mcp=mcp, python=trace.python_under(self.out, _TRACED))
        self.scope = self.hub.home / "memory" / "global"

    def during(self, call: Callable[[], object], sign: str = "revision") -> list[Call]:
        """`sign` stands in the answer, and in nothing else that the Hub sends."""
        start = self.out.stat().st_size
        call()

        def answered() -> list[Call]:
            calls = trace.read(self.out, start)
            sent = [c.begun for c in calls if c.name in ("sendto", "sendmsg", "write") and _is_answer(c, sign)]
            return [c for c in calls if c.begun <= sent[0]] if sent else []

        calls: list[Call] = until(answered, "the answer appears in the trace")
        return calls


def _is_answer(call: Call, sign: str) -> bool:
    return any(path.startswith("socket:") for path in call.descriptors) and any(sign in text for text in call.texts)


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    made = Traced(tmp_path, mcp=False)
    with made.hub:
        yield made


def check_durable(calls: list[Call], scope: Path) -> tuple[list[tuple[str, str]], int]:
    """Hold the rule; answers the changes of directories, as (kind, path below the scope), and how many syncs."""
    answer = calls[-1]
    syncs = [c for c in calls if c.name in ("fsync", "fdatasync") and c.result == 0]
    for sync in syncs:
        assert sync.ended is not None and sync.ended < answer.begun, f"answered before {sync} returned"
    changes = []
    for call in calls:
        for kind, directory, name in _changes(call):
            assert call.ended is not None and call.ended < answer.begun
            assert any(s.descriptors == [directory] and s.begun > call.ended for s in syncs), (
                f"{kind} of {name} in {directory}, which was not synced before the answer"
            )
            if kind == "rename":
                _check_content(calls, syncs, call)
            changes.append((kind, os.path.relpath(f"{directory}/{name}", scope)))
    assert not [c for c in calls if c.name in ("creat", "link", "symlink", "linkat", "symlinkat", "fallocate")]
    return changes, len(syncs)


def _check_content(calls: list[Call], syncs: list[Call], rename: Call) -> None:
    """What is renamed was written whole and synced, in that order, and not touched afterwards."""
    temporary = f"{rename.descriptors[0]}/{rename.texts[0]}"
    writes = [c for c in calls if c.name in ("write", "pwrite64", "writev") and c.descriptors[:1] == [temporary]]
    synced = [s for s in syncs if s.descriptors == [temporary]]
    assert synced, f"{temporary} was renamed without a sync"
    for write in writes:
        assert write.ended is not None and write.result is not None and write.result > 0
        assert any(write.ended < s.begun for s in synced), "written after the last sync"
    assert all(s.ended is not None and s.ended < rename.begun for s in synced), "renamed before it was synced"
    assert (rename.ended or 0) > rename.begun or rename.result == 0


def _changes(call: Call) -> list[tuple[str, str, str]]:
    """Names that this call made, replaced or removed: kind, directory, name."""
    if call.result is None or call.result < 0:
        return []
    if call.name.startswith("rename"):
        (source, target), (old, new) = call.descriptors, call.texts
        assert source == target and old.startswith(TEMPORARY)
        return [("rename", target, new)]
    if call.name in ("unlinkat", "mkdirat"):
        kind = "rmdir" if "AT_REMOVEDIR" in call.arguments else call.name.removesuffix("at")
        return [(kind, call.descriptors[0], call.texts[0])]
    if call.name in ("unlink", "rmdir", "mkdir"):
        return [(call.name, str(Path(call.texts[0]).parent), Path(call.texts[0]).name)]
    if call.name == "openat" and "O_CREAT" in call.arguments:
        name = call.texts[0]
        assert name.startswith(TEMPORARY) and "O_EXCL" in call.arguments, f"{name} is written in place"
    if call.name == "openat" and "O_CREAT" not in call.arguments:
        assert "O_RDONLY" in call.arguments, f"{call.texts[0]} is opened for writing"
    return []


def _upsert(traced: Traced, path: str, content: str, before: str | None) -> list[Call]:
    expected = revision_of(None if before is None else before.encode())

    def call() -> None:
        reply = traced.hub.call("io.amux.Memory.Upsert", path=path, content=content, expected_revision=expected)
        assert reply["parameters"]["revision"] == revision_of(content.encode()), reply

    return traced.during(call)


def _forget(traced: Traced, path: str, before: str) -> list[Call]:
    def call() -> None:
        expected = revision_of(before.encode())
        reply = traced.hub.call("io.amux.Memory.Forget", path=path, expected_revision=expected)
        assert reply["parameters"]["already_absent"] is False, reply

    return traced.during(call)


def test_d4_the_first_document_of_a_scope(traced: Traced) -> None:
    changes, _ = check_durable(_upsert(traced, "a.md", OLD, None), traced.scope)
    assert changes == [("mkdir", "."), ("rename", "a.md")]


def test_d4_a_replacement_and_a_creation_beside_it(traced: Traced) -> None:
    _upsert(traced, "a.md", OLD, None)
    for path, before in (("a.md", OLD), ("b.md", None)):
        changes, syncs = check_durable(_upsert(traced, path, NEW, before), traced.scope)
        assert changes == [("rename", path)]
        assert syncs == 2, "more syncs than the two that are needed"
    assert (traced.scope / "a.md").read_text() == NEW


def test_d4_a_creation_in_new_directories_syncs_the_parent_of_each(traced: Traced) -> None:
    _upsert(traced, "a.md", OLD, None)
    changes, syncs = check_durable(_upsert(traced, "x/y/z/c.md", NEW, None), traced.scope)
    assert changes == [("mkdir", "x"), ("mkdir", "x/y"), ("mkdir", "x/y/z"), ("rename", "x/y/z/c.md")]
    assert syncs == 5
    changes, _ = check_durable(_upsert(traced, "x/y/w/d.md", NEW, None), traced.scope)
    assert changes == [("mkdir", "x/y/w"), ("rename", "x/y/w/d.md")]


def test_d4_a_removal_and_the_directories_that_it_empties(traced: Traced) -> None:
    _upsert(traced, "a.md", OLD, None)
    _upsert(traced, "x/y/z/c.md", OLD, None)
    _upsert(traced, "x/d.md", OLD, None)
    changes, syncs = check_durable(_forget(traced, "a.md", OLD), traced.scope)
    assert changes == [("unlink", "a.md")] and syncs == 1
    changes, _ = check_durable(_forget(traced, "x/y/z/c.md", OLD), traced.scope)
    assert changes == [("unlink", "x/y/z/c.md"), ("rmdir", "x/y/z"), ("rmdir", "x/y")]


def test_d4_a_refused_write_changes_nothing(traced: Traced) -> None:
    _upsert(traced, "a.md", OLD, None)

    def call() -> None:
        wrong = revision_of(b"something else")
        for path in ("a.md", "x/y/b.md"):
            reply = traced.hub.call("io.amux.Memory.Upsert", path=path, content=NEW, expected_revision=wrong)
            assert reply["error"] == "io.amux.Hub.Conflict"

    assert check_durable(traced.during(call, "x/y/b.md"), traced.scope) == ([], 0)


def test_d4_the_answer_through_mcp_comes_after_the_last_sync_too(tmp_path: Path) -> None:
    traced = Traced(tmp_path, mcp=True)
    with traced.hub as hub, Direct(hub.sockets["mcp"]) as peer:
        peer.open()

        def call() -> None:
            reply = peer.tool("memory_upsert", path="x/a.md", content=NEW, expected_revision="absent")
            assert reply["revision"] == revision_of(NEW.encode())

        changes, _ = check_durable(traced.during(call), traced.scope)
    assert changes == [("mkdir", "."), ("mkdir", "x"), ("rename", "x/a.md")]
