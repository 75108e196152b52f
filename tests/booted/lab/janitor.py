"""A process that waits for its parent's death, however it comes, and then clears the lab away.

systemd-nspawn's own parent-death signal does not reach the container's PID 1, so a supervisor that is killed would
leave a whole system running.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from tests.booted.lab import cgroups, state


def start(name: str, directories: list[Path], lock: int) -> tuple[int, int]:
    """Fork it; answers its PID and a descriptor. Closing that (dying does) sets it to work, then it ends."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(reading)
        return pid, writing
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        for descriptor in map(int, os.listdir("/proc/self/fd")):
            if descriptor > 2 and descriptor not in (reading, lock):
                with contextlib.suppress(OSError):
                    os.close(descriptor)
        os.read(reading, 1)
        cgroups.remove(directories)
        state.release(name)
    finally:
        os._exit(0)
