"""Names in use, under /run/amux-tests: a lock for each lab, held by its supervisor and janitor, and its console."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tests.booted.lab import cgroups
from tests.booted.lab.trouble import LabError

STATE = Path("/run/amux-tests")


def console(name: str) -> Path:
    return STATE / f"{name}.console"


def claim(name: str) -> int:
    """The descriptor of the name's lock; `LabError` if a lab of that name runs."""
    descriptor = _lock(name)
    if descriptor is None:
        raise LabError(f"a booted system named {name} is already running")
    cgroups.remove(cgroups.of(name))
    return descriptor


def release(name: str) -> None:
    for path in (STATE / f"{name}.lock", console(name)):
        path.unlink(missing_ok=True)


def sweep() -> None:
    """Remove what labs left whose supervisor and janitor were both killed."""
    left = {path.stem for path in STATE.glob("*.lock")} | cgroups.names()
    for name in left:
        descriptor = _lock(name)
        if descriptor is not None:
            cgroups.remove(cgroups.of(name))
            release(name)
            os.close(descriptor)


def _lock(name: str) -> int | None:
    STATE.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(STATE / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
