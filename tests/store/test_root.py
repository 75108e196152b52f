"""The memory root: one Hub, proven by a lock; the sweep of what a crash left; scopes apart."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from amux_hub.store import Store
from tests.refusals import refused
from tests.store.kit import Home

TEMPORARY = ".amux-tmp-" + "0123456789abcdef" * 2


def reopen(home: Home) -> Store:
    home.store.close()
    home.store = Store(str(home.path), 1 << 20, 0)
    return home.store


def test_a_second_hub_is_told_who_holds_the_root(home: Home) -> None:
    error = refused("busy", Store, str(home.path), 1 << 20, 0)
    assert error.details["holder"] == str(os.getpid())
    assert str(os.getpid()) in error.message
    home.upsert("a.md", "the first goes on")


def test_the_lock_is_in_memory_with_the_pid_inside_and_closed_on_exec(home: Home) -> None:
    lock = home.path / "memory" / ".amux-lock"
    assert lock.read_text() == f"{os.getpid()}\n"
    listing = [
        sys.executable,
        "-c",
        "import subprocess; subprocess.run(['ls', '-l', '/proc/self/fd'], close_fds=False)",
    ]
    inherited = subprocess.run(listing, capture_output=True, text=True, check=True, close_fds=False)
    assert " -> " in inherited.stdout
    assert str(home.path) not in inherited.stdout


def test_c49_a_lock_left_by_kill_9_holds_nobody_up(tmp_path: Path) -> None:
    code = f"import os; from amux_hub.store import Store; Store({str(tmp_path)!r}, 1, 0); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code], check=False)
    assert killed.returncode == -9
    Store(str(tmp_path), 1 << 20, 0).close()


def test_a_lock_file_with_anything_inside_is_no_obstacle(home: Home) -> None:
    lock = home.path / "memory" / ".amux-lock"
    home.store.close()
    lock.write_text("999999999 and more that is longer than a pid\n")
    home.store = Store(str(home.path), 1 << 20, 0)
    assert lock.read_text() == f"{os.getpid()}\n"


def test_the_lock_of_somebody_who_wrote_no_pid_is_respected_too(home: Home) -> None:
    lock = home.path / "memory" / ".amux-lock"
    home.store.close()
    with lock.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        os.ftruncate(held.fileno(), 0)
        error = refused("busy", Store, str(home.path), 1 << 20, 0)
        assert "unknown" in error.message
    home.store = Store(str(home.path), 1 << 20, 0)


def test_c5_the_sweep_removes_temporary_files_everywhere_and_nothing_else(home: Home) -> None:
    alice = home.path / "memory/users" / hashlib.sha256(b"alice").hexdigest()
    (alice / "a/b").mkdir(parents=True)
    (home.disk / "/".join("d" * 15)).mkdir(parents=True)
    swept = [home.disk, home.disk / "/".join("d" * 15), alice, alice / "a/b", home.path / "memory"]
    for directory in swept:
        (directory / TEMPORARY).write_bytes(b"half")
    kept = [
        ".amux-tmp-",
        ".amux-tmp-" + "0" * 31,
        ".amux-tmp-" + "0" * 33,
        ".amux-tmp-" + "G" * 32,
        ".amux-tmp-" + "A" * 32,
        ".amux-tmp-" + "0" * 32 + "\n",
        ".other",
        "x" + TEMPORARY,
        "a.md",
    ]
    for name in kept:
        (home.disk / name).write_bytes(b"keep")
    (home.disk / (".amux-tmp-" + "1" * 32)).symlink_to(home.disk / "a.md")
    (home.disk / (".amux-tmp-" + "2" * 32)).mkdir()
    os.mkfifo(home.disk / (".amux-tmp-" + "3" * 32))
    assert reopen(home).swept == len(swept)
    left = {path.name for path in home.disk.iterdir()}
    assert left == {*kept, "d", *(".amux-tmp-" + digit * 32 for digit in "123")}
    assert list((alice / "a/b").iterdir()) == []


def test_the_sweep_follows_no_link(home: Home) -> None:
    outside = home.path / "outside"
    outside.mkdir()
    (outside / TEMPORARY).write_bytes(b"not ours")
    (home.disk / "linked").symlink_to(outside)
    assert reopen(home).swept == 0
    assert (outside / TEMPORARY).exists()


@pytest.mark.root
def test_the_sweep_leaves_the_files_of_others(home: Home) -> None:
    (home.disk / TEMPORARY).write_bytes(b"theirs")
    os.chown(home.disk / TEMPORARY, 65534, 65534)
    assert reopen(home).swept == 0


def test_a_tree_deeper_than_any_scope_holds_up_no_start(home: Home) -> None:
    here = os.open(home.disk, os.O_RDONLY)
    for _ in range(1200):  # more than a stack or the descriptors of a service hold
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)
    store = reopen(home)
    assert store.scope("global").search("x")["incomplete"] is False
    subprocess.run(["rm", "-rf", "--", str(home.disk / "d")], check=True)


def test_a_temporary_file_is_no_document_while_a_hub_runs(home: Home) -> None:
    (home.disk / TEMPORARY).write_bytes(b"needle")
    assert home.hits("needle") == []
    assert home.scope.listing()["total_documents"] == 0


def test_scopes_lie_where_the_design_says_and_are_apart(home: Home) -> None:
    alice, bob = home.store.scope("principal:alice"), home.store.scope("principal:bob")
    alice.upsert("a.md", "needle of alice", "absent")
    bob.upsert("a.md", "needle of bob", "absent")
    home.upsert("a.md", "needle of all")
    for name, text in (("alice", "needle of alice"), ("bob", "needle of bob")):
        directory = home.path / "memory/users" / hashlib.sha256(name.encode()).hexdigest()
        assert (directory / "a.md").read_text() == text
        matches: Any = home.store.scope(f"principal:{name}").search("needle")["matches"]
        assert [match["snippet"] for match in matches] == [text]
    assert home.get("a.md")["content"] == "needle of all"


@pytest.mark.parametrize("scope", ["", "alice", "principal:", "GLOBAL", "users", "../global", "global/x"])
def test_nothing_but_the_two_forms_is_a_scope(home: Home, scope: str) -> None:
    with pytest.raises(ValueError, match="not a scope"):
        home.store.scope(scope)


def test_c8_a_memory_root_or_a_scope_that_is_a_link_is_refused(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.md").write_text("needle")
    first = tmp_path / "first"
    first.mkdir()
    (first / "memory").symlink_to(outside)
    refused("unsafe_file", Store, str(first), 1, 0)
    second = tmp_path / "second"
    (second / "memory").mkdir(parents=True)
    (second / "memory/global").symlink_to(outside)
    store = Store(str(second), 1, 0)
    scope = store.scope("global")
    for call in (
        lambda: scope.get("x.md"),
        lambda: scope.search("needle"),
        lambda: scope.listing(),
        lambda: scope.upsert("y.md", "x", "absent"),
        lambda: scope.forget("x.md", "absent"),
    ):
        refused("unsafe_file", call)
    store.close()
    assert [path.name for path in outside.iterdir()] == ["x.md"]
