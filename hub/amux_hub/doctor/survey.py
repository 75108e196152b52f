"""One walk over the memory, read-only, for all checks of the store: `amux doctor` after a restore (D2, D8, C16).

Promises: components are walked by descriptors, no link is followed, only regular files are opened, and the walk ends
in its time: what it did not reach is named.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections import defaultdict
from dataclasses import dataclass, field

from amux_hub.doctor import marks
from amux_hub.doctor.finding import Findings, shell
from amux_hub.doctor.scope import DIRECTORY, Scope
from amux_hub.store.root import GLOBAL, USERS

SECONDS = 120.0
LOCK = ".amux-lock"
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass
class Subject:
    """Whose memory: what the walk needs to know of the host."""

    home: str
    owner: int
    owner_name: str
    sudo: str
    """What begins a command on the Hub's own files."""

    root_sudo: str
    """What begins a command that only root may run."""

    principals: dict[str, str]
    """Directory name in `users` → principal."""

    serving: bool
    """A Hub may be writing just now: a young temporary file is its own."""


@dataclass
class Survey:
    """What the walk found, by the check that tells it."""

    findings: dict[str, Findings] = field(default_factory=lambda: defaultdict(Findings))
    scopes: int = 0
    directories: int = 0
    documents: int = 0
    size: int = 0
    late: list[str] = field(default_factory=list)
    """Scopes that were not looked at, or not to their end."""


def take(subject: Subject, seconds: float = SECONDS) -> Survey:
    """Look at everything in `<home>/memory`. Raises FileNotFoundError without it."""
    survey = Survey()
    until = time.monotonic() + seconds
    memory = os.path.join(subject.home, "memory")
    status = os.lstat(memory)
    if not stat.S_ISDIR(status.st_mode):
        fix = f"{subject.sudo}mv -- {shell(memory)} {shell(memory + '.old')}"
        survey.findings["store-kinds"].problem("kind", memory, "no directory", "a directory", fix)
        return survey
    top = Scope(survey, subject, "memory", memory, until)
    top.directory([], status)
    try:
        fd = os.open(memory, DIRECTORY)
    except OSError as error:
        top.unreadable([], error)
        return survey
    try:
        for name in sorted(os.listdir(fd)):
            path = os.path.join(memory, name)
            if name == GLOBAL:
                _scope(survey, subject, fd, [GLOBAL], GLOBAL, path, until)
            elif name == USERS:
                _users(survey, subject, fd, path, until)
            elif name != LOCK:
                found = survey.findings["store-scopes"]
                found.warning("stranger", path, "nothing that a Hub makes", f"{GLOBAL}, {USERS} and {LOCK} alone")
    finally:
        os.close(fd)
    return survey


def _users(survey: Survey, subject: Subject, memory: int, path: str, until: float) -> None:
    root = Scope(survey, subject, USERS, path, until)
    status = os.stat(USERS, dir_fd=memory, follow_symlinks=False)
    if (fd := root.enter(memory, USERS, [], status)) is None:
        return
    try:
        for name in sorted(os.listdir(fd)):
            if _HASH.fullmatch(name):
                label = subject.principals.get(name, f"{USERS}/{name[:12]}…")
                _scope(survey, subject, fd, [USERS, name], label, os.path.join(path, name), until)
    finally:
        os.close(fd)


def _scope(
    survey: Survey, subject: Subject, parent: int, location: list[str], label: str, path: str, until: float
) -> None:
    name = location[-1]
    if time.monotonic() > until:
        survey.late.append(label)
        return
    scope = Scope(survey, subject, label, path, until)
    try:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return  # gone since it was listed
    survey.scopes += 1
    if (fd := scope.enter(parent, name, [], status)) is None:
        return
    try:
        marks.judge(subject, survey.findings["store-marks"], fd, location, label)
        scope.walk(fd, [])
    finally:
        os.close(fd)
    scope.finish()
    if scope.late:
        survey.late.append(label)


def lock_holders(proc: str, path: str) -> list[int]:
    """Processes that hold the flock(2) on the file at `path`, of proc_locks(5). No lock is taken to find out."""
    try:
        inode = os.lstat(path).st_ino
    except OSError:
        return []  # what is wrong with the way to it is told elsewhere
    holders = []
    with open(os.path.join(proc, "locks"), encoding="ascii", errors="replace") as lines:
        for line in lines:
            fields = line.split()
            # "1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF"; who waits has "->" after the number.
            if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
                holders.append(int(fields[4]))
    return sorted(set(holders))
