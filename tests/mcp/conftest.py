"""What the MCP tests share: real Hubs, one for a whole module where no test minds another's documents."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Hub
from tests.mcp.fakehub import FakeHub


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A private Hub whose sockets go with it."""
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def held_hub(tmp_path: Path) -> Iterator[Hub]:
    """A Hub whose sockets are held as systemd holds them, across restarts."""
    with Hub(tmp_path / "hub", held=True) as running:
        yield running


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="amux-t-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def fake(short: Path) -> Iterator[FakeHub]:
    with FakeHub(short) as running:
        yield running
