"""What `amux launch` needs of a system Hub's host, and what launches left: run directories, launch states."""

from __future__ import annotations

import os
import stat

from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, count, shell
from amux_hub.doctor.host import Host
from amux_hub.sessions import record
from amux_hub.sessions.files import DIRECTORY
from amux_hub.store.write import TEMPORARY

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FEW = 0.1
"""Of the space for run directories that is free: below it launches will fail soon."""


def _launches(host: Host, findings: Findings) -> str:
    """Nobody is connected to: the helper would make a record of it, and start for it."""
    host.need_system()
    _socket(host, findings)
    _tool(host, findings)
    return _place(host, findings)


def _status(path: str, findings: Findings, fix: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        findings.problem("missing", path, "no such file or directory", "root's", fix)
    except PermissionError:
        findings.unseen(path, "its directory is closed to this account")
    return None


def _socket(host: Host, findings: Findings) -> None:
    path = host.places.launch_socket
    fix = f"{host.sudo}systemctl restart amux-materializer.socket"
    status = _status(path, findings, fix)
    if status is None:
        return
    if not stat.S_ISSOCK(status.st_mode):
        fix = f"{host.sudo}mv -- {shell(path)} {shell(path + '.old')}, then: {fix}"
        findings.problem("type", path, "no socket", "a socket of systemd's", fix)
        return
    _roots(path, status, 0o666, host, findings, fix)


def _tool(host: Host, findings: Findings) -> None:
    directory, again = host.places.launch_bin, f"{host.sudo}apt-get install --reinstall amux-hub"
    for path in (directory, os.path.join(directory, "amux")):
        status = _status(path, findings, again)
        if status is None:
            return
        _roots(path, status, 0o755, host, findings, f"{host.sudo}chmod 0755 -- {shell(path)}")
    for name in sorted(os.listdir(directory)):
        if name != "amux":
            path = os.path.join(directory, name)
            fix = f"{host.sudo}rm -- {shell(path)}"
            findings.problem("stranger", path, "first on the PATH of every launched agent", "amux alone", fix)


def _place(host: Host, findings: Findings) -> str:
    path = host.places.launches
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return f"{path} is made for the first launch"
    if not stat.S_ISDIR(status.st_mode):
        mount = f"{host.sudo}systemctl restart amux-materializer"
        fix = f"{host.sudo}mv -- {shell(path)} {shell(path + '.old')}, then: {mount}"
        findings.problem("kind", path, "no directory", "a directory", fix)
        return "unfit"
    _roots(path, status, 0o711, host, findings, f"{host.sudo}chmod 0711 -- {shell(path)}")
    if not os.path.ismount(path):
        wanted = "one of its own, so that nobody fills /run by it"
        fix = f"end all launches, then: {host.sudo}systemctl restart amux-materializer"
        findings.warning("mount", path, "in the file system of /run", wanted, fix)
        return path
    space = os.statvfs(path)
    for kind, free, size in (("space", space.f_bavail, space.f_blocks), ("inodes", space.f_favail, space.f_files)):
        if size and free < size * _FEW:
            fix = f"see whose it is: {host.sudo}du -s --inodes {shell(path)}/* ; {host.sudo}du -sm {shell(path)}/*"
            findings.warning(kind, path, f"{free * 100 // size} % of its {kind} free", "room for launches", fix)
    return f"{path}: {space.f_bavail * space.f_frsize >> 20:,} MiB free"


def _roots(path: str, status: os.stat_result, wanted: int, host: Host, findings: Findings, fix: str) -> None:
    if status.st_uid != host.root:
        owner = f"find out who put it there, then: {host.sudo}chown root:root -- {shell(path)}"
        findings.problem("owner", path, f"owner UID {status.st_uid}", f"UID {host.root}", owner)
    if (mode := stat.S_IMODE(status.st_mode)) != wanted:
        findings.problem("mode", path, f"mode {mode:04o}", f"{wanted:04o}", fix)


def _sessions(host: Host, findings: Findings) -> str:
    path, owner = os.path.join(host.need_home(), DIRECTORY), host.need_owner()
    try:
        directory = os.open(path, os.O_DIRECTORY | _OPEN)
    except FileNotFoundError:
        return "no launch yet"
    except OSError as error:
        fix = f"{host.own_sudo}mv -- {shell(path)} {shell(path + '.old')}"
        findings.problem("kind", path, f"no directory ({error.strerror})", "a directory of the Hub's own", fix)
        return "unfit"
    try:
        status = os.fstat(directory)
        if status.st_uid != owner:
            fix = f"{host.sudo}chown {shell(host.owner_name)}: -- {shell(path)}"
            findings.problem("owner", path, f"owner UID {status.st_uid}", f"UID {owner}", fix)
        if (mode := stat.S_IMODE(status.st_mode)) != 0o700:
            findings.note("mode", path, f"mode {mode:04o}", "0700", f"{host.own_sudo}chmod 0700 -- {shell(path)}")
        names = sorted(os.listdir(directory))
        good = sum(_session(name, directory, path, owner, host, findings) for name in names)
    finally:
        os.close(directory)
    return count(good, "launch state")


def _session(name: str, directory: int, where: str, owner: int, host: Host, findings: Findings) -> bool:
    """Whether a conversation can be resumed by it; the Hub leaves what is none where it is."""
    path = os.path.join(where, name)
    away = f"{host.own_sudo}rm -- {shell(path)}, or restore it from a backup; then: {host.restart}"
    if TEMPORARY.fullmatch(name):
        findings.note("temporary", path, "left by a write that a crash ended", "", "the next start removes it")
        return False
    try:
        fd = os.open(name, _OPEN, dir_fd=directory)
    except FileNotFoundError:
        return False  # ended since it was listed
    except OSError as error:
        findings.problem("kind", path, f"cannot be opened: {error.strerror}", "a regular file", away)
        return False
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            findings.problem("kind", path, "no regular file with one link", "a regular file", away)
            return False
        if status.st_uid != owner:
            fix = f"{host.sudo}chown {shell(host.owner_name)}: -- {shell(path)}"
            findings.problem("owner", path, f"owner UID {status.st_uid}", f"UID {owner}", fix)
            return False
        record.parse(os.read(fd, record.RECORD_BYTES + 1), name)
    except ValueError as error:
        findings.warning("record", path, f"no launch state: {error}", "one that can be resumed", away)
        return False
    finally:
        os.close(fd)
    return True


CHECKS = (Check("launches", _launches), Check("sessions", _sessions))
