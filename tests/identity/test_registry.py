"""The registry: pinned accounts, aliases, what an administrator decides, and damage (design: principals)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.accounts import Account
from amux_hub.registry import Registry
from amux_hub.registry.record import RECORD_BYTES, file_name

ANN, BOB = Account(1001, "ann"), Account(1002, "bob")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


@pytest.fixture
def opened(home: Path) -> Iterator[Callable[[], Registry]]:
    made: list[Registry] = []

    def fresh() -> Registry:
        while made:
            made.pop().close()
        made.append(Registry(str(home)))
        return made[0]

    yield fresh
    for one in made:
        one.close()


def refused(code: str, registry: Registry, account: Account, alias: str | None = None) -> str:
    with pytest.raises(AmuxError) as caught:
        registry.principal_of(account, alias)
    assert caught.value.code == code
    return caught.value.message


def file_of(home: Path, principal: str) -> Path:
    return home / "registry" / file_name(principal)


def test_an_account_enrols_as_itself_once(home: Path, opened: Callable[[], Registry]) -> None:
    registry = opened()
    assert registry.principal_of(ANN, None) == ("ann", True)
    assert registry.principal_of(ANN, None) == ("ann", False)
    path = file_of(home, "ann")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert json.loads(path.read_text())["accounts"] == [{"name": "ann", "uid": 1001, "by": "self"}]
    assert opened().principal_of(ANN, None) == ("ann", False)


def test_c35_names_are_not_folded(opened: Callable[[], Registry]) -> None:
    registry = opened()
    assert registry.principal_of(Account(1, "Alice"), None)[0] == "Alice"
    assert registry.principal_of(Account(2, "alice"), None)[0] == "alice"
    assert [record.principal for record in registry.records()] == ["Alice", "alice"]


def test_a_recycled_uid_and_a_moved_name_are_refused_by_name(opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    assert "UID 1001 was account ann of principal ann and is eve now" in refused(
        "identity_refused", registry, Account(1001, "eve")
    )
    assert "account ann of principal ann had UID 1001 and has 1009 now" in refused(
        "identity_refused", registry, Account(1009, "ann")
    )
    assert refused("identity_refused", opened(), Account(1001, "eve"))


def test_an_alias_shares_its_principal_and_moves_when_the_configuration_does(opened: Callable[[], Registry]) -> None:
    registry = opened()
    admin = Account(1003, "ann-admin")
    assert registry.principal_of(admin, None) == ("ann-admin", True)
    assert registry.principal_of(admin, "ann") == ("ann", True)
    assert registry.principal_of(ANN, "ann") == ("ann", True)
    registry = opened()
    assert registry.principal_of(admin, "ann") == ("ann", False)
    assert registry.principal_of(admin, None) == ("ann-admin", True)
    kept = registry.get("ann-admin")
    assert kept is not None and [pin.name for pin in kept.accounts] == ["ann-admin"] and not kept.former


def test_a_principal_is_not_taken_over_by_an_account_of_its_name(opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(BOB, "ann")
    assert "principal ann is bob (UID 1002), not account ann" in refused("identity_refused", registry, ANN)
    registry.principal_of(BOB, None)
    assert refused("identity_refused", registry, ANN)


def test_rebind_follows_a_rename_and_a_new_uid(opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    registry.rebind("ann", 1001, Account(1001, "anna"))
    assert registry.principal_of(Account(1001, "anna"), None) == ("ann", False)
    registry.rebind("ann", 1001, Account(2001, "anna"))
    registry = opened()
    assert registry.principal_of(Account(2001, "anna"), None) == ("ann", False)
    assert registry.principal_of(Account(1001, "eve"), None) == ("eve", True)
    assert refused("identity_refused", registry, Account(1005, "ann"))


def test_who_was_replaced_does_not_come_back_by_itself(opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    heir = Account(1009, "heir")
    registry.rebind("ann", 1001, heir)
    for _ in range(2):
        assert registry.principal_of(heir, None) == ("ann", False)
        assert "rebind" in refused("identity_refused", registry, ANN)
        registry = opened()
    registry.rebind("ann", 1009, ANN)
    assert registry.principal_of(ANN, None) == ("ann", False)
    assert registry.principal_of(heir, None) == ("heir", True)
    record = registry.get("ann")
    assert record is not None and [(pin.name, pin.by) for pin in record.former] == [("heir", "replaced")]


def test_one_whom_an_alias_led_away_comes_back(opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    registry.rebind("ann", 1001, Account(2001, "ann"))
    assert registry.principal_of(Account(2001, "ann"), "team") == ("team", True)
    assert registry.principal_of(Account(2001, "ann"), None) == ("ann", True)
    assert "had UID 2001" in refused("identity_refused", registry, ANN)


def test_rebind_refuses_what_it_cannot_mean(opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    registry.principal_of(BOB, None)
    for code, principal, uid, account in (
        ("not_found", "carl", 1001, ANN),
        ("not_found", "ann", 1002, ANN),
        ("conflict", "ann", 1001, BOB),
        ("conflict", "ann", 1001, Account(1002, "new")),
    ):
        with pytest.raises(AmuxError) as caught:
            registry.rebind(principal, uid, account)
        assert caught.value.code == code
    assert registry.principal_of(ANN, None) == ("ann", False)


def test_a_retired_principal_is_nobody_until_it_is_purged(home: Path, opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    with pytest.raises(AmuxError, match="not retired"):
        registry.remove("ann")
    assert registry.retire("ann").retired
    assert registry.retire("ann") == registry.get("ann")
    assert "retired" in refused("identity_refused", registry, ANN)
    assert "retired" in refused("identity_refused", registry, BOB, "ann")
    registry = opened()
    assert "retired" in refused("identity_refused", registry, ANN)
    assert registry.principal_of(Account(1001, "eve"), None) == ("eve", True)
    registry.remove("ann")
    assert not file_of(home, "ann").exists()
    assert registry.principal_of(Account(1007, "ann"), None) == ("ann", True)


DAMAGE = {
    "empty": b"",
    "no JSON": b"{",
    "NUL": b"\0" * 40,
    "a list": b"[]",
    "a field missing": b'{"principal": "ann"}',
    "a UID that is a text": b'{"principal":"ann","first_seen":"","accounts":[{"name":"ann","uid":"1001","by":"self"}],'
    b'"former":[],"retired":""}',
    "a UID that is true": b'{"principal":"ann","first_seen":"","accounts":[{"name":"ann","uid":true,"by":"self"}],'
    b'"former":[],"retired":""}',
    "deep": b"[" * 5000,
    "large": b" " * (RECORD_BYTES + 1),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_an_error_and_enrols_nobody_new(damage: str, home: Path, opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    registry.principal_of(BOB, None)
    file_of(home, "ann").write_bytes(DAMAGE[damage])
    registry = opened()
    assert list(registry.damaged) == [file_name("ann")]
    assert registry.principal_of(BOB, None) == ("bob", False)
    assert "damaged" in refused("identity_unavailable", registry, ANN)
    assert "damaged" in refused("identity_unavailable", registry, Account(1001, "eve"))
    assert file_of(home, "ann").read_bytes() == DAMAGE[damage]


def test_d7_a_record_under_another_name_counts_as_damaged(home: Path, opened: Callable[[], Registry]) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    registry.principal_of(BOB, None)
    file_of(home, "bob").write_bytes(file_of(home, "ann").read_bytes())
    assert "moved or copied" in refused("identity_unavailable", registry, BOB)
    registry = opened()
    assert "moved or copied" in registry.damaged[file_name("bob")]
    assert registry.principal_of(ANN, None) == ("ann", False)
    assert refused("identity_unavailable", registry, BOB)


def test_two_records_with_one_account_are_in_doubt(home: Path, opened: Callable[[], Registry]) -> None:
    opened().principal_of(ANN, None)
    record = json.loads(file_of(home, "ann").read_text())
    record["principal"] = "eve"
    file_of(home, "eve").write_text(json.dumps(record))
    file_of(home, "eve").chmod(0o600)
    registry = opened()
    assert len(registry.damaged) == 1
    assert "ann" in next(iter(registry.damaged.values()))


@pytest.mark.parametrize("change", ["removed", "changed", "link"])
def test_a_change_behind_the_hub_s_back_is_not_believed(
    change: str, home: Path, opened: Callable[[], Registry]
) -> None:
    registry = opened()
    registry.principal_of(ANN, None)
    path = file_of(home, "ann")
    text = path.read_text()
    if change == "removed":
        path.unlink()
    elif change == "changed":
        path.write_text(text.replace("1001", "1002"))
    else:
        path.rename(home / "elsewhere")
        path.symlink_to(home / "elsewhere")
    refused("unsafe_file" if change == "link" else "identity_unavailable", registry, ANN)


def test_a_record_that_appeared_is_not_overwritten(home: Path, opened: Callable[[], Registry]) -> None:
    registry = opened()
    file_of(home, "ann").write_text("{}")
    refused("identity_unavailable", registry, ANN)
    assert file_of(home, "ann").read_text() == "{}"


def test_what_a_crash_left_is_swept(home: Path, opened: Callable[[], Registry]) -> None:
    opened()
    left = home / "registry" / f".amux-tmp-{'0' * 32}"
    left.write_text("half")
    assert not opened().damaged
    assert not left.exists()


def test_an_enrolment_that_the_disk_refuses_is_none(
    home: Path, opened: Callable[[], Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = opened()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _no_space)
        with pytest.raises(AmuxError, match="disk is full") as caught:
            registry.principal_of(ANN, None)
        assert caught.value.code == "storage_full"
    assert registry.get("ann") is None
    assert registry.principal_of(ANN, None) == ("ann", True)


def _no_space(_fd: int) -> None:
    raise OSError(28, "No space left on device")
