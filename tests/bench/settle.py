"""Waiting until a process has nothing left to do: a server that still indexes is not yet what it will be."""

from __future__ import annotations

import time
from pathlib import Path

_QUIET_TICKS = 2
_SECONDS = 120.0


def _ticks(pid: int) -> int:
    """Clock ticks of processor time so far, proc(5): fields 14 and 15 of stat, behind the name."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def settle(pid: int) -> None:
    """Return once the process used next to no processor time for a second, or after two minutes."""
    end = time.monotonic() + _SECONDS
    before = _ticks(pid)
    while time.monotonic() < end:
        time.sleep(1)
        now = _ticks(pid)
        if now - before <= _QUIET_TICKS:
            return
        before = now
