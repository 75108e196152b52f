"""The checks of the registry (D7, D8): records, their accounts, the directories that belong to them."""

from __future__ import annotations

import os
import pwd

import pytest

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.accounts import Account
from amux_hub.doctor import registry
from amux_hub.registry.record import SELF, Pin
from amux_hub.store import purge
from tests.doctor.kit import ME, Made, needs_an_ordinary_account, told

ALICE = Pin("alice", 4_000_000_001, SELF)


def test_records_as_they_should_be(made: Made) -> None:
    assert made.run("registry-records").summary == "nobody is enrolled yet"
    made.enrol("alice", ALICE)
    made.enrol("bob", Pin("bob", 4_000_000_002, SELF))
    found = made.run("registry-records")
    assert (found.outcome, found.summary) == ("ok", "2 principals")


def test_d7_a_record_under_another_name(made: Made) -> None:
    alice, bob = made.enrol("alice", ALICE), made.enrol("bob", Pin("bob", 4_000_000_002, SELF))
    bob.write_bytes(alice.read_bytes())
    found = made.run("registry-records")
    assert told(found) == {("problem", "moved")}
    assert "alice" in found.findings[0].found


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"principal": "alice"}', b"\xff\xfe", b" " * 70_000])
def test_a_damaged_record(made: Made, data: bytes) -> None:
    made.enrol("alice", ALICE).write_bytes(data)
    assert told(made.run("registry-records")) == {("problem", "damaged")}


def test_d8_a_record_of_another_kind_mode_or_owner(made: Made) -> None:
    alice = made.enrol("alice", ALICE)
    alice.chmod(0o644)
    assert told(made.run("registry-records")) == {("warning", "mode")}
    alice.chmod(0o600)
    os.link(alice, made.directory / "elsewhere")
    assert told(made.run("registry-records")) == {("problem", "kind")}
    alice.unlink()
    alice.symlink_to(made.directory / "elsewhere")
    assert told(made.run("registry-records")) == {("problem", "kind")}
    alice.unlink()
    os.mkfifo(alice)  # opening one would wait for ever
    assert told(made.run("registry-records")) == {("problem", "kind")}
    alice.unlink()
    alice = made.enrol("alice", ALICE)
    other = made.run("registry-records", account="lp")
    assert [finding.what for finding in other.findings if finding.kind == "owner"] == [str(alice.parent), str(alice)]


def test_what_is_no_record_and_what_a_crash_left(made: Made) -> None:
    directory = made.enrol("alice", ALICE).parent
    (directory / f".amux-tmp-{'0' * 32}").touch()
    assert told(made.run("registry-records")) == {("note", "temporary")}
    (directory / "notes.txt").touch()
    assert told(made.run("registry-records")) == {("note", "temporary"), ("problem", "stranger")}
    directory.chmod(0o755)
    assert ("problem", "mode") in told(made.run("registry-records"))


def test_a_registry_that_is_no_directory(made: Made) -> None:
    (made.home / "registry").symlink_to("/etc")
    assert ("problem", "unreadable") in told(made.run("registry-records"))


@needs_an_ordinary_account
def test_a_registry_that_its_owner_closed(made: Made) -> None:
    directory = made.enrol("alice", ALICE).parent
    directory.chmod(0)
    found = made.run("registry-records")
    directory.chmod(0o700)
    assert told(found) == {("problem", "mode"), ("problem", "unreadable")}


def test_one_account_in_two_records(made: Made) -> None:
    made.enrol("alice", ALICE)
    made.enrol("bob", Pin("bob", ALICE.uid, SELF))
    found = made.run("registry-records")
    assert told(found) == {("problem", "claim")}
    assert found.findings[0].what == f"UID {ALICE.uid}"


def test_accounts_as_they_should_be(made: Made) -> None:
    made.enrol("me")
    made.enrol("left", retired="2030-02-03T04:05:06Z", former=(ALICE,))
    left = made.enrol("gone", ALICE)
    left.unlink()
    assert made.run("registry-accounts").outcome == "ok"


def test_an_account_that_is_gone(made: Made) -> None:
    made.enrol("alice", ALICE)
    found = made.run("registry-accounts")
    assert told(found) == {("warning", "gone")}
    assert found.findings[0].fix.endswith("amux admin principals retire alice")


def test_a_uid_that_is_somebody_else_now(made: Made) -> None:
    made.enrol("alice", Pin("alice", os.geteuid(), SELF))
    found = made.run("registry-accounts")
    assert told(found) == {("problem", "recycled")}
    assert ME in found.findings[0].found


def test_an_account_with_another_uid(made: Made) -> None:
    made.enrol("me", Pin(ME, ALICE.uid, SELF))
    found = made.run("registry-accounts")
    assert told(found) == {("problem", "renumbered")}
    assert str(pwd.getpwnam(ME).pw_uid) in found.findings[0].fix


def test_s8_a_name_service_that_fails_is_not_gone(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(uid: int) -> Account | None:
        raise AmuxError("identity_unavailable", "the name service failed")

    monkeypatch.setattr(accounts, "account_of", failing)
    made.enrol("alice", ALICE)
    found = made.run("registry-accounts")
    assert (found.outcome, told(found)) == ("skipped", {("skipped", "unseen")})
    assert "alice" in found.findings[0].what


def test_an_account_name_that_is_none(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(uid: int) -> Account | None:
        raise AmuxError("identity_refused", "the account name is no UTF-8")

    monkeypatch.setattr(accounts, "account_of", refusing)
    made.enrol("alice", ALICE)
    assert told(made.run("registry-accounts")) == {("problem", "name")}


def test_a_slow_name_service_is_not_waited_for(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_NAMES_SECONDS", -1.0)
    made.enrol("alice", ALICE)
    found = made.run("registry-accounts")
    assert (found.outcome, found.findings[0].what) == ("skipped", "1 account")


def test_memory_and_records_that_belong_together(made: Made) -> None:
    made.enrol("alice", ALICE)
    made.scope("alice")
    assert made.run("registry-scopes").outcome == "ok"


def test_d8_memory_without_a_record_and_a_record_without_memory(made: Made) -> None:
    made.enrol("alice", ALICE)
    orphan = made.scope("bob")
    found = made.run("registry-scopes")
    assert told(found) == {("problem", "orphan"), ("note", "empty")}
    assert {finding.what for finding in found.findings} == {str(orphan), "alice"}
    made.pinned["isolation"] = False
    assert told(made.run("registry-scopes")) == {("problem", "orphan")}


def test_what_is_no_directory_of_a_principal(made: Made) -> None:
    users = made.scope("alice").parent
    made.enrol("alice", ALICE)
    (users / "alice").mkdir()
    (users / (purge._PREFIX + "0" * 32)).mkdir()
    assert told(made.run("registry-scopes")) == {("warning", "stranger"), ("note", "purge")}


@pytest.mark.parametrize("name", ["registry-records", "registry-accounts", "registry-scopes"])
def test_skipped_where_there_is_none_or_it_may_not_be_seen(made: Made, name: str) -> None:
    assert made.run(name, euid=os.geteuid() + 1).outcome == "skipped"
    made.system = False
    assert made.run(name).outcome == "skipped"


def test_control_characters_are_escaped(made: Made) -> None:
    directory = made.enrol("alice", ALICE).parent
    (directory / "\x1b[2J\u202e").touch()
    found = made.run("registry-records")
    assert found.findings[0].what.endswith(r"/\x1b[2J\u202e")
    assert r"$'" in found.findings[0].fix
    assert all(finding.what.isprintable() and finding.fix.isprintable() for finding in found.findings)
