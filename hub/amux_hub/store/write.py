"""Durable replacement and removal of one file in a directory given by its descriptor.

The order is the guarantee: write the temporary file, sync it, check its size, rename it over the name, sync the
directory (rename(2), fsync(2)). A crash at any moment leaves the old bytes or the new, whole.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets

from amux import limits
from amux.errors import AmuxError
from amux_hub.store.faults import storage_error

_PREFIX = ".amux-tmp-"
TEMPORARY = re.compile(r"\.amux-tmp-[0-9a-f]{32}")
"""The only names that the sweep removes."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        written = os.write(fd, view)
        if written == 0:
            raise OSError(errno.EIO, "write made no progress")
        view = view[written:]


def replace(parent: int, name: str, data: bytes, path: str) -> None:
    """Make `name` in `parent` hold `data`, durably. `path` is for messages.

    Raises storage_full, storage_readonly or storage_io with the old file whole; `outcome_uncertain` if the
    new content is in place but could not be proven to be on the disk.
    """
    temporary = _PREFIX + secrets.token_hex(16)
    renamed = False
    try:
        try:
            fd = os.open(temporary, _CREATE, 0o600, dir_fd=parent)
            try:
                _write_all(fd, data)
                os.fsync(fd)
                if os.fstat(fd).st_size != len(data):
                    raise OSError(errno.EIO, "the file is shorter than what was written")
            finally:
                os.close(fd)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            renamed = True
            os.fsync(parent)
        except OSError as error:
            if renamed:
                raise _uncertain(error, path) from error
            raise storage_error(error, f"writing {path}") from error
    finally:
        if not renamed:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=parent)


def remove(parent: int, name: str, path: str) -> None:
    """Delete `name` in `parent`, durably. Raises as `replace` does."""
    try:
        os.unlink(name, dir_fd=parent)
    except OSError as error:
        raise storage_error(error, f"forgetting {path}") from error
    try:
        os.fsync(parent)
    except OSError as error:
        raise _uncertain(error, path) from error


def _uncertain(error: OSError, path: str) -> AmuxError:
    return AmuxError(
        "outcome_uncertain",
        f"{path} was changed, but the disk did not confirm it ({os.strerror(error.errno or 0)}): read it again",
        path=path,
    )


def make_directories(parent: int, names: list[str], path: str) -> list[int]:
    """Create `names` below `parent`, one in the other, 0700; answers a descriptor of each."""
    made: list[int] = []
    count = 0
    fd = parent
    try:
        for name in names:
            os.mkdir(name, 0o700, dir_fd=fd)
            count += 1
            fd = os.open(name, _DIRECTORY, dir_fd=fd)
            made.append(fd)
    except OSError as error:
        unmake_directories(parent, names[:count], made)
        for fd in made:
            os.close(fd)
        raise storage_error(error, f"creating a directory for {path}") from error
    return made


def sync_parents(parent: int, made: list[int], path: str) -> None:
    """Sync the directories that hold the names of those that `make_directories` made, deepest first."""
    try:
        for fd in reversed([parent, *made[:-1]]):
            os.fsync(fd)
    except OSError as error:
        raise _uncertain(error, path) from error


def unmake_directories(parent: int, names: list[str], made: list[int]) -> None:
    """Best effort: remove those of `names` below `parent` that are empty, deepest first."""
    parents = [parent, *made]
    for name, fd in reversed(list(zip(names, parents, strict=False))):
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=fd)


def prune(root: int, components: list[str]) -> None:
    """Best effort: remove the directories `components` below `root` that are empty, deepest first, each synced."""
    fds: list[int] = []
    try:
        for component in components:
            fds.append(os.open(component, _DIRECTORY, dir_fd=fds[-1] if fds else root))
        for component in reversed(components):
            os.close(fds.pop())
            parent = fds[-1] if fds else root
            os.rmdir(component, dir_fd=parent)
            os.fsync(parent)
    except OSError:
        return  # not empty, most often; the document is gone for certain
    finally:
        for fd in fds:
            os.close(fd)


def sweep(directory: int, depth: int = limits.PATH_DEPTH + 2) -> int:
    """Remove the temporary files that a crash left in `directory` and below; answers how many.

    Only regular files of our own account under a temporary name; links are not followed. `depth` bounds the
    directories below: a scope is at most two deep, and no document is deeper in it than a path can be.
    """
    removed = 0
    with os.scandir(directory) as listing:
        entries = [(e.name, e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False)) for e in listing]
    for name, is_directory, is_file in entries:
        with contextlib.suppress(OSError):
            if is_file and TEMPORARY.fullmatch(name):
                if os.stat(name, dir_fd=directory, follow_symlinks=False).st_uid == os.geteuid():
                    os.unlink(name, dir_fd=directory)
                    removed += 1
            elif is_directory and depth > 0:
                fd = os.open(name, _DIRECTORY, dir_fd=directory)
                try:
                    removed += sweep(fd, depth - 1)
                finally:
                    os.close(fd)
    return removed
