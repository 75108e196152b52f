"""Answers given again: never one that a read of the file would not give, and never at the price of a wait."""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.store import Store, recent, watch

PATH = "a/b/c.md"
ARGUMENTS = (PATH, 0, 0, 0)
KEY = ("global", *ARGUMENTS)
OLD, NEW = "old text\n", "new text\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    tmp_path.chmod(0o700)
    made = Store(str(tmp_path), 1 << 20, 0)
    made.scope("global").upsert(PATH, OLD, "absent")
    yield made
    made.close()


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tmp_path / "memory" / "global"


def _know(store: Store) -> None:
    answer = store.get("global", *ARGUMENTS)
    store.recent.settle()
    assert store.recent.find(KEY) == answer, "this file system or kernel keeps nothing: the tests would test nothing"


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _same_size_and_times(file: Path) -> None:
    status = file.stat()
    other = file.with_name("other.md")
    other.write_text(NEW)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(file)


def _in_place_with_times_kept(file: Path) -> None:
    status = file.stat()
    file.write_text(NEW)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))


def _through_another_link(file: Path) -> None:
    outside = file.parents[4] / "outside"
    os.link(file, outside)
    outside.write_text(NEW)


def _through_a_map(file: Path) -> None:
    with file.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[:3] = b"new"


def _other_directory(file: Path) -> None:
    file.parent.rename(file.parent.with_name("moved"))
    file.parent.mkdir(mode=0o700)
    file.write_text(NEW)


def _other_directory_above(file: Path) -> None:
    above = file.parent.parent
    above.rename(above.with_name("moved"))
    file.parent.mkdir(mode=0o700, parents=True)
    file.write_text(NEW)


def _link_in_its_place(file: Path) -> None:
    target = file.with_name("target.md")
    target.write_text(NEW)
    file.unlink()
    file.symlink_to(target)


def _linked_directory(file: Path) -> None:
    moved = file.parent.with_name("moved")
    file.parent.rename(moved)
    file.parent.symlink_to(moved)


_CHANGES: list[Callable[[Path], object]] = [
    lambda file: file.write_text(NEW),
    lambda file: file.open("a").write("more"),
    lambda file: os.truncate(file, 3),
    lambda file: file.unlink(),
    lambda file: file.rename(file.with_name("elsewhere.md")),
    lambda file: file.chmod(0o000),
    _same_size_and_times,
    _in_place_with_times_kept,
    _through_another_link,
    _through_a_map,
    _other_directory,
    _other_directory_above,
    _link_in_its_place,
    _linked_directory,
]


@pytest.mark.parametrize("change", _CHANGES, ids=lambda change: change.__name__)
def test_c4_what_anybody_changes_is_not_answered_from_memory(
    store: Store, top: Path, change: Callable[[Path], object]
) -> None:
    _know(store)
    change(top / PATH)
    assert store.recent.find(KEY) is None
    store.recent.settle()
    try:
        answer = store.get("global", *ARGUMENTS)
    except AmuxError:
        assert store.recent.find(KEY) is None
    else:
        known = store.recent.find(KEY)
        assert known is None or known == answer


def test_c4_own_writes_are_seen_at_once(store: Store) -> None:
    scope = store.scope("global")
    for number in range(50):
        _know(store)
        revision = str(store.get("global", *ARGUMENTS)["revision"])
        written = scope.upsert(PATH, f"{number}\n", revision)
        known = store.recent.find(KEY)
        assert known is None or known["revision"] == written["revision"]
    scope.forget(PATH, str(written["revision"]))
    assert store.recent.find(KEY) is None


@pytest.mark.parametrize("change", [_CHANGES[0], _other_directory, _other_directory_above])
def test_c4_a_change_while_it_was_read_keeps_nothing(store: Store, top: Path, change: Callable[[Path], object]) -> None:
    def read() -> dict[str, object]:
        answer = store.scope("global").get(*ARGUMENTS)
        change(top / PATH)
        return answer

    assert store.recent.get(KEY, ["global"], read)["content"] == OLD
    assert store.recent.find(KEY) is None


def test_c4_readers_beside_a_writer_never_go_back(store: Store, top: Path) -> None:
    """Once a reader has seen a number it never sees a smaller one, and the last one is seen."""
    last = 400
    failures: list[object] = []

    def read() -> None:
        seen = -1
        while seen < last and not failures:
            answer = store.recent.find(KEY) or store.get("global", *ARGUMENTS)
            store.recent.settle()
            content = str(answer["content"])
            number = -1 if content == OLD else int(content)
            if number < seen:
                failures.append((seen, number))
            seen = number

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    temporary = top / "next"
    for number in range(last + 1):
        temporary.write_text(f"{number}\n")
        temporary.rename(top / PATH)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not failures


def test_it_is_read_again_after_two_seconds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    _know(store)
    clock = time.monotonic
    monkeypatch.setattr("amux_hub.store.recent.time.monotonic", lambda: clock() + recent.SECONDS)
    assert store.recent.find(KEY) is None


def test_what_is_missing_or_refused_is_not_kept(store: Store, top: Path) -> None:
    assert store.get("global", "missing.md", 0, 0, 0)["exists"] is False
    assert store.recent.find(("global", "missing.md", 0, 0, 0)) is None
    (top / "bad.md").write_bytes(b"\xff")
    with pytest.raises(AmuxError):
        store.get("global", "bad.md", 0, 0, 0)
    assert store.recent.find(("global", "bad.md", 0, 0, 0)) is None


def test_nothing_is_kept_where_inotify_proves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "is_local", lambda _: False)
    assert store.get("global", *ARGUMENTS)["content"] == OLD
    assert store.recent.find(KEY) is None


def test_an_answer_belongs_to_its_scope_and_range(store: Store) -> None:
    _know(store)
    assert store.recent.find(("principal:bob", *ARGUMENTS)) is None
    assert store.recent.find(("global", PATH, 1, 1, 0)) is None
    answer = store.recent.find(KEY)
    assert answer is not None
    answer["content"] = "spoilt by who asked"
    again = store.recent.find(KEY)
    assert again is not None and again["content"] == OLD


def test_documents_directories_and_descriptors_are_bounded(store: Store, top: Path) -> None:
    _know(store)
    before = _descriptors()
    for number in range(recent.WATCHES + 20):
        directory = top / f"d{number}"
        directory.mkdir(mode=0o700)
        (directory / "x.md").write_text("x")
    for number in range(recent.WATCHES + 20):
        store.get("global", f"d{number}/x.md", 0, 0, 0)
        store.recent.settle()
    assert len(store.recent._entries) <= recent.ENTRIES
    watches = Path(f"/proc/self/fdinfo/{store.recent._fd}").read_text().count("inotify wd")
    assert watches == len(store.recent._watches) <= recent.WATCHES
    assert _descriptors() <= before + recent.ENTRIES
    os.truncate(top / f"d{number}/x.md", 0)
    store.recent.settle()
    assert _descriptors() <= before


def test_a_lookup_closes_nothing(store: Store, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last close of a deleted file may wait for the disk; `find` runs where nothing may."""
    _know(store)
    (top / PATH).unlink()

    def close(fd: int) -> None:
        raise AssertionError(f"descriptor {fd} was closed")

    with monkeypatch.context() as patch:
        patch.setattr("amux_hub.store.recent.os.close", close)
        assert store.recent.find(KEY) is None
    before = _descriptors()
    store.recent.settle()
    assert _descriptors() == before - 1
