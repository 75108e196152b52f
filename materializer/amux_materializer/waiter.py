"""The end of a launch: wait for its lock, then empty its directory. Runs as the launch's own account.

Promises: it acts below one descriptor, follows no link, crosses no mount, and has the rights of that account alone, so
whatever was planted there, nothing is removed that this account could not remove by itself. A few descriptors are
enough at any depth, and a million files need no list. Root removes the empty directory, by name, afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import stat
from collections.abc import Iterator

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def wait_and_empty(directory: int, lock: int | None) -> int:
    """Block until nobody holds the lock; then as `empty_all`. None is the lock of a directory that has none."""
    if lock is not None:
        take(lock)
    return empty_all(directory)


def open_lock(directory: int, name: str) -> int | None:
    """The lock file, if it is a plain file with one name; else the launch lost it, and has ended."""
    try:
        _may_be_opened(directory)
        lock = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return None
    found = os.fstat(lock)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        os.close(lock)
        return None
    return lock


def take(lock: int, *, block: bool = True) -> bool:
    """Whether the lock is held by this process now, flock(2)."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | (0 if block else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def empty_all(directory: int) -> int:
    """0 once the directory is empty, 2 if something in it stays: a mount, or what other accounts put there."""
    top = _reading(directory)
    mount = _mount(top)
    numbers = itertools.count()
    while _pass(top, mount, numbers):
        pass
    with os.scandir(top) as entries:
        return 2 if any(entries) else 0


def _pass(top: int, mount: str, numbers: Iterator[int]) -> bool:
    """One walk over the top; whether it changed anything. Directories inside directories are moved up to the top,
    where a later pass meets them: so no path grows and no descriptors pile up, however deep it was."""
    changed = False
    for name in _names(top):
        if _unlink(top, name):
            changed = True
            continue
        with contextlib.suppress(OSError):
            inside = _inside(top, name, mount)
            try:
                for inner in _names(inside):
                    changed |= _unlink(inside, inner) or _move_up(inside, inner, top, mount, numbers)
            finally:
                os.close(inside)
            os.rmdir(name, dir_fd=top)
            changed = True
    return changed


def _names(directory: int) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry.name


def _unlink(directory: int, name: str) -> bool:
    """Whether this name is gone: anything but a directory that holds something, or is a mount."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory)
            return True
        return False
    except OSError:
        return False
    return True


def _move_up(directory: int, name: str, top: int, mount: str, numbers: Iterator[int]) -> bool:
    """rename(2) of a directory to another parent takes the right to write it: it changes its `..`."""
    try:
        os.close(_inside(directory, name, mount))
        os.rename(name, f".amux-{os.getpid()}-{next(numbers)}", src_dir_fd=directory, dst_dir_fd=top)
    except OSError:
        return False
    return True


def _inside(directory: int, name: str, mount: str) -> int:
    """A directory below, opened for reading whatever its mode was. Raises OSError, also where it is another mount."""
    fd = os.open(name, os.O_PATH | _DIRECTORY, dir_fd=directory)
    try:
        if _mount(fd) != mount:
            raise OSError("another mount")
        return _reading(fd)
    finally:
        os.close(fd)


def _reading(fd: int) -> int:
    _may_be_opened(fd)
    return os.open(".", os.O_RDONLY | _DIRECTORY, dir_fd=fd)


def _may_be_opened(fd: int) -> None:
    """By the magic link of proc_pid_fd(5): chmod(2) of exactly this directory, and no name is looked up."""
    with contextlib.suppress(OSError):
        os.chmod(f"/proc/self/fd/{fd}", 0o700)


def _mount(fd: int) -> str:
    """The mount that a descriptor lies on, proc_pid_fdinfo(5): a bind mount of one file system is another mount."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next(line for line in file if line.startswith("mnt_id:"))
