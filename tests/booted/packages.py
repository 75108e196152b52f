"""Packages to install in booted systems: that of this tree, and the same under another version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from amux import __version__
from tests.booted.lab.machine import ROOT
from tests.runner.env import ROOT_CACHE

WHEELS = ROOT_CACHE / "wheels"
"""Root's own: what another account may write to is no place for root."""

SOURCES = ("hub", "materializer", "packaging", "systemd", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
"""All that a package is built from."""

_MAJOR, _MINOR = (int(part) for part in __version__.split(".")[:2])
HIGHER = f"{_MAJOR}.{_MINOR + 1}.0"
"""The next minor version, whose Hub serves the clients of this one."""


def build(suite: str, out: Path, source: Path = ROOT) -> Path:
    """The package of a suite, built from the tree at `source`."""
    WHEELS.mkdir(parents=True, exist_ok=True)
    # The tree's own modules come before those that this environment has.
    modules = [str(source / name) for name in ("hub", "materializer")]
    command = [sys.executable, str(source / "packaging" / "build_deb.py"), "--quick", "--suite", suite]
    done = subprocess.run(
        [*command, "--out", str(out), "--cache", str(WHEELS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(modules)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip().splitlines()[-1])


def renumbered(suite: str, out: Path, version: str) -> Path:
    """The package of a suite, built from the sources of this tree under another version."""
    source = out / f"source-{version}-{suite}"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, source / name)
    module = source / "hub" / "amux" / "__init__.py"
    text, count = re.subn('^__version__ = ".*"$', f'__version__ = "{version}"', module.read_text(), flags=re.MULTILINE)
    assert count == 1
    module.write_text(text)
    return build(suite, out, source)
