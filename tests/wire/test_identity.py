"""The owner's identity, principals and scopes."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.errors import AmuxError
from amux_hub import identity
from amux_hub.identity import OwnerIdentity, Peer


def _refused(uid: int, owner: int) -> AmuxError:
    with pytest.raises(AmuxError) as caught:
        asyncio.run(OwnerIdentity(isolation=False, uid=owner).identify(Peer(1, uid, 1)))
    assert caught.value.code == "identity_refused"
    return caught.value


def test_the_owner_is_served_and_administers_the_private_hub() -> None:
    caller = asyncio.run(OwnerIdentity(isolation=False).identify(Peer(1, os.getuid(), os.getgid())))
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = str(os.getuid())
    assert (caller.account, caller.principal, caller.scope) == (name, name, "global")
    assert caller.administrator


@pytest.mark.parametrize("uid", [0, 1, 1001, 2**31, 4_000_000_000])
def test_s8_every_uid_but_the_owners_is_refused(uid: int) -> None:
    error = _refused(uid, 1000)
    assert error.details == {"uid": uid, "owner": 1000}


@pytest.mark.parametrize("owner", [0, 65534, 0xFFFFFFFF])
def test_s8_the_uids_that_are_nobody_are_refused_by_name(owner: int) -> None:
    assert "overflow" in _refused(65534, owner).message
    assert "-1" in _refused(0xFFFFFFFF, owner).message


@pytest.mark.parametrize("uid", [1_234_567_890, 4_000_000_000])
def test_c47_an_owner_without_a_passwd_entry_is_the_number(uid: int) -> None:
    caller = asyncio.run(OwnerIdentity(isolation=True, uid=uid).identify(Peer(1, uid, uid)))
    assert (caller.account, caller.scope) == (str(uid), f"principal:{uid}")


def test_c47_credentials_are_a_signed_pid_and_unsigned_ids() -> None:
    class Accepted(socket.socket):
        def getsockopt(self, *_: object) -> bytes:  # type: ignore[override]
            return struct.pack("iII", 7, 4_000_000_000, 4_000_000_001)

    with Accepted(socket.AF_UNIX) as accepted:
        assert identity.peer_of(accepted) == Peer(7, 4_000_000_000, 4_000_000_001)


def test_c35_names_are_not_folded() -> None:
    scopes = {identity.scope_of(name, isolation=True) for name in ("Alice", "alice", "ALICE")}
    assert len(scopes) == 3


@given(st.text(max_size=300))
def test_a_principal_never_breaks_the_grammar_of_scopes(name: str) -> None:
    bad = not name or any(c in ":/\u2028\u2029" or ord(c) < 32 or 127 <= ord(c) < 160 for c in name)
    bad = bad or len(name.encode("utf-8", "replace")) > 255
    if bad:
        with pytest.raises(AmuxError) as caught:
            identity.scope_of(name, isolation=True)
        assert caught.value.code == "identity_refused"
    else:
        assert identity.scope_of(name, isolation=True) == f"principal:{name}"
    assert identity.scope_of("anybody", isolation=False) == "global"
