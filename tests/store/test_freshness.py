"""Nothing stale is ever answered, whatever another program does to the files, by inotify and by stat; C4."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amux_hub.store import owner
from tests.store.kit import WAIT_SECONDS, Home, sha

OLD, NEW = b"# Old\nred herring\n", b"# New\nblue whale!\n"
assert len(OLD) == len(NEW)


def settle(home: Home) -> None:
    """Search until nothing cached is younger than the clock's grain: what follows relies on the status alone."""
    deadline = time.monotonic() + WAIT_SECONDS
    while any(document.racy for document in home.scope._index.documents()):
        assert time.monotonic() < deadline, "what is cached never gets old"
        home.search("anything")
        if home.scope._index._proven:
            return  # events tell of every change; age does not matter


def check(home: Home, looking: str, path: str, data: bytes | None) -> None:
    """All ways to read agree with what is on the disk now, `data`, None for nothing.

    First the words that are there now: a stale cache would not have them, and no hit of a stale word leads the
    search to look at the file.
    """
    present = [] if data is None else [path]
    revision = "absent" if data is None else sha(data)
    words = {word: word in (data or b"").decode().lower() for word in ("red", "blue", "old", "new")}
    for word in sorted(words, key=lambda word: not words[word]):
        assert home.hits(word) == (present if words[word] else []), word
    answer = home.search("red blue")
    assert [match["path"] for match in answer["matches"]] == present
    assert [match["revision"] for match in answer["matches"]] == [revision] * len(present)
    assert home.get(path)["revision"] == revision
    listed = {row["path"]: row["revision"] for row in home.scope.listing()["documents"]}
    assert listed.get(path, "absent") == revision
    assert home.scope._index._proven == (looking == "watch")


def vim_rename(target: Path) -> None:
    """`:wq` with backupcopy=no: the old file becomes the backup, a new one takes its name."""
    backup = target.with_name("a.md~")
    target.rename(backup)
    with target.open("xb") as file:
        file.write(NEW)
        os.fsync(file.fileno())
    backup.unlink()


def vim_in_place(target: Path) -> None:
    """`:wq` with backupcopy=yes: a copy is the backup, the file is truncated and written."""
    backup = target.with_name("a.md~")
    shutil.copy2(target, backup)
    fd = os.open(target, os.O_WRONLY | os.O_TRUNC)
    os.write(fd, NEW)
    os.fsync(fd)
    os.close(fd)
    backup.unlink()


def cp_p(target: Path) -> None:
    """`cp -p` of a file with the same size and the same time of change."""
    source = target.parent.parent.parent / "source.md"
    source.write_bytes(NEW)
    times = target.stat()
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    subprocess.run(["cp", "-p", str(source), str(target)], check=True)
    assert (target.stat().st_size, target.stat().st_mtime_ns) == (times.st_size, times.st_mtime_ns)


def mv_over(target: Path) -> None:
    source = target.parent.parent.parent / "source.md"
    source.write_bytes(NEW)
    subprocess.run(["mv", "-f", str(source), str(target)], check=True)


def mv_over_with_the_old_times(target: Path) -> None:
    source = target.with_name(".source")
    source.write_bytes(NEW)
    times = target.stat()
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    source.rename(target)


def sed(target: Path) -> None:
    subprocess.run(["sed", "-i", "s/Old/New/; s/red herring/blue whale!/", str(target)], check=True)


def write_in_place(target: Path) -> None:
    fd = os.open(target, os.O_WRONLY)
    os.write(fd, NEW)
    os.close(fd)


def truncate_then_append(target: Path) -> None:
    os.truncate(target, 0)
    with target.open("ab") as file:
        file.write(NEW)


def remove_and_create(target: Path) -> None:
    target.unlink()
    target.write_bytes(NEW)


def memory_map_closed(target: Path) -> None:
    with target.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:] = NEW


EDITS: list[Callable[[Path], None]] = [
    vim_rename,
    vim_in_place,
    cp_p,
    mv_over,
    mv_over_with_the_old_times,
    sed,
    write_in_place,
    truncate_then_append,
    remove_and_create,
    memory_map_closed,
]


@pytest.mark.parametrize("path", ["a.md", "sub/a.md"])
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_c4_an_editors_change_is_seen(home: Home, looking: str, edit: Callable[[Path], None], path: str) -> None:
    target = home.put(path, OLD)
    check(home, looking, path, OLD)
    settle(home)
    edit(target)
    check(home, looking, path, NEW)
    target.write_bytes(OLD)
    check(home, looking, path, OLD)
    edit(target)
    check(home, looking, path, NEW)


def test_c4_truncate(home: Home, looking: str) -> None:
    target = home.put("a.md", OLD)
    check(home, looking, "a.md", OLD)
    settle(home)
    os.truncate(target, 10)
    assert home.hits("red") == ["a.md"]
    assert home.get("a.md")["revision"] == sha(OLD[:10])
    os.truncate(target, 0)
    assert home.hits("red") == []
    assert home.get("a.md")["revision"] == sha(b"")


