"""The Debian releases that packages are built for, and an interpreter of each.

A tree of compiled wheels serves one minor version of Python, so each release has a build of its own; nothing of it
is compiled here, so any machine can build for any release.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

IMAGES = "/var/cache/amux-hub/images"
"""Where the booted tests keep the trees of the releases."""

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""Architecture of Debian → that of a wheel's platform tag."""

GLIBC = range(17, 29)
"""Minor versions of glibc 2 that a wheel may ask for; both releases have newer ones; the package needs the last."""


@dataclass(frozen=True)
class Suite:
    """`release` is the number, `python` the minor version of its /usr/bin/python3."""

    name: str
    release: int
    python: str

    @property
    def next_python(self) -> str:
        major, minor = self.python.split(".")
        return f"{major}.{int(minor) + 1}"


SUITES = {suite.name: suite for suite in (Suite("bookworm", 12, "3.11"), Suite("trixie", 13, "3.13"))}


def running() -> str | None:
    """The suite of this machine, or None for a system that no package is built for."""
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition("=")
        if name == "VERSION_CODENAME":
            return value.strip('"') if value.strip('"') in SUITES else None
    return None


def architecture() -> str:
    """Debian's name of this machine's architecture."""
    return subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()


def interpreter(suite: Suite) -> list[str]:
    """A command that runs the suite's minor version of Python; what it compiles goes into amux.pyz.

    The system's own, else that of the booted tests' tree (as root, which may enter it), else any other.
    """
    candidates = [["/usr/bin/python3"]]
    if os.geteuid() == 0:
        candidates += [["chroot", tree, "/usr/bin/python3"] for tree in sorted(glob.glob(f"{IMAGES}/{suite.name}-*"))]
    named = shutil.which(f"python{suite.python}")
    candidates += [[named]] if named else []
    for pattern in (f"~/.pyenv/versions/{suite.python}.*/bin/python3", "~/.local/share/uv/python/*/bin/python3"):
        candidates += [[path] for path in sorted(glob.glob(os.path.expanduser(pattern)))]
    for candidate in candidates:
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([*candidate, "-IS", "-c", code], capture_output=True, text=True, check=False)
        if done.returncode == 0 and done.stdout.strip() == suite.python:
            return candidate
    raise SystemExit(
        f"build_deb: Python {suite.python} is needed to compile amux.pyz for {suite.name}: install it as "
        f"python{suite.python}, or as root let `make lab ARGS=--images` make the tree of {suite.name}"
    )
