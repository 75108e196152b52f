"""Style, types and shape of the sources: ruff, mypy --strict, docstrings, one subject a file."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.lint.sources import ROOT

LONGEST = 400
"""Lines of a module; most stay under 200. A longer one has more than one subject."""

FOLDERS = ("hub", "materializer", "tests", "packaging")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def test_ruff() -> None:
    beside = Path(sys.executable).parent
    ruff = shutil.which("ruff", path=f"{beside}:{os.environ['PATH']}")
    assert ruff, "ruff is neither on PATH nor beside this interpreter: `make check` brings it"
    _run(ruff, "check", ".")


def test_types() -> None:
    _run(sys.executable, "-m", "mypy")


def test_no_module_is_longer_than_one_subject() -> None:
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST}


def test_every_module_says_what_it_is() -> None:
    silent = [
        _name(path)
        for path in SOURCES
        if path.stat().st_size and ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert not silent


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))
