"""What a Hub costs and leaves behind while it is fed: memory, descriptors, files, its log."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

from amux_hub.store.paths import check_document
from tests.fuzz import values
from tests.harness import Hub, until

_MIB = 1024 * 1024
GROWTH_BYTES = 16 * _MIB
"""What a Hub may grow between a quarter of the inputs and the last: a frame and a document here and there."""
_WATCHING = 2
"""Descriptors that the first search may open and keep."""
_ERROR = re.compile(r"Z (error|critical) ")


def resident(pid: int) -> int:
    """Resident bytes of a process, proc_pid_statm(5)."""
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def mib(size: int) -> str:
    return f"{size / _MIB:.1f} MiB"


def descriptors(pid: int, kind: str = "") -> int:
    """How many descriptors a process has, or how many of a kind: `socket`."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{pid}/fd/{name}").startswith(kind)
    return count


def disconnected(hub: Hub, sockets: int) -> None:
    """Wait until the Hub has no more sockets than these."""
    until(lambda: descriptors(hub.pid, "socket") <= sockets, "every connection is closed")


def files(directory: Path, *, without: Path) -> dict[str, tuple[int, str]]:
    """Every file below `directory` but in `without` and the Hub's log: mode and digest of what is in it."""
    found: dict[str, tuple[int, str]] = {}
    for path in sorted(directory.rglob("*")):
        if path.is_relative_to(without) or path.name == "hub.stderr" or not path.is_file():
            continue
        found[str(path)] = (path.lstat().st_mode, hashlib.sha256(path.read_bytes()).hexdigest())
    return found


class Watch:
    """Looks at a running Hub from the beginning of a run to its end."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._memory = hub.home / "memory"
        self._before = files(hub.directory, without=self._memory)
        self.descriptors = descriptors(hub.pid)
        self.sockets = descriptors(hub.pid, "socket")
        self.resident: list[int] = [resident(hub.pid)]

    def sample(self) -> int:
        """Take note of the memory in use now."""
        if self._hub.process is None or self._hub.process.poll() is not None:
            raise AssertionError(f"the Hub ended: {self._hub.stderr[-4000:]}")
        self.resident.append(resident(self._hub.pid))
        return self.resident[-1]

    def faults(self) -> list[str]:
        """What is wrong now, in words; empty if nothing is. The connections of the run are closed."""
        found = []
        answer = self._hub.call("io.amux.Memory.Get", path="MEMORY.md")
        if "error" in answer:
            found.append(f"a correct call is answered {answer}")
        if (count := descriptors(self._hub.pid)) > self.descriptors + _WATCHING:
            found.append(f"{count} descriptors, {self.descriptors} at the start")
        log = self._hub.stderr
        if "Traceback" in log or _ERROR.search(log):
            found.append(f"the log has an error: {log[-4000:]}")
        if values.MARKER in log:
            found.append("the log holds what was stored or asked")
        after = files(self._hub.directory, without=self._memory)
        if after != self._before:
            found.append(f"files outside the memory changed: {sorted(set(after.items()) ^ set(self._before.items()))}")
        for path in self._memory.rglob("*.md"):
            check_document(str(path.relative_to(self._memory / "global")))
        return found
