"""Gets that need no thread: never another answer than a thread would give, and never at the price of a wait."""

from __future__ import annotations

import errno
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import Store
from amux_hub.store.reply import Reply

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


def _ready(store: Store) -> Reply:
    answer = store.ready(*KEY)
    assert answer is not None, "this file system or kernel answers nothing at once: the tests would test nothing"
    return answer


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
def test_c4_what_anybody_changes_is_answered_as_a_thread_would(
    store: Store, top: Path, change: Callable[[Path], object]
) -> None:
    assert _ready(store) == store.scope("global").get(*ARGUMENTS)
    change(top / PATH)
    ready = store.ready(*KEY)
    try:
        answer = store.scope("global").get(*ARGUMENTS)
    except AmuxError:
        assert ready is None
    else:
        assert ready is None or ready == answer


def test_c4_readers_beside_a_writer_never_go_back(store: Store, top: Path) -> None:
    """Once a reader has seen a number it never sees a smaller one, and the last one is seen."""
    last = 400
    failures: list[object] = []

    def read() -> None:
        seen = -1
        while seen < last and not failures:
            answer = store.ready(*KEY) or store.scope("global").get(*ARGUMENTS)
            store.settle()
            content = str(answer["content"])
            number = -1 if content == OLD else int(content)
            if number < seen:
                failures.append((seen, number))
            seen = number

    thread = threading.Thread(target=read)
    thread.start()
    temporary = top / "next"
    for number in range(last + 1):
        temporary.write_text(f"{number}\n")
        temporary.rename(top / PATH)
    thread.join(60)
    assert not thread.is_alive()
    assert not failures


def test_what_is_not_in_memory_is_left_to_a_thread(store: Store, top: Path) -> None:
    """The pages are dropped from the page cache, posix_fadvise(2): a read of them would wait for the disk."""
    _ready(store)
    fd = os.open(top / PATH, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    assert store.ready(*KEY) is None
    assert store.scope("global").get(*ARGUMENTS)["content"] == OLD
    assert _ready(store)["content"] == OLD


@pytest.mark.parametrize("raw", [b"\xff", b"x" * (limits.DOCUMENT_BYTES + 1)], ids=["not UTF-8", "larger than a write"])
def test_what_is_odd_is_left_to_a_thread(store: Store, top: Path, raw: bytes) -> None:
    (top / PATH).write_bytes(raw)
    assert store.ready(*KEY) is None


def test_d1_what_is_no_document_is_left_to_a_thread(store: Store, top: Path) -> None:
    (top / PATH).unlink()
    assert store.ready(*KEY) is None
    os.mkfifo(top / PATH)
    assert store.ready(*KEY) is None
    (top / PATH).unlink()
    (top / PATH).mkdir()
    assert store.ready(*KEY) is None
    assert store.ready("global", PATH, 0, 0, 3) is None
    assert store.ready("principal:bob", *ARGUMENTS) is None


def test_an_answer_belongs_to_its_range(store: Store, top: Path) -> None:
    (top / PATH).write_text("one\ntwo\nthree\n")
    scope = store.scope("global")
    for arguments in ((PATH, 2, 2, 0), (PATH, 0, 1, 0), (PATH, 0, 0, 4), (PATH, 9, 0, 0)):
        answer = store.ready("global", *arguments)
        assert answer is not None
        assert answer == scope.get(*arguments)
    assert store.ready("global", PATH, 0, 0, 99) is None


def test_no_descriptor_stays_open(store: Store, top: Path) -> None:
    before = _descriptors()
    for _ in range(20):
        _ready(store)
        assert store.ready("global", "missing/x.md", 0, 0, 0) is None
    assert _descriptors() == before


def test_a_deleted_file_is_closed_by_a_thread(store: Store, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _descriptors()
    read = os.preadv

    def deleted_meanwhile(*arguments: Any) -> int:
        (top / PATH).unlink()
        return read(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr("amux_hub.store.ready.os.preadv", deleted_meanwhile)
        assert store.ready(*KEY) is None
    assert _descriptors() > before
    store.settle()
    assert _descriptors() == before


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM])
def test_where_the_kernel_cannot_it_is_not_asked_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    before = _descriptors()

    def refuse(*_: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr("amux_hub.store.ready.os.preadv", refuse)
        assert store.ready(*KEY) is None
    assert store.ready(*KEY) is None
    assert _descriptors() == before


def test_c4_a_change_while_it_was_read_is_left_to_a_thread(
    store: Store, top: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.utime(top / PATH, (1, 1))  # so that the change gives it another time
    read = os.preadv

    def changed_meanwhile(*arguments: Any) -> int:
        count = read(*arguments)
        (top / PATH).write_text(NEW)
        return count

    with monkeypatch.context() as patch:
        patch.setattr("amux_hub.store.ready.os.preadv", changed_meanwhile)
        assert store.ready(*KEY) is None
    assert _ready(store)["content"] == NEW