def test_c4_a_write_through_a_descriptor_that_was_open_before_we_looked(home: Home, looking: str) -> None:
    target = home.put("a.md", OLD)
    fd = os.open(target, os.O_RDWR)
    check(home, looking, "a.md", OLD)
    settle(home)
    for data in (NEW, OLD, NEW):
        os.pwrite(fd, data, 0)
        check(home, looking, "a.md", data)
    os.close(fd)
    check(home, looking, "a.md", NEW)


def test_c4_stores_through_a_memory_map_are_seen_while_it_is_open(home: Home) -> None:
    """No event tells of them and no status need: an open without its close means read again."""
    target = home.put("a.md", OLD)
    check(home, "watch", "a.md", OLD)
    with target.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        file.close()  # the map keeps the file open
        for data in (NEW, OLD, NEW):
            mapped[:] = data
            check(home, "watch", "a.md", data)
            home.scope._index._full_pass = -1e9  # what a pass of stats sees proves nothing here
            home.search("x")
        mapped[:] = OLD
    check(home, "watch", "a.md", OLD)
    assert home.scope._index._opens == {}


def test_a_file_renamed_while_it_is_open_is_not_counted_as_open_for_ever(home: Home) -> None:
    target = home.put("a.md", OLD)
    check(home, "watch", "a.md", OLD)
    with target.open("r+b") as file:
        home.search("x")
        target.rename(home.disk / "b.md")
        home.search("x")
        file.write(NEW)
    check(home, "watch", "b.md", NEW)
    assert home.scope._index._opens == {}


@pytest.mark.parametrize("beside", ["pass", "directory"])
def test_c4_a_map_that_is_closed_beside_a_pass_of_stats_is_seen(home: Home, beside: str) -> None:
    target = home.put("a.md", OLD)
    check(home, "watch", "a.md", OLD)
    settle(home)
    with target.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:4] = b"# Ol"  # the page is dirty: later stores change no time
        deadline = time.monotonic() + WAIT_SECONDS
        while any(document.racy for document in home.scope._index.documents()):
            assert time.monotonic() < deadline
            home.search("x")  # while it is open it is read each time, and then is old enough to be believed
        mapped[:] = NEW
    # What the queue says of the closing must not be swallowed by a look at everything.
    if beside == "pass":
        home.scope._index._proven = False
        home.store._watcher.drain()
    else:
        (home.disk / "new").mkdir()
    check(home, "watch", "a.md", NEW)


def test_appending_deleting_moving_and_linking(home: Home, looking: str) -> None:
    target = home.put("a.md", OLD)
    check(home, looking, "a.md", OLD)
    settle(home)
    with target.open("ab") as file:
        file.write(b"blue")
    check(home, looking, "a.md", OLD + b"blue")
    target.rename(home.disk / "b.md")
    assert home.hits("red") == ["b.md"]
    (home.disk / "b.md").rename(home.disk / "b.txt")
    assert home.hits("red") == []
    (home.disk / "b.txt").rename(home.disk / "c.md")
    assert home.hits("red") == ["c.md"]
    (home.disk / "c.md").rename(home.disk / ".c.md")
    assert home.hits("red") == []
    (home.disk / ".c.md").rename(target)
    check(home, looking, "a.md", OLD + b"blue")
    target.unlink()
    check(home, looking, "a.md", None)
    target.symlink_to(home.put("d.txt", OLD))
    assert home.hits("red") == []
    target.unlink()
    os.mkfifo(target)
    assert home.search("red")["skipped"] == [{"path": "a.md", "reason": "not a regular file"}]
    target.unlink()
    target.mkdir()
    assert home.search("red")["skipped"][0]["reason"].startswith("a directory ends in")
    target.rmdir()
    target.write_bytes(OLD)
    check(home, looking, "a.md", OLD)


def test_what_is_skipped_is_as_fresh_as_what_is_found(home: Home, looking: str) -> None:
    target = home.put("a.md", b"\xff red")
    odd = home.disk / "bell\x07.md"
    for _ in range(2):
        odd.write_bytes(b"red")
        target.write_bytes(b"\xff red")
        assert len(home.search("red")["skipped"]) == 2
        settle(home)
        odd.unlink()
        assert home.search("red")["skipped"] == [{"path": "a.md", "reason": "not_utf8"}]
        target.write_bytes(b"x red")
        assert home.hits("red") == ["a.md"]
        target.write_bytes(b"red".ljust(65537))
        assert home.search("red")["skipped"] == [{"path": "a.md", "reason": "too_large"}]


