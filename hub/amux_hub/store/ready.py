"""A get that cannot wait: from what the kernel holds in memory, or not at all.

Handing a get to a thread and back costs several times what the get costs. This is for the loop itself: every name is
looked up with RESOLVE_CACHED (openat2(2), Linux 5.12) and the content read with RWF_NOWAIT (preadv2(2)), so each
call either succeeds at once or says that it would have to wait; then a thread serves. Nothing is kept between two
calls: what is answered was read from the file now, with the same checks of every component as in `tree`.

It must not be asked to judge: limits, identity and the switch were checked by the caller.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import read, tree
from amux_hub.store.reply import Reply

_OPENAT2 = 437
"""The number of the system call, the same on every architecture that we know but Alpha."""

_HOW = struct.Struct("=QQQ")
_NO_MAGICLINKS, _NO_SYMLINKS, _BENEATH, _CACHED = 0x02, 0x04, 0x08, 0x20
_RESOLVE = _NO_MAGICLINKS | _NO_SYMLINKS | _BENEATH | _CACHED
_DIRECTORY = _HOW.pack(os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE)
_NAME = _HOW.pack(os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _RESOLVE)
# O_NONBLOCK: nor does it wait for a lease to be broken, fcntl(2).
_FILE = _HOW.pack(os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0, _RESOLVE)

_CANNOT = frozenset({errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.EOPNOTSUPP})
"""The kernel, a seccomp filter or the file system knows no such call: not asked again."""


class Ready:
    """`memory` is the descriptor of the memory root, which outlives this. `get` is for one thread, the loop's."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._works = True
        self._lock = threading.Lock()
        self._left: list[int] = []
        # Without giving up the interpreter lock: taking it again is what could wait.
        self._call = ctypes.PyDLL(None, use_errno=True).syscall
        self._call.restype = ctypes.c_long
        self._call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

    def get(
        self, location: list[str], place: tree.Place, path: str, start_line: int, end_line: int, offset: int
    ) -> Reply | None:
        """The answer of `Scope.get`, or None where that would have to wait, has no document or raises.

        `path` was checked. `place` is the scope's directory: another one, or a changed one, is left to a thread, and
        so are documents that are larger than a write may make them.
        """
        if not self._works:
            return None
        opened: list[int] = []
        try:
            data = self._read("/".join([*location, path]).encode().split(b"/"), len(location), place, opened)
            return None if data is None else read.get(path, data, start_line, end_line, offset)
        except OSError as error:
            if error.errno in _CANNOT:
                self._works = False
            return None
        except AmuxError:
            return None
        finally:
            for fd in opened:
                os.close(fd)

    def settle(self) -> None:
        """Close what `get` left. Call from a thread after each operation."""
        with self._lock:
            left, self._left = self._left, []
        for fd in left:
            os.close(fd)

    def _open(self, name: bytes, parent: int, how: bytes, opened: list[int]) -> int:
        fd: int = self._call(_OPENAT2, parent, name, how, _HOW.size)
        if fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        opened.append(fd)
        return fd

    def _read(self, names: list[bytes], scope: int, place: tree.Place, opened: list[int]) -> bytes | None:
        parent = self._memory
        for depth, name in enumerate(names[:-1], 1):
            parent = self._open(name, parent, _DIRECTORY, opened)
            status = os.fstat(parent)
            if status.st_uid != os.geteuid() or (depth == scope and tree.place(status) != place):
                return None
        # Looked at before it is opened: opening a device can do something.
        before = os.fstat(self._open(names[-1], parent, _NAME, opened))
        if tree.file_fault(before) is not None or before.st_size > limits.DOCUMENT_BYTES:
            return None
        fd = self._open(names[-1], parent, _FILE, opened)
        buffer = bytearray(before.st_size + 1)
        count = os.preadv(fd, [buffer], 0, os.RWF_NOWAIT)
        after = os.fstat(fd)
        if after.st_nlink == 0:
            # The last close of a deleted file frees its blocks, and may wait for the disk.
            with self._lock:
                self._left += opened
            opened.clear()
            return None
        if count != before.st_size or tree.signature(before) != tree.signature(after):
            return None
        return bytes(memoryview(buffer)[:count])
