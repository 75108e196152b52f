"""Profiles of hypothesis: a fixed set in the tests, more with AMUX_TESTS_EXAMPLES; nothing is timed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "amux",
    max_examples=int(os.environ.get("AMUX_TESTS_EXAMPLES", "200")),
    deadline=None,
    derandomize="AMUX_TESTS_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
settings.load_profile("amux")


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """A store sets the process's umask; the next test begins with an ordinary one."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory where there is one: thousands of syncs say nothing more on a disk."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as path:
        yield Path(path)
