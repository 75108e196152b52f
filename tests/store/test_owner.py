"""D7: a directory of memory under another's name is nobody's, and the mark that tells is no document."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amux.errors import AmuxError
from amux_hub.store import Store, owner, scope, tree, write
from tests.refusals import refused
from tests.store.kit import Home, sha

ALICE, BOB = "principal:alice", "principal:bob"
HERS = "her lantern\n"
ABSENT = "absent"


@pytest.fixture
def places(home: Home) -> tuple[Path, Path]:
    """The directories of alice and bob, with a document of each."""
    for name, text in ((ALICE, HERS), (BOB, "his\n")):
        home.store.scope(name).upsert("d/a.md", text, ABSENT)
    users = home.path / "memory" / "users"
    return users / sha(b"alice"), users / sha(b"bob")


def exchange(one: Path, two: Path) -> None:
    swap = one.with_name("swap")
    one.rename(swap)
    two.rename(one)
    swap.rename(two)


def calls(store: Store, name: str) -> dict[str, Callable[[], Any]]:
    """Everything that reads or changes a memory."""
    one = store.scope(name)
    return {
        "get": lambda: one.get("d/a.md"),
        "search": lambda: one.search("lantern"),
        "list": lambda: one.listing(),
        "upsert": lambda: one.upsert("new.md", "x", ABSENT),
        "replace": lambda: one.upsert("d/a.md", "x", sha(HERS.encode())),
        "forget": lambda: one.forget("d/a.md", sha(HERS.encode())),
        "measure": lambda: one.measure(),
        "purge": lambda: one.purge(),
    }


def files(*directories: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for each in directories for path in each.rglob("*") if path.is_file()}


def check_refused(store: Store, name: str, *directories: Path) -> None:
    before = files(*directories)
    for method, call in calls(store, name).items():
        assert store.ready(name, "d/a.md", 0, 0, 0) is None, method
        with pytest.raises(owner.OwnerError) as caught:
            call()
        assert caught.value.code == "unsafe_file", method
        assert "alice" not in caught.value.message.replace(name, ""), "whose it is instead is nobody's business"
    assert files(*directories) == before


@pytest.mark.parametrize("restarted", [False, True], ids=["while it runs", "before it starts"])
def test_d7_two_directories_exchanged_open_nothing(
    home: Home, places: tuple[Path, Path], tmp_path: Path, restarted: bool
) -> None:
    assert home.store.scope(BOB).get("d/a.md")["content"] == "his\n"
    exchange(*places)
    store = home.store
    if restarted:
        store.close()
        store = home.store = Store(str(tmp_path), 1 << 20, 0)
    for name in (ALICE, BOB):
        check_refused(store, name, *places)
    exchange(*places)
    assert store.scope(ALICE).get("d/a.md")["content"] == HERS
    assert store.scope(BOB).get("d/a.md")["content"] == "his\n"


def test_d7_a_directory_copied_over_anothers_opens_nothing(home: Home, places: tuple[Path, Path]) -> None:
    alice, bob = places
    shutil.rmtree(bob)
    shutil.copytree(alice, bob)
    check_refused(home.store, BOB, *places)
    assert home.store.scope(ALICE).get("d/a.md")["content"] == HERS


def test_d7_files_exchanged_within_the_directory_are_noticed_within_the_time(
    home: Home, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by rsync --inplace: the directory is the same, what is in it is another's."""
    monkeypatch.setattr(scope, "MARK_SECONDS", 0.0)
    home.store.scope(BOB).get("d/a.md")
    alice, bob = places
    shutil.copytree(alice, bob, dirs_exist_ok=True)
    check_refused(home.store, BOB, *places)


def test_d7_everybodys_memory_and_a_principals_are_not_exchanged_either(home: Home, places: tuple[Path, Path]) -> None:
    home.use("global")
    home.put("d/a.md", HERS)
    home.hits("lantern")
    _, bob = places
    exchange(home.disk, bob)
    check_refused(home.store, "global", home.disk, bob)
    check_refused(home.store, BOB, home.disk, bob)


def test_d7_what_lost_its_mark_is_nobodys(home: Home, places: tuple[Path, Path]) -> None:
    _, bob = places
    (bob / owner.MARK).unlink()
    home.store.close()
    home.store = Store(str(home.path), 1 << 20, 0)
    check_refused(home.store, BOB, bob)
    (bob / owner.MARK).write_bytes(owner.text_of(BOB))
    assert home.store.scope(BOB).get("d/a.md")["content"] == "his\n"


SPOILED = [b"", b"principal:bob", b"principal:bob\n\n", b"principal:bo\n", b"\xff\n", b"x" * 4096]


@pytest.mark.parametrize("spoiled", SPOILED)
def test_d7_a_mark_that_is_not_exactly_that_is_none(home: Home, places: tuple[Path, Path], spoiled: bytes) -> None:
    _, bob = places
    mark = bob / owner.MARK
    mark.unlink()
    mark.write_bytes(spoiled)
    home.store.close()
    home.store = Store(str(home.path), 1 << 20, 0)
    check_refused(home.store, BOB, bob)


