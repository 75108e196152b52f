"""Accounts of the host, by UID or name: what the name service says, with "there is none" and "it failed" kept apart.

Promises: an answer is one of three: an account, none, or `identity_unavailable`. Python's own pwd module cannot tell
the last two apart, hence getpwuid_r(3) and getpwnam_r(3) through ctypes. Everything here may block: call it in a
thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from amux.errors import AmuxError

LOGIN_DEFS = "/etc/login.defs"
DEFAULT_UID_MIN = 1000
"""login.defs(5), where the file or its UID_MIN is missing."""

DYNAMIC = range(61184, 65520)
"""UIDs that systemd lends to services for as long as they run (DynamicUser=, systemd.exec(5)): nobody's for long."""

_BUFFER_BYTES = 4096
_BUFFER_MAXIMUM = 1 << 20
_UID_MIN = re.compile(r"UID_MIN\s+(\d+)")


class Account(NamedTuple):
    """One account, as the name service has it now."""

    uid: int
    name: str


class _Passwd(ctypes.Structure):
    """struct passwd of passwd(5), the same in glibc and musl."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("password", ctypes.c_char_p),
        ("uid", ctypes.c_uint32),
        ("gid", ctypes.c_uint32),
        ("gecos", ctypes.c_char_p),
        ("home", ctypes.c_char_p),
        ("shell", ctypes.c_char_p),
    )


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.getpwuid_r.argtypes = [
        ctypes.c_uint32,
        ctypes.POINTER(_Passwd),
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.POINTER(_Passwd)),
    ]
    libc.getpwuid_r.restype = ctypes.c_int
    libc.getpwnam_r.argtypes = [ctypes.c_char_p, *libc.getpwuid_r.argtypes[1:]]
    libc.getpwnam_r.restype = ctypes.c_int
    return libc


def account_of(uid: int) -> Account | None:
    """The account of `uid`, None if there is none.

    Raises `identity_unavailable` if the name service failed, `identity_refused` for a name that is no UTF-8. A failing
    service that is not the last one in nsswitch.conf(5) reads as "none": libc does not tell.
    """
    found = _ask(_libc().getpwuid_r, uid, f"UID {uid}")
    return None if found is None else Account(uid, found.name)  # the kernel's UID, whatever a directory answers


def account_named(name: str) -> Account | None:
    """The account that the name service has under `name`, None if there is none; a directory may spell it otherwise.

    Raises as account_of() does.
    """
    if "\0" in name:
        return None  # C would look up what stands before it
    return _ask(_libc().getpwnam_r, name.encode("utf-8", "replace"), f"account {name}")


def _ask(function: Callable[..., int], key: int | bytes, what: str) -> Account | None:
    entry = _Passwd()
    found = ctypes.POINTER(_Passwd)()
    size = _BUFFER_BYTES
    while True:
        buffer = ctypes.create_string_buffer(size)
        status = function(key, ctypes.byref(entry), buffer, size, ctypes.byref(found))
        if status == errno.EINTR:
            continue
        if status != errno.ERANGE or size >= _BUFFER_MAXIMUM:
            break
        size *= 4
    shown, detail = (key.decode(), "account") if isinstance(key, bytes) else (key, "uid")
    if status != 0:
        raise AmuxError(
            "identity_unavailable",
            f"the name service of this host failed for {what} ({os.strerror(status)}): try again; "
            f"`getent passwd {shown}` shows it",
            **{detail: shown},
        )
    if not found or not entry.name:
        return None
    try:
        return Account(int(entry.uid), entry.name.decode())
    except UnicodeDecodeError:
        raise AmuxError(
            "identity_refused", f"the account name of {what} is no UTF-8: rename the account", **{detail: shown}
        ) from None


def uid_min(path: str = LOGIN_DEFS) -> int:
    """The smallest UID of a person, login.defs(5). Raises `identity_unavailable` if the file cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.readlines()
    except FileNotFoundError:
        return DEFAULT_UID_MIN
    except OSError as error:
        raise AmuxError("identity_unavailable", f"{path} cannot be read: {error.strerror}") from error
    for line in lines:
        if found := _UID_MIN.match(line.strip()):
            return int(found[1])
    return DEFAULT_UID_MIN


def is_system(uid: int, minimum: int) -> bool:
    """Whether `uid` belongs to the system and its services, not to a person."""
    return uid < minimum or uid in DYNAMIC
