"""Resolves packaging/requirements.lock and ansible/requirements.lock from the ranges in pyproject.toml: `make lock`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADER = """\
# Exact versions that the tests, the demo and the packages are built with; `make lock` writes this file.
# pyproject.toml keeps the ranges that the product accepts.
"""
HOST_HEADER = """\
# Exact versions of what the role is tested with: Ansible, its linter and the suite of tests/host. They stay out of
# packaging/requirements.lock because only tests of whole hosts need them; pyproject.toml keeps the ranges (group host).
"""


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        # The wheel is built without fetching anything.
        *project["build-system"]["requires"],
    ]
    _write(ROOT / "packaging" / "requirements.lock", HEADER, wanted)
    _write(ROOT / "ansible" / "requirements.lock", HOST_HEADER, project["dependency-groups"]["host"])


def _write(lock: Path, header: str, wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-I", "-m", "venv", directory], check=True)
        pip = [f"{directory}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--use-pep517", *wanted], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True).stdout
    lock.write_text(header + frozen, encoding="utf-8")


if __name__ == "__main__":
    main()
