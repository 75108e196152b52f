"""A store in a directory of its own, and its global scope with what the disk shows of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from amux_hub.store import Store, index, watch
from tests.store.kit import Home


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """A store sets the process's umask; the next test begins with an ordinary one."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: many thousand syncs say nothing more on a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)


@pytest.fixture
def quick_home(quick: Path) -> Iterator[Home]:
    """As `home`, in memory."""
    store = Store(str(quick), 64 << 20, 0)
    made = Home(store, quick)
    made.disk.mkdir()
    yield made
    store.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    store = Store(str(tmp_path), 64 << 20, 0)
    made = Home(store, tmp_path)
    made.disk.mkdir()
    yield made
    store.close()


@pytest.fixture(params=["watch", "stat"])
def looking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both proofs of freshness: by inotify, without any help of the pass every 2 s, and by a stat of each file."""
    if request.param == "stat":
        monkeypatch.setattr(watch, "is_local", lambda fd: False)
    else:
        monkeypatch.setattr(index, "FULL_PASS_SECONDS", 1e9)
    return str(request.param)
