"""Descriptors: how the store reaches a file without following anything.

Every path is walked one component at a time from a directory descriptor, with O_NOFOLLOW, and what was opened
is checked by fstat: a directory or a regular file, of our own account, with one link (openat(2), fstat(2)).
No path with a slash ever reaches the kernel.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from amux.errors import AmuxError
from amux_hub.store.faults import storage_error, unsafe

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: opening a FIFO must not wait for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK = 1024 * 1024

Signature = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in ns: two equal ones name the same bytes, but see index.GRAIN_NS."""

Place = tuple[int, int, int]
"""Device, inode and ctime in ns of a directory: a new one may get the inode of one that is gone, not its ctime too."""

NOT_REGULAR, LINKED, FOREIGN, UNREADABLE = (
    "not a regular file",
    "more than one hard link",
    "owned by another account",
    "not readable by the Hub",
)


def signature(status: os.stat_result) -> Signature:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def place(status: os.stat_result) -> Place:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def file_fault(status: os.stat_result) -> str | None:
    """Why a file is none of ours, or None."""
    if not stat.S_ISREG(status.st_mode):
        return NOT_REGULAR
    if status.st_nlink > 1:
        return LINKED
    if status.st_uid != os.geteuid():
        return FOREIGN
    return None


def open_directory(name: str, parent: int, path: str) -> int | None:
    """A descriptor of the directory `name` in `parent`, None if nothing is there.

    Raises `unsafe_file` for a link, another kind of file, a foreign owner or one that we may not enter.
    """
    try:
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise unsafe(path, "a part of its path is not a directory") from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise unsafe(path, "a directory of its path is " + UNREADABLE) from None
        raise storage_error(error, f"reading {path}") from error
    try:
        if os.fstat(fd).st_uid != os.geteuid():
            raise unsafe(path, "a directory of its path is " + FOREIGN)
    except BaseException:
        os.close(fd)
        raise
    return fd


@contextmanager
def directory(root: int, components: list[str], path: str) -> Iterator[tuple[int, int]]:
    """The deepest existing directory along `components`, and how many of them exist; `root` must stay open."""
    fd = root
    depth = 0
    try:
        for component in components:
            child = open_directory(component, fd, path)
            if child is None:
                break
            if fd != root:
                os.close(fd)
            fd = child
            depth += 1
        yield fd, depth
    finally:
        if fd != root:
            os.close(fd)


def open_file(name: str, parent: int, path: str) -> int | None:
    """A descriptor of the document `name` in `parent`, None if nothing is there. Raises `unsafe_file`."""
    try:
        # Looked at before it is opened: opening a device can do something.
        fault = file_fault(os.stat(name, dir_fd=parent, follow_symlinks=False))
        if fault:
            raise unsafe(path, fault)
        fd = os.open(name, _FILE, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            raise unsafe(path, NOT_REGULAR) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise unsafe(path, UNREADABLE) from None
        raise storage_error(error, f"reading {path}") from error
    try:
        if fault := file_fault(os.fstat(fd)):
            raise unsafe(path, fault)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_file(fd: int, limit: int, path: str) -> tuple[bytes, os.stat_result]:
    """Up to `limit` bytes of an open file, and its status from before the first byte was read.

    A program that writes in place while we read can tear the text: read again a few times if it changed.
    """
    try:
        for _ in range(4):
            before = os.fstat(fd)
            data = os.pread(fd, limit, 0)
            while len(data) < min(limit, before.st_size):
                more = os.pread(fd, limit - len(data), len(data))
                if not more:
                    break
                data += more
            after = os.fstat(fd)
            if signature(before) == signature(after):
                break
    except OSError as error:
        raise storage_error(error, f"reading {path}") from error
    return data, before


def hash_file(fd: int, path: str) -> tuple[int, str]:
    """Size and SHA-256, as 64 hex digits, of the whole file, in bounded memory."""
    digest = hashlib.sha256()
    size = 0
    try:
        wanted = min(os.fstat(fd).st_size + 1, _CHUNK)
        while chunk := os.pread(fd, wanted, size):
            digest.update(chunk)
            size += len(chunk)
    except OSError as error:
        raise storage_error(error, f"reading {path}") from error
    return size, digest.hexdigest()


def make_root(name: str, parent: int) -> int:
    """The directory `name` in `parent`, made 0700 and synced if missing; a descriptor of it."""
    try:
        os.mkdir(name, 0o700, dir_fd=parent)
        try:
            os.fsync(parent)
        except OSError:
            os.rmdir(name, dir_fd=parent)  # or the next write would take it for one that is on the disk
            raise
    except FileExistsError:
        pass
    except OSError as error:
        raise storage_error(error, f"creating the directory {name}") from error
    fd = open_directory(name, parent, name)
    if fd is None:
        raise AmuxError("storage_io", f"the directory {name} vanished while it was opened; retry")
    return fd
