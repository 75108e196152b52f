"""What the services can write and execute, as their mount tables have it: root's helpers own the files of root."""

from __future__ import annotations

import pytest

from tests.booted.system import System

PRIVATE = {"/proc", "/dev/pts", "/dev/mqueue", "/dev/hugepages", "/dev/shm", "/tmp", "/var/tmp"}
"""Kernel interfaces, and what PrivateTmp=, PrivateIPC= and PrivateDevices= give to one service alone."""
NO_PROGRAM = {"/dev/hugepages"}
"""hugetlbfs: nothing is written to it by write(2), and nothing executed."""
OWN = {
    "amux-hub": {"/var/lib/amux"},
    "amux-pam": set(),
    "amux-materializer": {"/run/amux-launches"},
}


@pytest.mark.parametrize("unit", OWN)
def test_n6_m8_nothing_of_the_host_can_be_written_and_nothing_written_executed(system: System, unit: str) -> None:
    system.machine.run("systemctl", "start", unit)
    table = system.machine.get(f"/proc/{system.show(unit, 'MainPID')}/mountinfo").decode()
    rows = (line.split() for line in table.splitlines())
    mounts = {row[4]: set(row[5].split(",")) for row in rows}  # the last of one place is what is seen there
    # Of the container itself, and of the unit's own cgroup.
    seen = {path: flags for path, flags in mounts.items() if not path.startswith(("/run/host/", "/sys/fs/cgroup/"))}
    assert "ro" in seen["/"] and "ro" in seen["/usr/lib"]
    writable = {path for path, flags in seen.items() if "rw" in flags}
    assert writable <= PRIVATE | OWN[unit]
    assert OWN[unit] <= writable
    assert {path for path in writable if "noexec" not in seen[path]} <= NO_PROGRAM
