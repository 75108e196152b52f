"""Upsert and forget: semantics of "Writing"; C3, C9, C21, C23."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from amux_hub.store import Store
from tests.refusals import refused
from tests.store.kit import Home, sha

OTHER = "0" * 64


def descriptors(home: Home) -> int:
    """How many are open."""
    home.store.settle()
    return len(os.listdir("/proc/self/fd"))


def test_upsert_answers_path_and_revision_and_the_bytes_are_there(home: Home) -> None:
    text = "\ufeff# Ünï\r\n部署\r"
    assert home.scope.upsert("a/b/c.md", text, "absent") == {"path": "a/b/c.md", "revision": sha(text.encode())}
    assert home.tree() == {"a/b/c.md": text.encode()}
    assert home.upsert("a/b/c.md", "") == sha(b"")
    assert home.get("a/b/c.md")["exists"] is True


def test_a_conflict_carries_the_revision_that_is_there_and_changes_nothing(home: Home) -> None:
    error = refused("conflict", home.scope.upsert, "a.md", "x", OTHER)
    assert (error.details["observed_revision"], error.details["path"]) == ("absent", "a.md")
    home.upsert("a.md", "now")
    for expected in ("absent", OTHER):
        error = refused("conflict", home.scope.upsert, "a.md", "x", expected)
        assert error.details["observed_revision"] == sha(b"now")
        assert error.details["expected_revision"] == expected
    assert home.tree() == {"a.md": b"now"}


def test_a_conflict_is_strict_identical_content_included(home: Home) -> None:
    home.upsert("a.md", "same")
    error = refused("conflict", home.scope.upsert, "a.md", "same", "absent")
    assert error.details["observed_revision"] == sha(b"same")  # its own content is already there
    assert home.upsert("a.md", "same", sha(b"same")) == sha(b"same")


def test_c3_an_edit_by_hand_between_read_and_write_is_a_conflict_and_stays(home: Home, looking: str) -> None:
    seen = home.upsert("a.md", "old")
    home.hits("old")
    home.put("a.md", "by hand")
    error = refused("conflict", home.scope.upsert, "a.md", "consolidated", seen)
    assert error.details["observed_revision"] == sha(b"by hand")
    refused("conflict", home.scope.forget, "a.md", seen)
    assert home.tree() == {"a.md": b"by hand"}


def test_c3_an_edit_that_keeps_size_and_times_is_a_conflict_too(home: Home, looking: str) -> None:
    seen = home.upsert("a.md", "old")
    target = home.disk / "a.md"
    times = target.stat()
    target.write_bytes(b"new")
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))
    refused("conflict", home.scope.upsert, "a.md", "x", seen)


def test_forget_answers_absent_and_says_what_was_there(home: Home) -> None:
    revision = home.upsert("a.md", "x")
    assert home.scope.forget("a.md", revision) == {"path": "a.md", "revision": "absent", "already_absent": False}
    for expected in (revision, "absent", OTHER):
        assert home.scope.forget("a.md", expected) == {"path": "a.md", "revision": "absent", "already_absent": True}
    assert home.scope.forget("no/such/dir.md", OTHER)["already_absent"] is True


def test_forget_with_absent_or_a_wrong_revision_is_a_conflict(home: Home) -> None:
    revision = home.upsert("a.md", "x")
    for expected in ("absent", OTHER):
        assert refused("conflict", home.scope.forget, "a.md", expected).details["observed_revision"] == revision
    assert home.tree() == {"a.md": b"x"}


def test_emptied_directories_are_removed_and_others_stay(home: Home) -> None:
    revision = home.upsert("a/b/c/d.md", "x")
    home.upsert("a/other.md", "x")
    home.scope.forget("a/b/c/d.md", revision)
    assert sorted(path.name for path in home.disk.rglob("*")) == ["a", "other.md"]
    home.scope.forget("a/other.md", revision)
    assert list(home.disk.iterdir()) == []
    assert home.disk.is_dir()
    home.put("k/notes.txt", "a file of somebody's")
    home.scope.forget("k/x.md", home.upsert("k/x.md", "x"))
    assert (home.disk / "k/notes.txt").exists()


def test_a_refused_write_leaves_no_directory_and_no_temporary_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    refused("conflict", home.scope.upsert, "new/dir/a.md", "x", OTHER)
    refused("invalid_content", home.scope.upsert, "new/dir/a.md", "\0", "absent")
    home.scope.free_bytes = 1 << 62
    refused("storage_full", home.scope.upsert, "new/dir/a.md", "x", "absent")
    home.scope.free_bytes = 0

    def broken(fd: int) -> None:
        raise OSError(5, "injected")

    monkeypatch.setattr(os, "fsync", broken)
    refused("storage_io", home.scope.upsert, "new/dir/a.md", "x", "absent")
    monkeypatch.undo()
    assert list(home.disk.iterdir()) == []


def test_a_failed_creation_of_directories_leaks_no_descriptor(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir = os.mkdir

    def once(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if name == "c":
            raise OSError(28, "injected")
        mkdir(name, mode, dir_fd=dir_fd)

    home.upsert("warm.md", "x")
    monkeypatch.setattr(os, "mkdir", once)
    before = descriptors(home)
    for _ in range(5):
        refused("storage_full", home.scope.upsert, "a/b/c/x.md", "x", "absent")
    assert descriptors(home) == before
    assert [path.name for path in home.disk.iterdir()] == ["warm.md"]


def test_no_operation_leaks_a_descriptor(home: Home) -> None:
    home.upsert("a/b.md", "needle")
    (home.disk / "link.md").symlink_to("/etc/passwd")
    (home.disk / "linked").symlink_to("/etc")
    home.put("bad.md", b"\xff")
    home.hits("needle")
    before = descriptors(home)
    for number in range(20):
        home.get("a/b.md")
        home.get("no/such.md")
        home.hits("needle")
        home.scope.listing()
        home.upsert("a/b.md", f"needle {number}")
        home.scope.forget("x/y.md", home.upsert("x/y.md", "x"))
        for path in ("link.md", "linked/x.md"):
            refused("unsafe_file", home.scope.get, path)
            refused("unsafe_file", home.scope.upsert, path, "x", "absent")
        refused("not_utf8", home.scope.get, "bad.md")
        refused("conflict", home.scope.upsert, "a/b.md", "x", "absent")
    assert descriptors(home) == before


def outside(home: Home) -> Path:
    target = home.path / "outside"
    target.mkdir()
    (target / "victim.md").write_bytes(b"untouched")
    return target


@pytest.mark.parametrize("name", ["a.md", "MEMORY.md"])
def test_c9_a_link_at_the_target_is_refused_and_the_outside_file_unchanged(home: Home, name: str) -> None:
    victim = outside(home) / "victim.md"
    (home.disk / name).symlink_to(victim)
    for expected in ("absent", sha(b"untouched")):
        refused("unsafe_file", home.scope.upsert, name, "evil", expected)
        refused("unsafe_file", home.scope.forget, name, expected)
    assert victim.read_bytes() == b"untouched"
    assert (home.disk / name).is_symlink()


def test_c9_a_hard_link_at_the_target_is_refused(home: Home) -> None:
    victim = outside(home) / "victim.md"
    os.link(victim, home.disk / "a.md")
    for expected in ("absent", sha(b"untouched")):
        refused("unsafe_file", home.scope.upsert, "a.md", "evil", expected)
        refused("unsafe_file", home.scope.forget, "a.md", expected)
    assert victim.read_bytes() == b"untouched"
    assert victim.stat().st_nlink == 2


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_c9_a_link_at_the_temporary_name_is_not_followed(
    home: Home, monkeypatch: pytest.MonkeyPatch, plant: Callable[[Path, Path], None]
) -> None:
    victim = outside(home) / "victim.md"
    monkeypatch.setattr("secrets.token_hex", lambda size: "0" * 2 * size)
    plant(victim, home.disk / (".amux-tmp-" + "0" * 32))
    refused("storage_io", home.scope.upsert, "a.md", "evil", "absent")
    assert victim.read_bytes() == b"untouched"


def test_c9_a_link_put_in_place_of_the_document_just_before_the_rename_is_replaced_not_followed(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = outside(home) / "victim.md"
    revision = home.upsert("a.md", "old")
    rename = os.rename

    def plant_first(src: str, dst: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        (home.disk / "a.md").unlink()
        (home.disk / "a.md").symlink_to(victim)
        rename(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "rename", plant_first)
    home.scope.upsert("a.md", "new", revision)
    assert victim.read_bytes() == b"untouched"
    assert home.tree() == {"a.md": b"new"}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_c23_modes_do_not_follow_the_umask(tmp_path: Path, umask: int) -> None:
    os.umask(umask)
    store = Store(str(tmp_path), 1 << 20, 0)
    try:
        for name in ("global", "principal:alice"):
            revision = store.scope(name).upsert("a/b/c.md", "x", "absent")["revision"]
            store.scope(name).upsert("a/b/c.md", "y", str(revision))
        for path in tmp_path.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            assert mode == (0o700 if path.is_dir() else 0o600), (path, oct(mode))
    finally:
        store.close()


def test_c23_a_document_that_another_program_made_readable_for_all_is_closed_when_it_is_replaced(home: Home) -> None:
    home.put("a.md", "x").chmod(0o666)
    home.upsert("a.md", "y")
    assert stat.S_IMODE((home.disk / "a.md").stat().st_mode) == 0o600


def test_a_name_of_255_bytes_can_be_written(home: Home) -> None:
    path = "c" * 252 + ".md"
    home.upsert(path, "x")
    assert list(home.tree()) == [path]


def test_c43_a_write_that_was_shorter_than_the_system_said_is_no_document(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    home.upsert("a.md", "old")

    def lying(fd: int, data: memoryview) -> int:
        write(fd, data[:-1])
        return len(data)

    monkeypatch.setattr(os, "write", lying)
    refused("storage_io", home.scope.upsert, "a.md", "new text", sha(b"old"))
    assert home.tree() == {"a.md": b"old"}


def test_c43_a_write_in_small_pieces_is_whole(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:1000]))
    home.upsert("a.md", "x" * 65536)
    assert home.tree() == {"a.md": b"x" * 65536}


def test_the_last_sync_that_fails_is_uncertain_and_says_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync

    def directories_fail(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(5, "injected")
        fsync(fd)

    revision = home.upsert("a.md", "old")
    monkeypatch.setattr(os, "fsync", directories_fail)
    error = refused("outcome_uncertain", home.scope.upsert, "a.md", "new", revision)
    assert error.details["path"] == "a.md"
    assert "read" in error.message
    refused("outcome_uncertain", home.scope.forget, "a.md", sha(b"new"))
    monkeypatch.undo()
    assert home.tree() == {}
