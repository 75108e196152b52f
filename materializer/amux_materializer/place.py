"""The directory of all launches, and everything that root does in the file system.

Promises: root acts on its own parent, by descriptor, on names that it chose: 32 hexadecimal digits. It never opens,
lists or resolves anything below a run directory once that is the caller's. So whatever a caller puts there, or swaps,
is met by that caller's rights alone.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from typing import NamedTuple

NAME = re.compile(r"[0-9a-f]{32}")
_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class UnfitError(Exception):
    """The parent or the archive is not what root may use; the message says why and what to do."""


class Left(NamedTuple):
    """A run directory that is there: its name, and whose it is."""

    name: str
    uid: int
    gid: int


class Place:
    """The parent. Raises `UnfitError` where somebody other than `owner` could change what stands in it."""

    def __init__(self, path: str, owner: int = 0) -> None:
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | _DIRECTORY)
        except OSError as error:
            raise UnfitError(f"{path}: {error.strerror}: systemctl restart amux-materializer mounts it") from None
        found = os.fstat(self._fd)
        if found.st_uid != owner or found.st_mode & 0o022:
            mode = stat.S_IMODE(found.st_mode)
            raise UnfitError(
                f"{path} belongs to UID {found.st_uid} with mode {mode:04o}, and must be UID {owner}'s and written by "
                f"nobody else: chown root:root {path}; chmod 0711 {path}"
            )

    def make(self, uid: int, gid: int) -> tuple[str, int]:
        """A new run directory, mode 0700, of this UID: its name and its descriptor. Raises OSError, leaving nothing."""
        name = secrets.token_hex(16)
        os.mkdir(name, 0o700, dir_fd=self._fd)
        fd = -1
        try:
            fd = os.open(name, os.O_RDONLY | _DIRECTORY, dir_fd=self._fd)
            os.fchown(fd, uid, gid)
        except OSError:
            if fd >= 0:
                os.close(fd)
            os.rmdir(name, dir_fd=self._fd)
            raise
        return name, fd

    def open(self, name: str) -> int:
        """A descriptor that only leads there, O_PATH of open(2): root without capabilities gets no other one."""
        return os.open(name, os.O_PATH | _DIRECTORY, dir_fd=self._fd)

    def remove(self, name: str) -> bool:
        """Whether no such run directory is there any more: an empty one is removed, rmdir(2), another one stays."""
        try:
            os.rmdir(name, dir_fd=self._fd)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def found(self) -> tuple[list[Left], list[str]]:
        """The run directories that are there, and the names of what is none."""
        left, odd = [], []
        with os.scandir(self._fd) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                if NAME.fullmatch(entry.name) and stat.S_ISDIR(status.st_mode):
                    left.append(Left(entry.name, status.st_uid, status.st_gid))
                else:
                    odd.append(entry.name)
        return left, odd
