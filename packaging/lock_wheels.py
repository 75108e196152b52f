"""Writes packaging/wheels.lock: the files that the Debian packages are made of, by hash; run by `make lock`.

What the product needs at the versions of requirements.lock, for every suite and architecture.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import tomllib
from pathlib import Path

from debpkg import wheels
from debpkg.suite import MACHINES, SUITES

HEADER = """\
# What the Debian packages hold beside the product: versions of requirements.lock, hashes of the files for every
# suite and architecture; `make lock` writes this file.
"""


def main() -> None:
    project = tomllib.loads((wheels.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [
        line for line in project["project"]["dependencies"] if not line.startswith(wheels.SOURCES)
    ]
    versions = dict(
        line.split("==")
        for line in wheels.REQUIREMENTS.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    hashes: dict[str, set[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for suite in SUITES.values():
            for architecture in MACHINES:
                directory = Path(scratch, suite.name, architecture)
                chosen = wheels.options(suite, architecture)
                wheels.pip(f"--dest={directory}", f"--constraint={wheels.REQUIREMENTS}", *chosen, *wanted)
        sources = [f"{name}=={versions[name]}" for name in wheels.SOURCES]
        wheels.pip(f"--dest={scratch}/source", "--no-deps", "--no-binary=:all:", *sources)
        for path in sorted(Path(scratch).rglob("*.*")):
            if path.is_file():
                name = path.name.rsplit("-", 1)[0] if path.suffix == ".gz" else path.name.split("-")[0]
                hashes.setdefault(_normal(name), set()).add(hashlib.sha256(path.read_bytes()).hexdigest())
    lines = []
    for name in sorted(versions, key=_normal):
        if _normal(name) in hashes:
            files = "".join(f" \\\n    --hash=sha256:{one}" for one in sorted(hashes.pop(_normal(name))))
            lines.append(f"{_normal(name)}=={versions[name]}{files}\n")
    if hashes:
        raise SystemExit(f"requirements.lock does not hold {', '.join(sorted(hashes))}: run packaging/lock.py first")
    wheels.LOCK.write_text(HEADER + "".join(lines), encoding="utf-8")


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main()
