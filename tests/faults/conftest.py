"""What the fault tests share: Hubs of the test's own, and strace where this machine lets it trace."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.faults.trace import STRACE
from tests.harness import Hub

MakeHub = Callable[..., Hub]


@pytest.fixture
def make_hub(tmp_path: Path) -> Iterator[MakeHub]:
    """Makes a Hub without MCP that is not started; the second and later ones have directories of their own."""
    with ExitStack() as stack:
        count = 0

        def make(directory: Path | None = None, **arguments: Any) -> Hub:
            nonlocal count
            count += 1
            hub = Hub(directory or tmp_path / f"hub{count}", **{"mcp": False, **arguments})
            stack.callback(hub.close)
            return hub

        yield make


@pytest.fixture(scope="session")
def strace() -> None:
    """Skips by name where there is no strace, or where it may not trace."""
    if shutil.which("strace") is None:
        pytest.skip("strace: apt-get install strace")
    done = subprocess.run(
        [*STRACE, "-e", "trace=fsync", "-o", "/dev/null", "true"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr.strip()}")
