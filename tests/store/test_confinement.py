"""Nothing outside the memory is read, changed or made: C6, C7, C8, D1."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from amux.errors import AmuxError
from tests.refusals import refused
from tests.store.kit import Home, sha, together

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # renameat2(2)
SECRET = "needle of the outside"
ESCAPES = [
    "../outside/secret.md",
    "../../outside/secret.md",
    "a/../../outside/secret.md",
    "%2e%2e%2foutside%2fsecret.md",
    "..\\outside\\secret.md",
    "secret.md\0.md",
    "~/secret.md",
    "~root/secret.md",
    "/etc/cron.d/x.md",
    "//etc/x.md",
    "a//b.md",
    "/proc/self/cwd/x.md",
    ".amux-lock",
    "../.amux-lock",
    "../users/x.md",
]


def snapshot(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything at and below `path`: inode, mode, bytes."""
    found = {}
    for entry in [path, *sorted(path.rglob("*"))]:
        status = entry.lstat()
        data = entry.read_bytes() if entry.is_file() and not entry.is_symlink() else b""
        found[str(entry)] = (status.st_ino, status.st_mode, data)
    return found


@pytest.fixture
def outside(home: Home) -> Path:
    return make_outside(home)


def make_outside(home: Home) -> Path:
    target = home.path / "outside"
    target.mkdir()
    (target / "secret.md").write_text(SECRET)
    (target / "sub").mkdir()
    (target / "sub" / "secret.md").write_text(SECRET)
    return target


def every_operation(home: Home, path: str) -> list[Callable[[], object]]:
    return [
        lambda: home.scope.get(path),
        lambda: home.scope.upsert(path, "evil", "absent"),
        lambda: home.scope.upsert(path, "evil", sha(SECRET.encode())),
        lambda: home.scope.forget(path, sha(SECRET.encode())),
    ]


@pytest.mark.parametrize("path", ESCAPES)
def test_c6_c7_a_typed_refusal_and_nothing_touched(home: Home, outside: Path, path: str) -> None:
    before = snapshot(home.path)
    for operation in every_operation(home, path):
        refused("invalid_path", operation)
    with contextlib.suppress(AmuxError):  # as a prefix some are directories that are not there
        assert home.search("needle", path)["matches"] == []
    assert snapshot(home.path) == before


def test_c7_a_refused_path_makes_no_directory_even_where_the_scope_is_new(home: Home) -> None:
    home.disk.rmdir()
    for operation in every_operation(home, "a//b.md"):
        refused("invalid_path", operation)
    assert not home.disk.exists()


@pytest.mark.parametrize("link", ["absolute", "relative", "inside", "loop", "magic"])
def test_c8_d1_a_linked_directory_leads_nowhere(home: Home, outside: Path, link: str) -> None:
    home.put("real/x.md", "needle inside")
    targets = {
        "absolute": str(outside),
        "relative": "../../outside",
        "inside": "real",
        "loop": ".",
        "magic": "/proc/self/root" + str(outside),
    }
    (home.disk / "linked").symlink_to(targets[link])
    before = snapshot(outside)
    assert home.hits("needle") == ["real/x.md"]
    assert (home.search("needle")["scanned_files"], home.search("needle")["skipped_files"]) == (1, 0)
    assert home.search("needle", "linked")["matches"] == []
    assert home.search("needle", "linked/sub")["matches"] == []
    assert home.scope.listing()["total_documents"] == 1
    for path in ("linked/secret.md", "linked/sub/secret.md", "linked/new.md", "linked/new/x.md", "linked/real/x.md"):
        for operation in every_operation(home, path):
            refused("unsafe_file", operation)
    assert snapshot(outside) == before


