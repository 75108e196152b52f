"""Answers of recent gets, given again without touching a file while the kernel proves that nothing changed.

Handing a get to a thread and back costs several times what the get costs. This is for the loop itself: `find`
makes two system calls that never wait, a read of an empty inotify queue and an fstat of a descriptor that is
kept, and answers only if both show that nothing happened to the document, to its directories or to anything else
in them since its bytes were read. Whatever is less than certain is a miss, which a thread serves.

It must not be asked to judge: limits, identity and the switch were checked by the caller.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from amux_hub.store import watch
from amux_hub.store.reply import Reply

ENTRIES = 32
"""Documents whose answer is kept: each holds a descriptor and up to 8 KiB."""

WATCHES = 256
"""Directories watched; when there are more, everything is forgotten."""

SECONDS = 2.0
"""How long an answer is believed before its file is read again: a store through a memory map shows no sooner."""

# Not opens: reading is no change. Writing, replacing, moving, and new names beside the document are.
_MASK = (
    watch.IN_MODIFY | watch.IN_ATTRIB | watch.IN_CLOSE_WRITE | watch.IN_MOVED_FROM | watch.IN_MOVED_TO
    | watch.IN_CREATE | watch.IN_DELETE | watch.IN_DELETE_SELF | watch.IN_MOVE_SELF | watch.IN_ONLYDIR
)  # fmt: skip
_EVENTS = 4096
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC

Key = tuple[str, str, int, int, int]
"""Scope, path, start_line, end_line, offset."""

_Status = tuple[int, ...]


class Recent:
    """`memory` is the descriptor of the memory root, which outlives this. Safe to use from any thread."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, tuple[Reply, int, _Status, float]] = OrderedDict()
        self._watches: set[int] = set()
        self._changes = 0
        self._dropped: list[int] = []
        libc = ctypes.CDLL(None, use_errno=True)
        self._add: Callable[[int, bytes, int], int] = libc.inotify_add_watch
        self._remove: Callable[[int, int], int] = libc.inotify_rm_watch
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        with self._lock:
            self._forget()
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1
        self.settle()

    def settle(self) -> None:
        """Close what was dropped. Call from a thread after each operation: the last close of a deleted file frees
        its blocks, and may wait for the disk.
        """
        with self._lock:
            self._look()
            dropped, self._dropped = self._dropped, []
        for fd in dropped:
            os.close(fd)

    def find(self, key: Key) -> Reply | None:
        """The answer, if it is certain that a get would give it now. Never waits."""
        with self._lock:
            if key not in self._entries:
                return None
            self._look()
            entry = self._entries.get(key)
            if entry is None:
                return None
            reply, fd, status, until = entry
            if time.monotonic() > until or _status(fd) != status:
                self._drop(key)
                return None
            return dict(reply)

    def get(self, key: Key, location: list[str], read: Callable[[], Reply]) -> Reply:
        """`read()`, whose answer is kept if nothing changed meanwhile. `location` leads to the scope."""
        fd = -1
        until = time.monotonic() + SECONDS
        try:
            with contextlib.suppress(OSError):
                fd, changes = self._watch([*location, *key[1].split("/")])
            before = _status(fd) if fd >= 0 else None
            reply = read()
            if before is not None:
                with self._lock:
                    self._look()
                    if self._changes == changes and _status(fd) == before:
                        self._keep(key, (dict(reply), fd, before, until))
                        fd = -1
            return reply
        finally:
            if fd >= 0:
                os.close(fd)

    def _watch(self, names: list[str]) -> tuple[int, int]:
        """Watch every directory on the way; a descriptor of the file, and the count of changes before it was made.

        Each directory is watched before the next name in it is looked up. Answers -1 where inotify proves nothing.
        """
        *directories, name = names
        with self._lock:
            self._look()
            changes = self._changes
        parent = os.dup(self._memory)
        try:
            for component in [*directories, None]:
                if not self._watched(parent):
                    return -1, changes
                if component is not None:
                    child = os.open(component, _DIRECTORY, dir_fd=parent)
                    os.close(parent)
                    parent = child
            return os.open(name, _FILE, dir_fd=parent), changes
        finally:
            os.close(parent)

    def _watched(self, directory: int) -> bool:
        if not watch.is_local(directory):
            return False
        with self._lock:
            if self._fd < 0:
                return False
            if len(self._watches) >= WATCHES:
                self._forget()
            number = self._add(self._fd, b"/proc/self/fd/%d" % directory, _MASK)
            if number >= 0:
                self._watches.add(number)
            return number >= 0

    def _look(self) -> None:
        """Any event at all forgets everything: what it meant need not be understood."""
        try:
            os.read(self._fd, _EVENTS)
        except OSError:  # nothing there, the usual case
            return
        with contextlib.suppress(OSError):
            while os.read(self._fd, _EVENTS):
                pass
        self._changes += 1
        while self._entries:
            self._drop(next(iter(self._entries)))

    def _keep(self, key: Key, entry: tuple[Reply, int, _Status, float]) -> None:
        if key in self._entries:
            self._drop(key)
        self._entries[key] = entry
        while len(self._entries) > ENTRIES:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: Key) -> None:
        self._dropped.append(self._entries.pop(key)[1])

    def _forget(self) -> None:
        """End every watch, and with them what they prove."""
        self._changes += 1
        while self._entries:
            self._drop(next(iter(self._entries)))
        for number in self._watches:
            self._remove(self._fd, number)
        self._watches.clear()


def _status(fd: int) -> _Status:
    status = os.fstat(fd)
    return (
        status.st_dev,
        status.st_ino,
        status.st_mode,
        status.st_nlink,
        status.st_uid,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )
