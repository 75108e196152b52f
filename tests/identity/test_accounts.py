"""Accounts by UID and by name: found, none, and the name service that failed (threat S8)."""

from __future__ import annotations

import errno
import os
import pwd
from collections.abc import Callable
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.accounts import Account


def test_the_accounts_of_this_host() -> None:
    for entry in pwd.getpwall():
        assert accounts.account_of(entry.pw_uid) == Account(entry.pw_uid, pwd.getpwuid(entry.pw_uid).pw_name)


@pytest.mark.parametrize("uid", [3_999_999_999, 2**31, 2**32 - 2])
def test_c47_a_uid_without_an_account_is_none(uid: int) -> None:
    assert accounts.account_of(uid) is None


def test_accounts_by_name() -> None:
    for entry in pwd.getpwall():
        assert accounts.account_named(entry.pw_name) == Account(pwd.getpwnam(entry.pw_name).pw_uid, entry.pw_name)
    for name in ("amux-no-such", "", "root\0x", "r\u00f6\ud800t"):
        assert accounts.account_named(name) is None


class _Libc:
    """Answers what getpwuid_r and getpwnam_r would where the name service is in trouble."""

    def __init__(self, answer: Callable[[int], int]) -> None:
        self._answer = answer
        self.sizes: list[int] = []

    def getpwuid_r(self, _uid: int, _entry: object, _buffer: object, size: int, _found: object) -> int:
        self.sizes.append(size)
        return self._answer(len(self.sizes))

    getpwnam_r = getpwuid_r


@pytest.mark.parametrize("error", [errno.EACCES, errno.EIO, errno.ENOENT, errno.EMFILE, errno.ENOMEM])
def test_s8_a_name_service_that_failed_is_not_no_account(error: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_libc", lambda: _Libc(lambda _: error))
    with pytest.raises(AmuxError, match=os.strerror(error)) as caught:
        accounts.account_of(1000)
    assert caught.value.code == "identity_unavailable"
    with pytest.raises(AmuxError, match="account ann") as caught:
        accounts.account_named("ann")
    assert caught.value.code == "identity_unavailable"


def test_a_long_entry_gets_a_longer_buffer_and_an_endless_one_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = _Libc(lambda number: errno.ERANGE if number < 4 else 0)
    monkeypatch.setattr(accounts, "_libc", lambda: libc)
    assert accounts.account_of(1000) is None
    assert libc.sizes == [4096, 16384, 65536, 262144]
    monkeypatch.setattr(accounts, "_libc", lambda: _Libc(lambda _: errno.ERANGE))
    with pytest.raises(AmuxError):
        accounts.account_of(1000)


def test_an_interrupted_question_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    libc = _Libc(lambda number: errno.EINTR if number < 3 else 0)
    monkeypatch.setattr(accounts, "_libc", lambda: libc)
    assert accounts.account_of(1000) is None
    assert len(libc.sizes) == 3


def test_uid_min_comes_from_login_defs(tmp_path: Path) -> None:
    file = tmp_path / "login.defs"
    assert accounts.uid_min(str(file)) == 1000
    file.write_text("# UID_MIN 1\nUID_MAX 60000\nUID_MIN\t\t 500 \nSYS_UID_MIN 100\n")
    assert accounts.uid_min(str(file)) == 500
    file.write_text("UID_MIN many\n")
    assert accounts.uid_min(str(file)) == 1000
    with pytest.raises(AmuxError) as caught:
        accounts.uid_min(str(tmp_path))
    assert caught.value.code == "identity_unavailable"


def test_system_accounts_are_those_below_uid_min_and_the_lent_ones() -> None:
    assert accounts.is_system(0, 1000) and accounts.is_system(999, 1000)
    assert accounts.is_system(61184, 1000) and accounts.is_system(65519, 1000)
    assert not accounts.is_system(1000, 1000)
    assert not accounts.is_system(60000, 1000)
    assert not accounts.is_system(4_000_000_000, 1000)
