"""Whatever else may lie on the disk: semantics of "What lies on disk"; C15, C23, D2."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.refusals import refused
from tests.store.kit import Home, needs_an_ordinary_account, sha

LATIN = b"caf\xe9 au lait needle"


def reasons(home: Home, query: str = "needle") -> dict[str, str]:
    answer = home.search(query)
    assert answer["incomplete"] is False  # skipping is not incomplete
    assert answer["skipped_files"] == len(answer["skipped"])
    return {entry["path"]: entry["reason"] for entry in answer["skipped"]}


def test_c15_one_windows_1252_byte_among_100_documents(home: Home) -> None:
    for number in range(99):
        home.put(f"{number:02}.md", f"needle {number}")
    home.put("bad.md", LATIN)
    answer = home.search("needle")
    assert answer["scanned_files"] == 99
    assert (answer["skipped_files"], answer["skipped"]) == (1, [{"path": "bad.md", "reason": "not_utf8"}])
    assert answer["incomplete"] is False
    assert len(answer["matches"]) == 20
    assert home.search("needle", "42.md")["matches"][0]["path"] == "42.md"
    home.upsert("00.md", "mended")


def test_not_utf8_names_the_byte_position_and_the_revision_and_can_be_mended(home: Home) -> None:
    home.put("bad.md", LATIN)
    error = refused("not_utf8", home.scope.get, "bad.md")
    assert error.details["position"] == 3
    assert error.details["observed_revision"] == sha(LATIN)
    refused("conflict", home.scope.upsert, "bad.md", "x", "absent")
    assert home.upsert("bad.md", "café", sha(LATIN)) == sha("café".encode())
    assert home.get("bad.md")["content"] == "café"
    home.put("bad.md", LATIN)
    assert home.scope.forget("bad.md", sha(LATIN))["already_absent"] is False
    assert not (home.disk / "bad.md").exists()


@pytest.mark.parametrize(
    "data", [b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", "x".encode("utf-16")]
)
def test_every_kind_of_not_utf8(home: Home, data: bytes) -> None:
    home.put("bad.md", b"ok " + data)
    assert refused("not_utf8", home.scope.get, "bad.md").details["position"] == 3
    assert reasons(home) == {"bad.md": "not_utf8"}


def test_over_the_limit_on_disk(home: Home) -> None:
    big = b"needle " + b"x" * 65536
    home.put("big.md", big)
    home.put("fits.md", b"needle " + b"x" * (65536 - 7))
    assert home.hits("needle") == ["fits.md"]
    assert reasons(home) == {"big.md": "too_large"}
    assert home.whole("big.md") == big
    refused("limit_exceeded", home.scope.upsert, "big.md", "x" * 65537, sha(big))  # limits judge new content only
    home.upsert("big.md", "small needle", sha(big))
    assert home.hits("needle") == ["big.md", "fits.md"]


def test_the_entry_file_over_its_limit_on_disk_stays_readable(home: Home) -> None:
    home.put("MEMORY.md", "needle\n" * 1000)
    assert home.hits("needle") == ["MEMORY.md"]
    assert home.get("MEMORY.md")["total_lines"] == 1000


def test_links_hidden_names_and_anything_but_md_are_not_documents(home: Home) -> None:
    home.put("real.md", "needle")
    home.put(".hidden.md", "needle")
    home.put(".git/x.md", "needle")
    home.put("notes.txt", "needle")
    home.put("notes.MD", "needle")
    home.put("notes", "needle")
    (home.disk / "link.md").symlink_to("real.md")
    (home.disk / "dangling.md").symlink_to("nowhere.md")
    answer = home.search("needle")
    assert [match["path"] for match in answer["matches"]] == ["real.md"]
    assert (answer["scanned_files"], answer["skipped_files"]) == (1, 0)
    listed = home.scope.listing()
    assert (listed["total_documents"], listed["total_bytes"]) == (1, 6)
    for link in ("link.md", "dangling.md"):
        refused("unsafe_file", home.scope.get, link)
        refused("unsafe_file", home.scope.upsert, link, "x", "absent")
        refused("unsafe_file", home.scope.forget, link, sha(b"needle"))


def plant(home: Home, kind: str) -> Path:
    target = home.disk / "odd.md"
    if kind == "hard_link":
        home.put("outside.txt", "needle")
        os.link(home.disk / "outside.txt", target)
    elif kind == "fifo":
        os.mkfifo(target)
    elif kind == "socket":
        # A Unix address holds 108 bytes, a temporary directory may be longer.
        here = os.open(home.disk, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"/proc/self/fd/{here}/odd.md")
        os.close(here)
    return target


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("hard_link", "more than one hard link"),
        ("fifo", "not a regular file"),
        ("socket", "not a regular file"),
    ],
)
def test_d2_skipped_with_the_reason_and_unsafe_to_everything_else(home: Home, kind: str, reason: str) -> None:
    home.put("good.md", "needle")
    target = plant(home, kind)
    before = target.lstat()
    assert home.hits("needle") == ["good.md"]
    assert reasons(home) == {"odd.md": reason}
    for call in (
        lambda: home.scope.get("odd.md"),
        lambda: home.scope.upsert("odd.md", "x", "absent"),
        lambda: home.scope.upsert("odd.md", "x", sha(b"needle")),
        lambda: home.scope.forget("odd.md", sha(b"needle")),
    ):
        error = refused("unsafe_file", call)
        assert (error.details["path"], error.details["reason"]) == ("odd.md", reason)
    after = target.lstat()
    assert (before.st_ino, before.st_nlink, before.st_mtime_ns) == (after.st_ino, after.st_nlink, after.st_mtime_ns)


def test_d2_what_is_no_file_is_not_even_opened(home: Home) -> None:
    """To open a device or a pipe can do something: here it would let a writer go on that waits for a reader."""
    pipe = home.disk / "odd.md"
    os.mkfifo(pipe)
    waiting = threading.Event()

    def write() -> None:
        waiting.set()
        os.close(os.open(pipe, os.O_WRONLY))

    writer = threading.Thread(target=write)
    writer.start()
    waiting.wait()
    for _ in range(100):
        home.hits("needle")
        refused("unsafe_file", home.scope.get, "odd.md")
        refused("unsafe_file", home.scope.upsert, "odd.md", "x", "absent")
        refused("unsafe_file", home.scope.forget, "odd.md", sha(b"needle"))
    assert writer.is_alive()
    os.close(os.open(pipe, os.O_RDONLY))
    writer.join()


@pytest.mark.parametrize("kind", ["link", "fifo", "hard_link"])
def test_d1_d2_a_file_swapped_between_the_look_and_the_opening(
    home: Home, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    outside = home.path / "outside.md"
    outside.write_text("secret of the outside")
    stat = os.stat
    armed = True

    def swap_afterwards(path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        nonlocal armed
        status = stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == "odd.md" and armed:
            armed = False
            (home.disk / "odd.md").unlink()
            if kind == "link":
                (home.disk / "odd.md").symlink_to(outside)
            elif kind == "fifo":
                os.mkfifo(home.disk / "odd.md")
            else:
                os.link(outside, home.disk / "odd.md")
        return status

    monkeypatch.setattr(os, "stat", swap_afterwards)
    for call in (
        lambda: home.scope.get("odd.md"),
        lambda: home.scope.upsert("odd.md", "x", sha(b"x")),
        lambda: home.scope.forget("odd.md", sha(b"x")),
    ):
        (home.disk / "odd.md").unlink(missing_ok=True)
        home.put("odd.md", "x")
        armed = True
        refused("unsafe_file", call)
        assert not armed
    assert outside.read_text() == "secret of the outside"


@needs_an_ordinary_account
def test_unreadable_is_skipped_and_unsafe(home: Home) -> None:
    home.put("good.md", "needle")
    home.put("locked.md", "needle").chmod(0)
    home.put("closed/x.md", "needle")
    (home.disk / "closed").chmod(0)
    try:
        assert home.hits("needle") == ["good.md"]
        assert set(reasons(home)) == {"closed", "locked.md"}
        for path in ("locked.md", "closed/x.md"):
            refused("unsafe_file", home.scope.get, path)
            refused("unsafe_file", home.scope.upsert, path, "x", "absent")
            refused("unsafe_file", home.scope.forget, path, "absent")
        home.upsert("other.md", "the rest works")
        (home.disk / "locked.md").chmod(0o600)
        assert home.hits("needle") == ["good.md", "locked.md"]
    finally:
        (home.disk / "closed").chmod(0o700)
    assert home.hits("needle") == ["closed/x.md", "good.md", "locked.md"]


@pytest.mark.root
def test_c23_a_file_and_a_directory_of_another_account_stop_nothing_else(home: Home) -> None:
    home.put("good.md", "needle")
    os.chown(home.put("foreign.md", "needle"), 65534, 65534)
    home.put("theirs/x.md", "needle")
    os.chown(home.disk / "theirs", 65534, 65534)
    assert home.hits("needle") == ["good.md"]
    found = reasons(home)
    assert found["foreign.md"] == "owned by another account"
    assert "owned by another account" in found["theirs"]
    for path in ("foreign.md", "theirs/x.md"):
        error = refused("unsafe_file", home.scope.get, path)
        assert "owned by another account" in error.message
        refused("unsafe_file", home.scope.upsert, path, "x", sha(b"needle"))
        refused("unsafe_file", home.scope.forget, path, sha(b"needle"))
    home.upsert("new.md", "needle")
    assert home.hits("needle") == ["good.md", "new.md"]
    assert (home.disk / "foreign.md").read_text() == "needle"


@pytest.mark.root
def test_d2_a_device_is_refused(home: Home) -> None:
    os.mknod(home.disk / "odd.md", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero: read it, and it never ends
    assert home.hits("needle") == []
    assert reasons(home) == {"odd.md": "not a regular file"}
    for call in (
        lambda: home.scope.get("odd.md"),
        lambda: home.scope.upsert("odd.md", "x", "absent"),
        lambda: home.scope.forget("odd.md", "absent"),
    ):
        assert refused("unsafe_file", call).details["reason"] == "not a regular file"


def test_a_directory_with_a_documents_name_is_no_document(home: Home) -> None:
    home.put("odd.md/x.md", "needle")
    assert home.hits("needle") == []
    assert list(reasons(home)) == ["odd.md"]
    for call in (lambda: home.scope.get("odd.md"), lambda: home.scope.upsert("odd.md", "x", "absent")):
        refused("unsafe_file", call)


def test_a_file_where_a_directory_is_needed_is_refused(home: Home) -> None:
    home.put("notes", "not a directory")
    for call in (
        lambda: home.scope.get("notes/x.md"),
        lambda: home.scope.upsert("notes/x.md", "x", "absent"),
        lambda: home.scope.forget("notes/x.md", "absent"),
    ):
        refused("unsafe_file", call)
    assert (home.disk / "notes").read_text() == "not a directory"


def test_names_that_are_no_paths_are_skipped_by_name_and_the_first_three_of_all_are_named(home: Home) -> None:
    raw = os.fsencode(home.disk)
    for name in (b"caf\xe9.md", b"bell\x07.md", b" space.md", b"%41.md", b"back\\slash.md", b"dot./x.md"):
        Path(os.fsdecode(raw + b"/" + name)).parent.mkdir(exist_ok=True)
        with open(raw + b"/" + name, "wb") as file:
            file.write(b"needle")
    home.put("good.md", "needle")
    answer = home.search("needle")
    assert [match["path"] for match in answer["matches"]] == ["good.md"]
    assert answer["skipped_files"] == 6
    assert [entry["path"] for entry in answer["skipped"]] == [" space.md", "%41.md", "back\\slash.md"]
    assert all(entry["reason"] for entry in answer["skipped"])


def test_what_lies_deeper_or_longer_than_a_path_can_be_is_skipped_by_name(home: Home) -> None:
    deep = "/".join("d" * 16)
    home.put(f"{deep}/x.md", "needle")
    home.put("/".join("e" * 15) + "/x.md", "needle")
    assert home.hits("needle") == ["/".join("e" * 15) + "/x.md"]
    assert reasons(home) == {deep: "deeper than 16 levels"}


def test_a_path_on_disk_over_1024_bytes_is_skipped(home: Home) -> None:
    here = os.open(home.disk, os.O_RDONLY)
    for _ in range(5):
        os.mkdir("f" * 240, dir_fd=here)
        deeper = os.open("f" * 240, os.O_RDONLY, dir_fd=here)
        with open(os.open("x.md", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=deeper), "w") as file:
            file.write("needle")
        os.close(here)
        here = deeper
    os.close(here)
    answer = home.search("needle")
    assert len(answer["matches"]) == 4
    assert answer["skipped_files"] == 1
    for match in answer["matches"]:
        home.get(match["path"])


def test_a_directory_that_cannot_be_listed_is_skipped_and_the_root_is_an_error(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.put("good.md", "needle")
    home.put("broken/x.md", "needle")
    scandir = os.scandir
    inode = (home.disk / "broken").stat().st_ino

    def failing(fd: int) -> Any:
        if os.fstat(fd).st_ino == inode:
            raise OSError(5, "injected")
        return scandir(fd)

    monkeypatch.setattr(os, "scandir", failing)
    assert home.hits("needle") == ["good.md"]
    assert reasons(home) == {"broken": "not readable by the Hub"}
    inode = home.disk.stat().st_ino
    home.put("new/x.md", "needle")
    refused("storage_io", home.scope.search, "needle")
    refused("storage_io", home.scope.upsert, "a.md", "x", "absent")
    monkeypatch.undo()
    assert home.hits("needle") == ["broken/x.md", "good.md", "new/x.md"]


def test_a_file_that_changes_while_it_is_read_is_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    target = home.put("a.md", "old " * 1000)
    pread = os.pread
    edits = iter(["new " * 500])

    def edited(fd: int, count: int, offset: int) -> bytes:
        data = pread(fd, count, offset)
        if (text := next(edits, None)) is not None:
            target.write_text(text)
        return data

    monkeypatch.setattr(os, "pread", edited)
    answer = home.scope.get("a.md")
    assert (answer["content"], answer["revision"]) == ("new " * 500, sha(b"new " * 500))


def test_a_tilde_is_refused_only_where_a_path_begins(home: Home) -> None:
    home.put("~x.md", "needle")
    home.upsert("sub/~x.md", "needle")
    assert home.hits("needle") == ["sub/~x.md"]
    assert list(reasons(home)) == ["~x.md"]


def test_a_nul_written_by_another_program_is_read_and_searched(home: Home) -> None:
    home.put("a.md", b"need\0le needle")
    assert home.hits("needle") == ["a.md"]
    assert home.whole("a.md") == b"need\0le needle"
