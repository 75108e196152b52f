"""What the host gives: free disk space, inotify."""

from __future__ import annotations

import os

from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError, shell
from amux_hub.doctor.host import Host

_MIB = 1024 * 1024
_FEW_INODES = 1024


def _disk(host: Host, findings: Findings) -> str:
    path = host.home
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    status = os.statvfs(path)
    free, reserve = status.f_bavail * status.f_frsize, int(host.config["limits.free_bytes"])
    look = f"df -h {shell(path)}; lower limits.free_bytes only if the reserve is meant to be used"
    if free < reserve:
        found = f"{free // _MIB:,} MiB free: writes are refused, reads and deletes work"
        findings.problem("space", path, found, f"{reserve // _MIB:,} MiB or more", look)
    elif free < 2 * reserve:
        wanted = f"well over the reserve of {reserve // _MIB:,} MiB"
        findings.warning("space", path, f"{free // _MIB:,} MiB free", wanted, look)
    if status.f_files and status.f_favail < _FEW_INODES:
        found = f"{status.f_favail} inodes free"
        findings.warning("inodes", path, found, f"{_FEW_INODES} or more", f"df -i {shell(path)}")
    return f"{free // _MIB:,} MiB free at {path}, {reserve // _MIB:,} MiB are kept"


def _inotify(host: Host, findings: Findings) -> str:
    watches = _number(host, "max_user_watches")
    instances = _number(host, "max_user_instances")
    try:
        host.need_home()
        directories = host.walked.directories
    except (SkippedError, OSError):
        directories = 0
    if watches <= directories:
        found = f"{watches:,} watches for {directories:,} directories: searches look at every file instead"
        wanted = 2 * directories
        fix = f"echo fs.inotify.max_user_watches={wanted} | {host.sudo}tee /etc/sysctl.d/60-amux.conf && "
        fix += f"{host.sudo}sysctl --system"
        findings.warning("watches", "fs.inotify.max_user_watches", found, f"{wanted:,}", fix)
    if instances < 1:
        fix = f"{host.sudo}sysctl fs.inotify.max_user_instances=128"
        findings.warning("instances", "fs.inotify.max_user_instances", str(instances), "1 or more", fix)
    return f"{watches:,} watches, {directories:,} directories seen"


def _number(host: Host, name: str) -> int:
    path = os.path.join(host.places.proc, "sys/fs/inotify", name)
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        raise SkippedError(f"{path} cannot be read") from None


CHECKS = (Check("disk", _disk), Check("inotify", _inotify, 200))
