"""The cgroups of a lab: one per hierarchy, by which all its processes are found, killed and removed."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from pathlib import Path

PREFIX = "amux-lab-"


def roots() -> list[Path]:
    """Where this mount namespace shows cgroup2 and the name=systemd hierarchy."""
    hybrid = [Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup/systemd")]
    return [path for path in hybrid if (path / "cgroup.procs").exists()] or [Path("/sys/fs/cgroup")]


def of(name: str) -> list[Path]:
    return [root / (PREFIX + name) for root in roots()]


def names() -> set[str]:
    return {path.name.removeprefix(PREFIX) for root in roots() for path in root.glob(PREFIX + "*")}


def remove(directories: Iterable[Path]) -> None:
    """Kill all below (cgroup.kill, Linux 5.14) and remove the directories; gives up after five seconds each."""
    for top in directories:
        for _ in range(100):
            try:
                for path, _, _ in os.walk(top, topdown=False):
                    os.rmdir(path)
                break
            except OSError as error:
                if error.errno != errno.EBUSY:
                    break
                if (top / "cgroup.kill").exists():
                    (top / "cgroup.kill").write_text("1")
                time.sleep(0.05)
