"""What the tests of launches share."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Hub
from tests.launch.launching import World
from tests.launch.telling import TellingHub, Told


@pytest.fixture
def alone(tmp_path: Path) -> World:
    """A person whose Hub does not run."""
    return World(tmp_path)


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A private Hub with its memory on, for tests that change neither its settings nor its life."""
    with Hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def world(tmp_path: Path, running: Hub) -> World:
    """A person with a private Hub."""
    return World(tmp_path, running.sockets["hub"])


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory, source_root: Path) -> Path:
    """amux.pyz, built by the one command that builds it."""
    out = tmp_path_factory.mktemp("pyz") / "amux.pyz"
    subprocess.run([sys.executable, str(source_root / "packaging" / "build_pyz.py"), str(out)], check=True)
    return out


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="amux-t-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def told(tmp_path: Path, short: Path) -> Iterator[Told]:
    """A person whose Hub says what the test wants."""
    with TellingHub(short / "hub.sock") as hub:
        yield World(tmp_path, hub.path), hub
