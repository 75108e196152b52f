"""The package of the suite that the tests run on (Debian 12 elsewhere), built once by the command that builds it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.deb import Deb


def build(source_root: Path, out: Path, **environment: str) -> Path:
    """The path that packaging/build_deb.py prints."""
    cache = os.environ.get("AMUX_TESTS_CACHE") or str(source_root / "build")
    command = [sys.executable, str(source_root / "packaging" / "build_deb.py"), "--out", str(out), "--cache", cache]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    return Path(line)


@pytest.fixture(scope="session")
def deb(tmp_path_factory: pytest.TempPathFactory, source_root: Path) -> Deb:
    return Deb(build(source_root, tmp_path_factory.mktemp("deb")))
