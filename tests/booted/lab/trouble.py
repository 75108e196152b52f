"""What the parts of the lab share: its error, its progress lines, and commands that must succeed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

NEEDS = (("systemd-nspawn", "systemd-container"), ("mmdebstrap", "mmdebstrap"), ("ip", "iproute2"))
"""Commands, each with the Debian package that brings it."""


class LabError(Exception):
    """The machine cannot carry a lab, or a lab did not come up; the message says what, and what to do."""


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def require() -> None:
    """Refuse by name what is missing, before anything is made."""
    if os.geteuid() != 0:
        raise LabError("a booted system needs root: namespaces, mounts and cgroups of its own (sudo make lab)")
    absent = sorted({package for command, package in NEEDS if shutil.which(command) is None})
    if absent:
        raise LabError(f"missing: {' '.join(absent)}; install with: apt-get install {' '.join(absent)}")


def must(command: Sequence[str]) -> str:
    """Standard output of a command; `LabError` with what it said if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout
