"""Who is calling: from the kernel's word about a peer to a principal and a scope. Nothing else decides this.

Promises: the only input is `SO_PEERCRED` of a connection that we accepted (unix(7)); no field of a request is
looked at. A missing or refused identity is an error and never the scope `global`. Nothing here blocks the
loop: the name service is asked in a thread.

A further way to know people (accounts of a host, aliases, services) is another `Identity`.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import socket
import struct
from dataclasses import dataclass
from typing import Protocol

from amux.errors import AmuxError

# pid_t is signed, uid_t and gid_t are not: a UID above 2^31 is a UID.
_CREDENTIALS = struct.Struct("iII")
OVERFLOW_UID = 65534
"""What the kernel says of a user that has no number here, user_namespaces(7): nobody in particular."""
INVALID_UID = 0xFFFFFFFF

_UNFIT = re.compile(r"[:/\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Peer:
    """What the kernel recorded at connect(2). `pid` is a decoration for logs, never a right."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Caller:
    """Somebody whom the Hub serves, and the one scope that is theirs."""

    uid: int
    account: str
    principal: str
    scope: str
    administrator: bool

    @property
    def binding(self) -> str:
        """What `AMUX_MEMORY_BINDING` must say for this caller: the scope."""
        return self.scope


class Identity(Protocol):
    """Tells who a peer is, each time it is asked; what may be remembered is its own business."""

    async def identify(self, peer: Peer) -> Caller:
        """Raises `identity_refused`, or `identity_unavailable` when it could not be found out."""
        ...

    def known(self, peer: Peer) -> Caller | None:
        """What `identify` would answer without asking anybody; None if it would have to ask, or to refuse."""
        ...


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connection that we accepted; of one that somebody else made, this names the listener."""
    return Peer(*_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)))


def check_principal(principal: str) -> str:
    """`principal`, if it can be one: it becomes part of scope names and of logs."""
    if not principal or _UNFIT.search(principal) or len(principal.encode("utf-8", "replace")) > 255:
        raise AmuxError(
            "identity_refused",
            f"{principal[:80]!r} cannot be a principal: it must be 1 to 255 bytes without : / or control "
            "characters; ask the administrator",
        )
    return principal


def scope_of(principal: str, *, isolation: bool) -> str:
    """`global`, or with isolation `principal:<id>`."""
    return f"principal:{check_principal(principal)}" if isolation else "global"


def refuse_nobody(peer: Peer) -> None:
    """Refuse, each by name, the two UIDs that stand for nobody in particular."""
    if peer.uid == OVERFLOW_UID:
        raise AmuxError(
            "identity_refused",
            f"UID {OVERFLOW_UID} is the overflow UID, which stands for any user without a number here: it is "
            "never served; connect from outside the user namespace",
            uid=peer.uid,
        )
    if peer.uid == INVALID_UID:
        raise AmuxError("identity_refused", "UID -1 is no user: it is never served", uid=-1)


class OwnerIdentity:
    """A private Hub: the user who runs it, and nobody else, root included."""

    def __init__(self, *, isolation: bool, uid: int | None = None) -> None:
        self._uid = os.getuid() if uid is None else uid
        self._isolation = isolation
        self._owner: Caller | None = None

    async def identify(self, peer: Peer) -> Caller:
        refuse_nobody(peer)
        if peer.uid != self._uid:
            raise AmuxError(
                "identity_refused",
                f"this is the private Hub of UID {self._uid}, and UID {peer.uid} is somebody else: start a "
                "Hub of your own with `amux-hub`",
                uid=peer.uid,
                owner=self._uid,
            )
        if self._owner is None:
            account = await asyncio.to_thread(_account_name, self._uid)
            principal = check_principal(account)
            scope = scope_of(principal, isolation=self._isolation)
            self._owner = Caller(self._uid, account, principal, scope, administrator=True)
        return self._owner

    def known(self, peer: Peer) -> Caller | None:
        return self._owner if peer.uid == self._uid else None

    def knows(self, uid: int) -> bool:
        """Whether a connection of this UID may stay: nobody but the owner's."""
        return uid == self._uid


def _account_name(uid: int) -> str:
    """The owner's name, or the number where there is none: whoever runs the Hub owns it, named or not."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
