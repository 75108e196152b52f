"""Every system call of a write made to fail, and the process killed at each: typed errors, old or new, whole."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.store import Store
from tests.faults.failing import CALLS, Failing
from tests.faults.ledger import files, revision_of, temporary_files

OLD, NEW = b"old and whole\n" * 100, b"new and whole\n" * 3000

ERRORS = {
    errno.ENOSPC: "storage_full",
    errno.EDQUOT: "storage_full",
    errno.EIO: "storage_io",
    errno.EROFS: "storage_readonly",
    errno.EMFILE: "storage_io",
}

# Path, content before (None: absent), content after.
WRITES: dict[str, tuple[str, bytes | None, bytes | None]] = {
    "replace": ("a.md", OLD, NEW),
    "create": ("b.md", None, NEW),
    "create deep": ("x/y/z/c.md", None, NEW),
    "forget": ("a.md", OLD, None),
    "forget deep": ("d/e/f.md", OLD, None),
}


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


class Place:
    """A home with one document, `path`, and another that nobody touches."""

    def __init__(self, home: Path, path: str, before: bytes | None) -> None:
        self.home, self.path, self.before = home, path, before
        self.scope = home / "memory" / "global"
        home.mkdir()
        self.store = self.open()
        self._put("other.md", OLD)
        if before is not None:
            self._put(path, before)

    def open(self) -> Store:
        return Store(str(self.home), 1 << 20, 0)

    def _put(self, path: str, data: bytes) -> None:
        self.store.scope("global").upsert(path, data.decode(), "absent")

    def write(self, after: bytes | None, before: bytes | None) -> None:
        scope = self.store.scope("global")
        if after is None:
            scope.forget(self.path, revision_of(before))
        else:
            scope.upsert(self.path, after.decode(), revision_of(before))

    def now(self) -> bytes | None:
        """What is at the path; everything else must be as it was, and no temporary file anywhere."""
        found = files(self.scope)
        data = found.pop(self.path, None)
        assert found == {"other.md": OLD}
        assert temporary_files(self.home) == []
        return data

    def directories(self) -> list[str]:
        return sorted(str(path.relative_to(self.scope)) for path in self.scope.rglob("*") if path.is_dir())


def _descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_d4_c43_a_call_that_fails_leaves_old_or_new_and_a_typed_error(tmp_path: Path, kind: str, number: int) -> None:
    path, before, after = WRITES[kind]
    place = Place(tmp_path / "counted", path, before)
    with Failing() as counted:
        place.write(after, before)
    place.store.close()
    assert len(counted.made) > 5
    for at, name in enumerate(counted.made):
        place = Place(tmp_path / str(at), path, before)
        directories, descriptors = place.directories(), _descriptors()
        told: AmuxError | None = None
        with Failing(at, number) as failing:
            try:
                place.write(after, before)
            except AmuxError as error:
                told = error
            except OSError as error:
                raise AssertionError(f"call {at}, {name}: not a typed error: {error!r}") from error
        assert failing.failed == name
        assert _descriptors() == descriptors, f"call {at}, {name}: a descriptor stays open"
        now = place.now()
        if told is None:
            assert now == after, f"call {at}, {name}: acknowledged, but not there"
        elif told.code == "outcome_uncertain":
            assert name == "fsync" and now == after and told.details["path"] == path
        else:
            assert told.code == ERRORS[number], f"call {at}, {name}: {told.code}: {told.message}"
            assert now == before, f"call {at}, {name}: refused, but it happened"
            assert place.directories() == directories, f"call {at}, {name}: an empty directory stays"
        place.write(NEW, now)
        assert place.now() == NEW, f"call {at}, {name}: writing does not work afterwards"
        place.store.close()


@pytest.mark.parametrize("kind", ["replace", "create", "create deep"])
@pytest.mark.parametrize("most", [1000, 4096])
def test_d4_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, most: int) -> None:
    path, before, after = WRITES[kind]
    place = Place(tmp_path / "home", path, before)
    real = os.write
    lengths: list[int] = []

    def short(fd: int, data: bytes) -> int:
        lengths.append(real(fd, data[:most]))
        return lengths[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        place.write(after, before)
    assert len(lengths) > 5 and place.now() == after
    place.store.close()


@pytest.mark.parametrize("kind", ["replace", "create"])
def test_d4_c43_a_short_write_and_then_no_room_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path, before, after = WRITES[kind]
    for results in ([1000, errno.ENOSPC], [4096, 0]):
        place = Place(tmp_path / f"home{results[1]}", path, before)
        left = iter(results)
        real = os.write

        def short(fd: int, data: bytes, left: Iterator[int] = left, real: Callable[..., int] = real) -> int:
            most = next(left)
            if most == errno.ENOSPC:
                raise OSError(most, os.strerror(most))
            return real(fd, data[:most]) if most else 0

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", short)
            with pytest.raises(AmuxError) as caught:
                place.write(after, before)
        assert caught.value.code == ("storage_full" if results[1] else "storage_io")
        assert place.now() == before
        place.store.close()


def test_d4_a_file_that_came_out_shorter_is_not_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """write(2) says that all is written, the file says otherwise: what counts is the file."""
    place = Place(tmp_path / "home", "a.md", OLD)
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda fd, data: real(fd, data[:-1]) + 1)
        with pytest.raises(AmuxError) as caught:
            place.write(NEW, OLD)
    assert caught.value.code == "storage_io"
    assert place.now() == OLD
    place.store.close()


def _killed(place: Place, at: int, first: bool, after: bytes | None) -> bool:
    """Write in a child that dies before (`first`) or after its call number `at`; whether it died of that."""
    child = os.fork()
    if child == 0:
        made = 0
        with contextlib.suppress(BaseException):

            def wrap(real: Callable[..., object]) -> Callable[..., object]:
                def call(*arguments: object, **named: object) -> object:
                    nonlocal made
                    made += 1
                    if first and made == at + 1:
                        os.kill(os.getpid(), signal.SIGKILL)
                    try:
                        return real(*arguments, **named)
                    finally:
                        if made == at + 1:
                            os.kill(os.getpid(), signal.SIGKILL)

                return call

            place.store = place.open()
            for name in CALLS:
                setattr(os, name, wrap(getattr(os, name)))
            place.write(after, place.before)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("kind", WRITES)
def test_d4_c5_c49_killed_at_each_call_leaves_old_or_new(tmp_path: Path, kind: str, first: bool) -> None:
    path, before, after = WRITES[kind]
    seen = set()
    swept = 0
    for at in range(1000):
        place = Place(tmp_path / str(at), path, before)
        place.store.close()
        died = _killed(place, at, first, after)
        place.store = place.open()
        swept += place.store.swept
        now = place.now()
        assert now in (before, after), f"call {at}: torn"
        seen.add(now)
        if not died:
            assert now == after
        place.write(NEW, now)
        assert place.now() == NEW
        place.store.close()
        if not died:
            break
    assert seen == {before, after}
    assert (swept > 0) is (after is not None)
