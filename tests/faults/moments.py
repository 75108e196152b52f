"""Moments of a write, as a directory shows them to somebody who watches it with inotify(7)."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from pathlib import Path

from tests.harness import WAIT_SECONDS

IN_MODIFY, IN_MOVED_TO, IN_CREATE, IN_DELETE = 0x2, 0x80, 0x100, 0x200
_EVENT = struct.Struct("iIII")


class Watched:
    """One directory; `wait` returns as soon as the kernel says that something of a kind happened in it."""

    def __init__(self, directory: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_DELETE
        if libc.inotify_add_watch(self._fd, os.fsencode(directory), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch")

    def wait(self, kind: int, times: int) -> None:
        """Until the `times`-th event of this kind; TimeoutError if it does not come."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while times > 0:
            if not poll.poll(WAIT_SECONDS * 1000):
                raise TimeoutError(f"no event {kind:#x}")
            data = os.read(self._fd, 65536)
            position = 0
            while position < len(data):
                _, mask, _, length = _EVENT.unpack_from(data, position)
                times -= bool(mask & kind)
                position += _EVENT.size + length

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
