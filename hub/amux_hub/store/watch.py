"""Change notices from the kernel: the proof that nothing changed since the last look (inotify(7)).

Events are queued before the writer's system call returns. So once the queue is drained without an overflow,
what we hold of a watched directory is as fresh as a stat of every file would make it, but for stores through
a memory map, which give no event before the map's file is closed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Protocol

IN_MODIFY, IN_ATTRIB, IN_CLOSE_WRITE, IN_CLOSE_NOWRITE, IN_OPEN = 0x2, 0x4, 0x8, 0x10, 0x20
IN_MOVED_FROM, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x40, 0x80, 0x100, 0x200
IN_DELETE_SELF, IN_MOVE_SELF = 0x400, 0x800
IN_Q_OVERFLOW, IN_IGNORED = 0x4000, 0x8000
IN_ONLYDIR, IN_ISDIR = 0x01000000, 0x40000000

_MASK = (
    IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE | IN_OPEN | IN_MOVED_FROM | IN_MOVED_TO
    | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR
)  # fmt: skip
_QUIET = IN_OPEN | IN_CLOSE_NOWRITE
_HEADER = struct.Struct("iIII")
_BUFFER = 256 * 1024
_PENDING = 16384
"""Events kept for one scope that nobody looks at; more count as an overflow."""

# statfs(2): file systems whose every change passes through this kernel.
_LOCAL = frozenset({
    0xEF53,  # ext2, ext3, ext4
    0x58465342,  # xfs
    0x9123683E,  # btrfs
    0x01021994,  # tmpfs
    0xF2F52010,  # f2fs
    0x2FC12FC1,  # zfs
    0xCA451A4E,  # bcachefs
})  # fmt: skip

Event = tuple[int, int, bytes]
"""Watch descriptor, mask, name within the directory (empty for the directory itself)."""


class Subscriber(Protocol):
    """Who holds watches: events are appended to `pending` from whichever thread drains the queue."""

    pending: deque[Event]


class _Statfs(ctypes.Structure):
    # Only f_type is read; the rest is room for every architecture's structure.
    _fields_ = (("f_type", ctypes.c_long), ("rest", ctypes.c_char * 512))


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def is_local(fd: int) -> bool:
    """Whether inotify sees every change of the file system that `fd` is on."""
    buffer = _Statfs()
    if _libc().fstatfs(fd, ctypes.byref(buffer)) != 0:
        return False
    return (buffer.f_type & 0xFFFFFFFF) in _LOCAL


class Watcher:
    """One inotify instance for all scopes, shared by all threads.

    Made once a Hub. Where the kernel refuses one (limits of inotify(7)), `available` is False and every
    scope falls back to a stat of each file.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: dict[int, Subscriber] = {}
        libc = _libc()
        self._add: Callable[[int, bytes, int], int] = libc.inotify_add_watch
        self._remove: Callable[[int, int], int] = libc.inotify_rm_watch
        self._fd: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.overflows = 0

    @property
    def available(self) -> bool:
        return self._fd >= 0

    def close(self) -> None:
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def add(self, directory: int, subscriber: Subscriber) -> int | None:
        """Watch the directory that `directory` is a descriptor of; None if the kernel has no more watches."""
        with self._lock:
            wd = self._add(self._fd, b"/proc/self/fd/%d" % directory, _MASK)
            if wd < 0:
                if ctypes.get_errno() not in (errno.ENOSPC, errno.ENOMEM, errno.ENOENT, errno.EACCES):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
                return None
            self._subscribers[wd] = subscriber
            return wd

    def remove(self, wds: list[int], subscriber: Subscriber) -> None:
        """End those of the watches that are still `subscriber`'s: a directory moved elsewhere keeps its number."""
        with self._lock:
            for wd in wds:
                if self._subscribers.get(wd) is subscriber:
                    del self._subscribers[wd]
                    self._remove(self._fd, wd)

    def drain(self) -> None:
        """Hand every queued event to its subscriber. When this returns, the queue has been seen empty."""
        with self._lock:
            while True:
                try:
                    data = os.read(self._fd, _BUFFER)
                except BlockingIOError:
                    return
                self._dispatch(data)

    def _dispatch(self, data: bytes) -> None:
        position = 0
        subscribers = self._subscribers
        while position < len(data):
            wd, mask, _cookie, length = _HEADER.unpack_from(data, position)
            position += 16
            name = data[position : position + length].rstrip(b"\0") if length else b""
            position += length
            if mask & IN_Q_OVERFLOW:
                self.overflows += 1
                for subscriber in set(subscribers.values()):
                    subscriber.pending.append((-1, mask, b""))
                continue
            if (mask & IN_ISDIR and mask & _QUIET) or name.startswith(b"."):
                continue  # directories being listed, our own temporary files
            if (target := subscribers.get(wd)) is not None:
                if len(target.pending) >= _PENDING:
                    target.pending.clear()
                    wd, mask, name = -1, IN_Q_OVERFLOW, b""
                target.pending.append((wd, mask, name))
