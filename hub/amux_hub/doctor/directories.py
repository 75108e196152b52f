"""Every directory on the way to what the Hub trusts: nobody else may put another one in its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, count, shell
from amux_hub.doctor.host import Host, present

_WRITABLE = stat.S_IWGRP | stat.S_IWOTH


class _Walk:
    """Looks at each path once."""

    def __init__(self, host: Host, findings: Findings) -> None:
        self.host = host
        self.findings = findings
        self.seen: set[str] = set()

    def private(self, path: str) -> None:
        """A directory of the Hub alone, and everything above it."""
        host = self.host
        owner = host.owner
        trusted = {0, host.root} if host.system or owner is None else {0, host.root, owner}
        self.chain(os.path.dirname(path), trusted)
        if os.path.islink(path):
            self.chain(os.path.dirname(os.path.realpath(path)), trusted)
            path = os.path.realpath(path)
        status = self._stat(path)
        if status is None or owner is None:
            return
        if not stat.S_ISDIR(status.st_mode):
            fix = f"{host.own_sudo}mv -- {shell(path)} {shell(path + '.old')}"
            self.findings.problem("kind", path, "no directory", "a directory", fix)
            return
        if status.st_uid != owner:
            fix = f"{host.sudo}chown {shell(host.owner_name)}: -- {shell(path)}"
            wanted = f"{host.owner_name} (UID {owner})"
            self.findings.problem("owner", path, f"owner UID {status.st_uid}", wanted, fix)
        if (mode := stat.S_IMODE(status.st_mode)) != 0o700:
            fix = f"{host.own_sudo}chmod 0700 -- {shell(path)}"
            self.findings.problem("mode", path, f"mode {mode:04o}", "0700", fix)

    def roots(self, path: str, how: str) -> None:
        """A directory or file of root's, which must be there, and everything above it."""
        try:
            there = present(path)
        except PermissionError:
            there = True  # the walk down to it says what may not be seen
        if not there:
            self.findings.problem("missing", path, "no such file or directory", "root's, not writable by others", how)
            return
        self.chain(path, {0, self.host.root})

    def chain(self, path: str, trusted: set[int]) -> None:
        """`path` and what is above it, both as it is written and as links lead."""
        for step in (*_steps(os.path.abspath(path)), *_steps(os.path.realpath(path))):
            if step not in self.seen and (status := self._stat(step)) is not None:
                self._judge(step, status, trusted)

    def _stat(self, path: str) -> os.stat_result | None:
        try:
            status = os.lstat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None  # whoever makes it needs the directory above, which is looked at
        except PermissionError:
            self.findings.unseen(path, "this account may not look at it")
            return None
        self.seen.add(path)
        return status

    def _judge(self, path: str, status: os.stat_result, trusted: set[int]) -> None:
        host, mode = self.host, stat.S_IMODE(status.st_mode)
        if status.st_uid not in trusted:
            self.findings.problem(
                "owner",
                path,
                f"owner UID {status.st_uid}, who can replace all below it",
                "root" if trusted <= {0, host.root} else f"root or {host.owner_name}",
                f"{host.sudo}chown root -- {shell(path)}",
            )
        sticky = mode & stat.S_ISVTX and stat.S_ISDIR(status.st_mode)
        if stat.S_ISLNK(status.st_mode) or not mode & _WRITABLE or sticky:
            return  # in a sticky directory nobody renames what is another's, unlink(2)
        who = "everybody" if mode & stat.S_IWOTH else f"the group {status.st_gid}"
        # A group that is one person's own is common on a laptop.
        tell = self.findings.problem if host.system or mode & stat.S_IWOTH else self.findings.warning
        own = status.st_uid == host.euid
        fix = f"{'' if own else host.sudo}chmod go-w -- {shell(path)}"
        tell("writable", path, f"mode {mode:04o}: {who} can replace what is in it", f"{mode & ~_WRITABLE:04o}", fix)


def _steps(path: str) -> Iterator[str]:
    """`/`, `/a`, `/a/b` of `/a/b`."""
    yield "/"
    parts = [part for part in path.split("/") if part]
    for end in range(1, len(parts) + 1):
        yield "/" + "/".join(parts[:end])


def _directories(host: Host, findings: Findings) -> str:
    walk = _Walk(host, findings)
    walk.private(host.home)
    if host.system:
        places, again = host.places, f"{host.sudo}apt-get install --reinstall amux-hub"
        walk.roots(places.runtime, f"{host.sudo}systemd-tmpfiles --create --prefix={shell(places.runtime)}")
        for path in (places.etc, places.library, os.path.join(places.library, "bin/amux-hub")):
            walk.roots(path, again)
        for path in (os.path.dirname(host.config.file), places.program, os.path.join(places.library, "amux.pyz")):
            if os.path.lexists(path):
                walk.roots(path, again)
    else:
        walk.private(os.path.dirname(str(host.config["sockets.hub"])))
    return f"{count(len(walk.seen), 'path')} looked at"


CHECKS = (Check("directories", _directories),)
