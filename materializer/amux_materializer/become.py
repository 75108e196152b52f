"""Becoming another account for good, as sshd does: groups, group, user, proof, credentials(7).

Promises: after `become` this process is that UID in every sense, holds no capability but the unused bounding set, gains
none by executing anything, and has tried to get root back. Where any of it fails it raises, and the caller of
`become` must end: there is no way on.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
from collections.abc import Callable
from typing import NamedTuple

_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _CLEAR_ALL = 4, 38, 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


class BecomeError(Exception):
    """This process must end."""


class Identity(NamedTuple):
    """Who to be."""

    uid: int
    gid: int
    groups: list[int]


def account(uid: int) -> Identity | None:
    """What the host's name service says, None if it knows no such account, or its name leads to another one: groups
    are kept by name. May block."""
    try:
        entry = pwd.getpwuid(uid)
        back = pwd.getpwnam(entry.pw_name)
    except KeyError:
        return None
    if entry.pw_uid != uid or back.pw_uid != uid:
        return None
    return Identity(uid, entry.pw_gid, os.getgrouplist(entry.pw_name, entry.pw_gid))


def become(who: Identity) -> None:
    """Raises `BecomeError`. `who` is never root."""
    try:
        _change(who)
    except OSError as error:  # whatever was done by then, no other handler takes this process further
        raise BecomeError(str(error)) from error


def _change(who: Identity) -> None:
    if who.uid in (0, 0xFFFFFFFF) or os.geteuid() != 0:
        raise BecomeError(f"UID {os.geteuid()} does not become {who.uid}")
    control(_PR_SET_NO_NEW_PRIVS, 1)
    control(_PR_CAP_AMBIENT, _CLEAR_ALL)
    os.setgroups(who.groups)
    os.setresgid(who.gid, who.gid, who.gid)
    os.setresuid(who.uid, who.uid, who.uid)
    _no_capabilities()
    undumpable()  # a change of UID sets what sysctl fs.suid_dumpable says, proc_sys_fs(5)
    _prove(who)


def undumpable() -> None:
    """No core, no ptrace(2), and no reading of this process's /proc by others of its UID, prctl(2)."""
    control(_PR_SET_DUMPABLE, 0)


def control(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


def _no_capabilities() -> None:
    """Effective, permitted and inheritable ones, capset(2): the kernel took the first two, this is for the third."""
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    if _libc.capset(header, bytes(24)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def _prove(who: Identity) -> None:
    if os.getresuid() != (who.uid,) * 3 or os.getresgid() != (who.gid,) * 3:
        raise BecomeError("the UID or GID is not the caller's")
    if set(os.getgroups()) != set(who.groups):
        raise BecomeError("the groups are not the caller's")
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        status = dict(line.split(":", 1) for line in file if ":" in line)
    for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        if int(status[kind], 16) != 0:
            raise BecomeError(f"{kind} is not empty")
    if status["NoNewPrivs"].strip() != "1":
        raise BecomeError("new privileges can be gained")
    for attempt in _ways_back(who):
        try:
            attempt()
        except PermissionError:
            continue
        raise BecomeError("root could be regained")


def _ways_back(who: Identity) -> list[Callable[[], None]]:
    ways: list[Callable[[], None]] = [
        lambda: os.setresuid(0, 0, 0),
        lambda: os.setresuid(-1, 0, -1),
        lambda: os.setgroups([0]),
    ]
    if who.gid != 0:  # an account may have the group of root as its own
        ways += [lambda: os.setresgid(0, 0, 0), lambda: os.setresgid(-1, 0, -1)]
    return ways