def test_a_directory_moved_removed_and_made_again(home: Home, looking: str) -> None:
    home.put("d/e/a.md", "red")
    home.put("d/b.md", "red")
    assert home.hits("red") == ["d/b.md", "d/e/a.md"]
    settle(home)
    (home.disk / "d").rename(home.disk / "f")
    assert home.hits("red") == ["f/b.md", "f/e/a.md"]
    home.put("f/e/a.md", "blue")  # the watch moved along
    assert home.hits("red") == ["f/b.md"]
    (home.disk / "f").rename(home.path / "elsewhere")
    assert home.hits("red") == []
    (home.path / "elsewhere/e/a.md").write_text("red")
    assert home.hits("red") == []
    (home.path / "elsewhere").rename(home.disk / "d")
    assert home.hits("red") == ["d/b.md", "d/e/a.md"]
    shutil.rmtree(home.disk / "d")
    assert home.hits("red") == []
    home.put("d/e/a.md", "red")
    assert home.hits("red") == ["d/e/a.md"]
    home.put("d/e/a.md", "blue")
    assert home.hits("red") == []
    (home.disk / "d/e").rename(home.disk / "d/.e")
    assert home.hits("blue") == []


def test_directories_made_a_moment_ago_hold_documents_that_are_found(home: Home, looking: str) -> None:
    home.hits("x")
    for depth in range(1, 6):
        home.put("/".join("d" * depth) + "/a.md", "red")
        assert len(home.hits("red")) == depth


def test_the_scopes_own_directory_replaced(home: Home, looking: str) -> None:
    home.put("a.md", OLD)
    check(home, looking, "a.md", OLD)
    settle(home)
    home.disk.rename(home.path / "old")
    assert home.hits("red") == []
    home.put("a.md", NEW)
    check(home, looking, "a.md", NEW)
    shutil.rmtree(home.disk)
    assert home.hits("blue") == []
    assert home.get("a.md")["exists"] is False
    (home.path / "old").rename(home.disk)
    check(home, looking, "a.md", OLD)
    home.upsert("a.md", NEW.decode())
    check(home, looking, "a.md", NEW)


def test_the_directory_above_a_scope_replaced(home: Home, looking: str) -> None:
    """Nothing happens to the scope's own directory, which is watched: another one is in its place."""
    home.use("principal:alice")
    scope = home.scope
    scope.upsert("a.md", OLD.decode(), "absent")
    home.disk = next((home.path / "memory/users").iterdir())
    check(home, looking, "a.md", OLD)
    settle(home)
    (home.path / "memory/users").rename(home.path / "away")
    assert home.hits("red") == []
    home.disk.mkdir(parents=True, mode=0o700)
    home.put(owner.MARK, owner.text_of("principal:alice"))
    home.put("b.md", NEW)
    assert home.hits("blue") == ["b.md"]  # before any hit of the old ones could be found out
    check(home, looking, "b.md", NEW)
    scope.upsert("c.md", "red", "absent")
    assert home.hits("red") == ["c.md"]
    (home.path / "memory/users").rename(home.path / "other")
    (home.path / "away").rename(home.path / "memory/users")
    check(home, looking, "a.md", OLD)


def test_a_directory_moved_from_one_scope_to_another(home: Home, looking: str) -> None:
    """The kernel's watch goes along: the scope that lost it must not end it for the one that has it."""
    alice, bob = home.store.scope("principal:alice"), home.store.scope("principal:bob")
    alice.upsert("d/a.md", "red", "absent")
    bob.upsert("b.md", "red", "absent")
    places = {name: home.path / "memory/users" / sha(name.encode()) for name in ("alice", "bob")}

    def hits(scope: Any) -> list[str]:
        return [match["path"] for match in scope.search("red")["matches"]]

    assert (hits(alice), hits(bob)) == (["d/a.md"], ["b.md"])
    (places["alice"] / "d").rename(places["bob"] / "d")
    assert (hits(bob), hits(alice)) == (["b.md", "d/a.md"], [])
    (places["bob"] / "d/a.md").write_text("blue")
    assert (hits(bob), hits(alice)) == (["b.md"], [])
    (places["bob"] / "d/c.md").write_text("red")
    assert (hits(bob), hits(alice)) == (["b.md", "d/c.md"], [])


def test_our_own_writes_are_seen_at_once(home: Home, looking: str) -> None:
    for number in range(30):
        revision = home.upsert("a/b.md", f"word{number}")
        assert home.hits(f"word{number}") == ["a/b.md"]
        assert home.hits(f"word{number - 1}") == []
    home.scope.forget("a/b.md", revision)
    assert home.hits("word29") == []


def test_times_alone_change_nothing(home: Home, looking: str) -> None:
    target = home.put("a.md", OLD)
    check(home, looking, "a.md", OLD)
    for seconds in (0, 1, 4102444800):  # the past, and the year 2100
        os.utime(target, (seconds, seconds))
        check(home, looking, "a.md", OLD)
        target.write_bytes(NEW)
        os.utime(target, (seconds, seconds))
        check(home, looking, "a.md", NEW)
        target.write_bytes(OLD)
