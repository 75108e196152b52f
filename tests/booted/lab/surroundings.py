"""What a supervisor makes around the container, private to it: mounts, cgroups, the network, the overlay.

All of it ends with the last process in the namespaces; nothing shows in the host's mount table or network.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

from tests.booted.lab import cgroups
from tests.booted.lab.trouble import must

OUTER_ADDRESS = "10.231.0.1"
INNER_ADDRESS = "10.231.0.2"
WORK = Path("/run/systemd/nspawn/lab")
TREE = WORK / "tree"

_CLONE_NEWNS, _CLONE_NEWNET, _MS_REC, _MS_PRIVATE = 0x20000, 0x40000000, 0x4000, 1 << 18
LIBC = ctypes.CDLL(None, use_errno=True)


def leave_the_host() -> None:
    """Mount and network namespaces of our own, with /sys of the latter."""
    if LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWNET) or LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "unshare and mount --make-rprivate")
    must(["ip", "link", "set", "lo", "up"])
    must(["mount", "-t", "sysfs", "sysfs", "/sys"])
    must(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/sys/fs/cgroup"])


def make_cgroups(name: str) -> list[Path]:
    """One cgroup in each hierarchy: with --keep-unit the container's cgroup is made below the caller's."""
    for kind, options, folder in (("cgroup2", [], "unified"), ("cgroup", ["-o", "none,name=systemd"], "systemd")):
        path = Path("/sys/fs/cgroup", folder)
        path.mkdir()
        command = ["mount", "-t", kind, *options, kind, str(path)]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            path.rmdir()
    made = cgroups.of(name)
    for path in made:
        path.mkdir(exist_ok=True)
    return made


def mount_tree(image: Path) -> None:
    """The image under an empty layer in memory: nothing that a machine does reaches the image."""
    os.makedirs("/run/systemd/nspawn", exist_ok=True)
    # Else systemd-nspawn leaves a directory there where /run is on a disk.
    must(["mount", "-t", "tmpfs", "tmpfs", "/run/systemd/nspawn"])
    for path in (WORK, WORK / "upper", WORK / "work", TREE):
        path.mkdir()
        path.chmod(0o755)
    layers = f"lowerdir={image},upperdir={WORK}/upper,workdir={WORK}/work"
    must(["mount", "-t", "overlay", "overlay", str(TREE), "-o", layers])


def connect_network(inside: list[str]) -> None:
    """Addresses for both ends of the veth pair; `inside` is a command prefix that enters the container."""
    interface = next(name for name in os.listdir("/sys/class/net") if name.startswith("ve-"))
    for prefix, address, name in (([], OUTER_ADDRESS, interface), (inside, INNER_ADDRESS, "host0")):
        must([*prefix, "ip", "address", "replace", f"{address}/30", "dev", name])
        must([*prefix, "ip", "link", "set", name, "up"])
