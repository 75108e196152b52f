"""The name of a UID, from the host's name service, with "there is none" and "it failed" kept apart.

Promises: a name that is returned belongs to that UID in both directions. PAM judges names: where UID 2000 is `alice`
of a directory and the name `alice` leads to the local UID 1000, PAM would judge the wrong account.

getpwuid_r(3) and getpwnam_r(3) through ctypes: Python's pwd module hides failures. A failing service that is not the
last one in nsswitch.conf(5) reads as "none": libc does not tell.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable

_BUFFER_BYTES = 4096
_BUFFER_MAXIMUM = 1 << 20


class LookupFailedError(Exception):
    """The name service gave no answer."""


class AmbiguousError(Exception):
    """The name of the UID leads to another account."""


class _Passwd(ctypes.Structure):
    """struct passwd of getpwnam(3)."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("gecos", ctypes.c_char_p),
        ("home", ctypes.c_char_p),
        ("shell", ctypes.c_char_p),
    )


_Call = Callable[..., int]
_RESULT = (ctypes.POINTER(_Passwd), ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.POINTER(_Passwd)))
_libc = ctypes.CDLL(None)
_libc.getpwuid_r.argtypes = [ctypes.c_uint32, *_RESULT]
_libc.getpwnam_r.argtypes = [ctypes.c_char_p, *_RESULT]


def name_of(uid: int) -> bytes | None:
    """The name as the name service has it, bytes unchanged, or None. Raises `LookupFailedError`, `AmbiguousError`."""
    found = _look_up(_libc.getpwuid_r, uid)
    if found is None or not found[0]:
        return None
    back = _look_up(_libc.getpwnam_r, found[0])
    if found[1] != uid or back is None or back[1] != uid:
        raise AmbiguousError(f"the name of UID {uid} leads to {'nobody' if back is None else f'UID {back[1]}'}")
    return found[0]


def _look_up(call: _Call, key: int | bytes) -> tuple[bytes, int] | None:
    entry = _Passwd()
    found = ctypes.POINTER(_Passwd)()
    size = _BUFFER_BYTES
    while True:
        buffer = ctypes.create_string_buffer(size)
        status = call(key, ctypes.byref(entry), buffer, size, ctypes.byref(found))
        if status == errno.EINTR:
            continue
        if status != errno.ERANGE or size >= _BUFFER_MAXIMUM:
            break
        size *= 4
    if status != 0:
        raise LookupFailedError(f"the name service failed: {os.strerror(status)}")
    return (entry.name or b"", entry.uid) if found else None