@pytest.mark.parametrize("kind", ["link", "linked", "fifo", "directory"])
def test_d7_a_mark_that_is_no_plain_file_of_ours_is_none(home: Home, places: tuple[Path, Path], kind: str) -> None:
    _, bob = places
    mark = bob / owner.MARK
    good = home.path / "good"
    mark.rename(good)
    if kind == "link":
        mark.symlink_to(good)
    elif kind == "linked":
        os.link(good, mark)
    elif kind == "fifo":
        os.mkfifo(mark)
    else:
        mark.mkdir()
    home.store.close()
    home.store = Store(str(home.path), 1 << 20, 0)
    for call in calls(home.store, BOB).values():
        refused("unsafe_file", call)
    assert (bob / "d" / "a.md").read_text() == "his\n"


def test_the_mark_is_made_with_the_first_write_and_lies_beside_the_documents(home: Home) -> None:
    bob = home.path / "memory" / "users" / sha(b"bob")
    his = home.store.scope(BOB)
    assert his.listing()["documents"] == [] and his.get("a.md")["exists"] is False
    assert not bob.exists(), "nothing is made by reading"
    his.upsert("a.md", "x", ABSENT)
    assert (bob / owner.MARK).read_bytes() == b"principal:bob\n"
    assert (bob / owner.MARK).stat().st_mode & 0o777 == 0o600
    assert not (home.disk / owner.MARK).exists()
    home.store.scope("global").upsert("a.md", "x", ABSENT)
    assert not (home.disk / owner.MARK).exists(), "everybody's memory is nobody's"


def test_the_mark_is_no_document_and_takes_nothing_of_the_quota(home: Home, places: tuple[Path, Path]) -> None:
    his = home.store.scope(BOB)
    assert his.measure() == (1, 4)
    assert [row["path"] for row in his.listing()["documents"]] == ["d/a.md"]  # type: ignore[attr-defined]
    answer = his.search("principal bob amux owner")
    assert (answer["matches"], answer["scanned_files"], answer["skipped_files"]) == ([], 1, 0)
    for call in (lambda: his.get(owner.MARK), lambda: his.upsert(owner.MARK, "principal:alice\n", ABSENT)):
        refused("invalid_path", call)
    assert his._index.census.entries == 2, "of the entries that one walk may see it takes none"


def test_the_mark_stays_when_the_last_document_goes_and_goes_with_a_purge(
    home: Home, places: tuple[Path, Path]
) -> None:
    alice, bob = places
    his = home.store.scope(BOB)
    his.forget("d/a.md", sha(b"his\n"))
    assert [path.name for path in bob.iterdir()] == [owner.MARK]
    assert his.purge() is True and not bob.exists()
    assert his.purge() is False
    his.upsert("b.md", "again", ABSENT)
    assert (bob / owner.MARK).exists() and alice.exists()


def test_a_crash_before_the_mark_leaves_a_directory_that_gets_it(home: Home) -> None:
    bob = home.path / "memory" / "users" / sha(b"bob")
    bob.mkdir(parents=True, mode=0o700)
    (bob / f".amux-tmp-{'0' * 32}").touch()
    his = home.store.scope(BOB)
    assert his.get("a.md")["exists"] is False
    his.upsert("a.md", "x", ABSENT)
    assert (bob / owner.MARK).read_bytes() == b"principal:bob\n"


def test_a_mark_that_the_disk_did_not_confirm_is_none(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(parent: int, name: str, data: bytes, path: str) -> None:
        fd = os.open(name, os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=parent)
        os.close(fd)
        raise AmuxError("outcome_uncertain", "not confirmed", path=path)

    his = home.store.scope(BOB)
    monkeypatch.setattr(write, "replace", failing)
    refused("storage_io", his.upsert, "a.md", "x", ABSENT)
    monkeypatch.undo()
    assert list((home.path / "memory" / "users" / sha(b"bob")).iterdir()) == []
    his.upsert("a.md", "x", ABSENT)


def test_the_mark_is_read_once_while_the_directory_is_the_same(
    home: Home, places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    his = home.store.scope(BOB)
    opened: list[str] = []
    real = tree.open_file

    def counting(name: str, parent: int, path: str) -> int | None:
        opened.append(name)
        return real(name, parent, path)

    monkeypatch.setattr(tree, "open_file", counting)
    for _ in range(5):
        his.get("d/a.md")
    assert owner.MARK not in opened
    assert home.store.ready(BOB, "d/a.md", 0, 0, 0) is not None


def test_d7_a_first_write_while_somebody_looks_is_no_strange_directory(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark is not there yet, and a moment later it is, with a document."""
    directory = home.path / "memory" / "users" / sha(b"alice")
    directory.mkdir(mode=0o700, parents=True)
    directory.parent.chmod(0o700)
    is_empty = owner.is_empty

    def late(root: int) -> bool:
        for name, data in ((owner.MARK, owner.text_of(ALICE)), ("a.md", HERS.encode())):
            (directory / name).write_bytes(data)
            (directory / name).chmod(0o600)
        return is_empty(root)

    monkeypatch.setattr(owner, "is_empty", late)
    assert home.store.scope(ALICE).get("a.md")["content"] == HERS
    assert home.store.scope(ALICE).judged() is not None
