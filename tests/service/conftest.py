"""Real Hubs without MCP, made with the test's own arguments and gone with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.harness import Hub

# Nothing is timed, and a run is like the one before.
settings.register_profile("plain", deadline=None, derandomize=True, database=None)
settings.load_profile("plain")

MakeHub = Callable[..., Hub]


@pytest.fixture
def make_hub(tmp_path: Path) -> Iterator[MakeHub]:
    """Makes a Hub that is not started; the second and later ones have directories of their own."""
    with ExitStack() as stack:
        count = 0

        def make(directory: Path | None = None, **arguments: Any) -> Hub:
            nonlocal count
            count += 1
            hub = Hub(directory or tmp_path / f"hub{count}", **{"mcp": False, **arguments})
            stack.callback(hub.close)
            return hub

        yield make
