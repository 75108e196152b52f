"""A wire with made-up people, and one real Hub for the tests that only talk to it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.harness import Hub
from tests.wire.inprocess import Wire

# Nothing is timed, and a run is like the one before.
settings.register_profile("plain", deadline=None, derandomize=True, database=None)
settings.load_profile("plain")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    """Not started: a test may change limits and timeouts before `wire.start()`."""
    with tempfile.TemporaryDirectory(prefix="amux-t-") as directory:
        made = Wire(Path(directory), monkeypatch)
        yield made
        made.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A real Hub without MCP, shared by the tests of one module."""
    with Hub(tmp_path_factory.mktemp("hub"), mcp=False) as running:
        yield running
