"""What the command-line tests share: `amux` in both its forms, a real Hub, a Hub of a few scripted answers.

Every test that takes `amux` runs twice: over the installed console script and over `amux.pyz` as a launch runs
it. Processes get an environment built from nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.scripted import ScriptedHub
from tests.cli.tool import PYTHON, Tool
from tests.harness import Hub


@pytest.fixture(scope="session")
def pyz(tmp_path_factory: pytest.TempPathFactory, source_root: Path) -> Path:
    """amux.pyz, built by the one command that builds it."""
    out = tmp_path_factory.mktemp("pyz") / "amux.pyz"
    status = os.spawnv(
        os.P_WAIT, sys.executable, [sys.executable, str(source_root / "packaging" / "build_pyz.py"), str(out)]
    )
    assert status == 0
    return out


@pytest.fixture(scope="session", params=["installed", "pyz"])
def amux(request: pytest.FixtureRequest, pyz: Path) -> Tool:
    if request.param == "pyz":
        return Tool([PYTHON, "-IS", str(pyz)])
    installed = Path(sys.executable).parent / "amux"
    assert installed.exists(), f"amux is not installed beside {sys.executable}"
    return Tool([str(installed)])


@pytest.fixture(scope="session")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One private Hub, with memory on, for tests that change neither its settings nor its life."""
    with Hub(tmp_path_factory.mktemp("hub"), mcp=False) as running:
        yield running


@pytest.fixture
def hub(shared_hub: Hub) -> Hub:
    """The same, its memory empty: removed from the disk, as a person may."""
    scope = shared_hub.home / "memory" / "global"
    for name in os.listdir(scope) if scope.exists() else ():
        path = scope / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return shared_hub


@pytest.fixture
def own_hub(tmp_path: Path) -> Iterator[Hub]:
    """A Hub of one test's own, with memory on."""
    with Hub(tmp_path / "hub", mcp=False) as running:
        yield running


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for a socket."""
    path = Path(tempfile.mkdtemp(prefix="amux-t-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def scripted(short: Path) -> Iterator[ScriptedHub]:
    with ScriptedHub(short / "hub.sock") as running:
        yield running
