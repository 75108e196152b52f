"""Removing a whole scope for good, in a way that a crash cannot leave half visible.

The scope's directory is first renamed to a hidden name beside it, durably: from then on it is nobody's. What is below
is removed entry by entry through descriptors, never following anything and never leaving its file system. Whatever a
crash leaves is removed when the store is opened next.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets

from amux_hub.store.faults import storage_error

_PREFIX = ".amux-purge-"
_PURGED = re.compile(r"\.amux-purge-[0-9a-f]{32}")
_DEPTH = 256
"""Levels of directories: what documents need is 16."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def purge(parent: int, name: str, what: str) -> bool:
    """Remove the directory `name` in `parent` and all below it, durably; False if there is none.

    Raises storage errors: before the rename nothing has changed, afterwards the rest goes with the next start.
    """
    hidden = _PREFIX + secrets.token_hex(16)
    try:
        try:
            os.rename(name, hidden, src_dir_fd=parent, dst_dir_fd=parent)
        except FileNotFoundError:
            return False
        os.fsync(parent)
        _remove(parent, hidden, os.fstat(parent).st_dev)
        os.fsync(parent)
    except OSError as error:
        raise storage_error(error, f"removing {what}") from error
    return True


def finish(parent: int) -> int:
    """Remove what a crash left of purges in `parent`; how many there were. Best effort."""
    with os.scandir(parent) as entries:
        left = [entry.name for entry in entries if _PURGED.fullmatch(entry.name)]
    for name in left:
        with contextlib.suppress(OSError):
            _remove(parent, name, os.fstat(parent).st_dev)
    return len(left)


def _remove(parent: int, name: str, device: int, depth: int = 0) -> None:
    """Depth first, with one descriptor open a level."""
    fd = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        if os.fstat(fd).st_dev != device:
            raise OSError(errno.EXDEV, f"another file system is mounted at {name}")
        if depth > _DEPTH:
            raise OSError(errno.ELOOP, "the directories are too deep: remove them by hand")
        with os.scandir(fd) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for child, is_directory in found:
            if is_directory:
                _remove(fd, child, device, depth + 1)
            else:
                os.unlink(child, dir_fd=fd)
    finally:
        os.close(fd)
    os.rmdir(name, dir_fd=parent)