def test_c8_a_prefix_through_a_link_is_empty_in_a_scope_too_large_for_one_walk_too(
    home: Home, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("amux.limits.SCAN_ENTRIES", 3)
    for number in range(5):
        home.put(f"{number}.md", "needle")
    (home.disk / "linked").symlink_to(outside)
    (home.disk / "link.md").symlink_to(outside / "secret.md")
    for prefix in ("linked", "linked/sub", "linked/secret.md", "link.md"):
        assert home.search("needle", prefix)["matches"] == []
        assert home.scope.listing(path_prefix=prefix)["documents"] == []


def fuzzed(random_: random.Random) -> str:
    pieces = [
        "..",
        ".",
        "",
        "a",
        "~",
        "/",
        "\\",
        "%2e%2e",
        "%2f",
        "\0",
        "outside",
        "secret.md",
        "linked",
        "sub",
        "b.md",
    ]
    pieces += [
        " ",
        "\u202e",
        "\ud800",
        "\n",
        "x" * 256,
        "proc",
        "self",
        "etc",
        "é",
        "e\u0301",
        "CON",
        "…",
        "．．",
        "／",
    ]
    joiner = random_.choice(["/", "/", "/", "\\", ""])
    return joiner.join(random_.choice(pieces) for _ in range(random_.randint(1, 6)))


def test_d1_fuzzed_names_never_leave_the_memory(home: Home, outside: Path) -> None:
    (home.disk / "linked").symlink_to(outside)
    random_ = random.Random(8)
    before = snapshot(outside)
    allowed = {"invalid_path", "unsafe_file", "conflict", "name_twin", "not_utf8"}
    for _ in range(1500):
        path = fuzzed(random_)
        for operation in every_operation(home, path):
            try:
                answer = operation()
            except AmuxError as error:
                assert error.code in allowed, (path, error.message)
            else:
                assert SECRET not in str(answer)
    assert snapshot(outside) == before
    assert {entry.name for entry in home.path.iterdir()} == {"memory", "outside"}
    assert {entry.name for entry in (home.path / "memory").iterdir()} == {".amux-lock", "global"}


def test_d1_a_directory_swapped_with_a_link_to_outside_while_operations_run(quick_home: Home) -> None:
    """The loop swaps `d` between a real directory and a link; no operation may ever see the other side."""
    home = quick_home
    outside = make_outside(home)
    (home.disk / "d").mkdir()
    (home.disk / "d" / "secret.md").write_text("inside")
    (home.disk / "spare").symlink_to(outside)
    before = snapshot(outside)
    done = threading.Event()
    libc = ctypes.CDLL(None)
    swaps = 0

    def swap() -> None:
        nonlocal swaps
        here, spare = os.fsencode(home.disk / "d"), os.fsencode(home.disk / "spare")
        while not done.is_set():
            assert libc.renameat2(AT_FDCWD, here, AT_FDCWD, spare, RENAME_EXCHANGE) == 0
            swaps += 1

    def operate() -> None:
        try:
            for number in range(300):
                new, evil = f"new{number % 7}.md", f"evil {number}"
                operations: list[Callable[[], object]] = [
                    lambda: home.scope.get("d/secret.md"),
                    lambda: home.scope.search("needle"),
                    lambda: home.scope.search("needle", "d"),
                    partial(home.scope.upsert, f"d/{new}", evil, "absent"),
                    partial(home.scope.upsert, f"d/n/{new}", evil, "absent"),
                    lambda: home.scope.upsert("d/secret.md", "evil", sha(SECRET.encode())),
                    lambda: home.scope.forget("d/secret.md", sha(SECRET.encode())),
                    lambda: home.scope.forget("d/n/new1.md", sha(b"evil 1")),
                    lambda: home.scope.listing(),
                ]
                for operation in operations:
                    try:
                        answer = operation()
                    except AmuxError as error:
                        assert error.code in {"unsafe_file", "conflict"}, error.message
                    else:
                        assert "outside" not in str(answer)
                        assert sha(SECRET.encode()) not in str(answer)
        finally:
            done.set()

    together(swap, operate)
    assert swaps > 10
    assert snapshot(outside) == before
