"""A system Hub and a private one, each in directories of its own, as they should be."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doctor.kit import Made


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """A Store that another test opened here leaves its own behind."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory with a short name: the path of a Unix socket has 107 bytes."""
    path = Path(tempfile.mkdtemp(prefix="amux-d-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def made(short: Path) -> Made:
    return Made(short)


@pytest.fixture
def private(short: Path) -> Made:
    return Made(short, system=False)
