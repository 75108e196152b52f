"""The check of the accounts that identity.aliases and identity.services name."""

from __future__ import annotations

import pytest

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.accounts import Account
from amux_hub.doctor import people
from tests.doctor.kit import ME, Made, text, told

NONE = "amux-no-such"


def test_names_that_exist(made: Made) -> None:
    assert made.run("people").outcome == "ok"
    made.pinned |= {"identity.aliases": {ME: "a principal needs no account"}, "identity.services": ("daemon",)}
    found = made.run("people")
    assert (found.outcome, found.summary) == ("ok", f"2 accounts named in {made.etc}/hub.yaml")


@pytest.mark.parametrize(
    ("key", "value"), [("identity.aliases", {ME: "ann", NONE: "ann"}), ("identity.services", ("daemon", NONE))]
)
def test_a_name_without_an_account_is_a_warning_that_says_what_to_do(made: Made, key: str, value: object) -> None:
    made.pinned[key] = value
    found = made.run("people")
    assert told(found) == {("warning", "missing")}
    (finding,) = found.findings
    assert finding.what == f"{made.etc}/hub.yaml, {key}: {NONE}"
    assert "hub.yaml" in finding.fix and "systemctl reload amux-hub" in finding.fix


def test_a_name_that_the_directory_spells_otherwise(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "account_named", lambda name: Account(1001, name.lower()))
    made.pinned["identity.services"] = ("CI", "web")
    found = made.run("people")
    assert told(found) == {("warning", "spelled")}
    assert [finding.fix.split()[:2] for finding in found.findings] == [["write", "ci"]]


def test_s8_a_name_service_that_fails_is_not_missing(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_name: str) -> Account | None:
        raise AmuxError("identity_unavailable", "the name service failed")

    monkeypatch.setattr(accounts, "account_named", failing)
    made.pinned |= {"identity.aliases": {"ann-admin": "ann"}, "identity.services": ("ci",)}
    found = made.run("people")
    assert (found.outcome, told(found), len(found.findings)) == ("skipped", {("skipped", "unseen")}, 2)


def test_an_account_whose_name_is_no_text(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(_name: str) -> Account | None:
        raise AmuxError("identity_refused", "the account name is no UTF-8")

    monkeypatch.setattr(accounts, "account_named", refusing)
    made.pinned["identity.services"] = ("ci",)
    assert told(made.run("people")) == {("warning", "name")}


def test_a_slow_name_service_is_not_waited_for(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "_NAMES_SECONDS", -1.0)
    made.pinned["identity.services"] = (NONE, "ci")
    found = made.run("people")
    assert (found.outcome, found.findings[0].what) == ("skipped", "2 accounts")


def test_a_private_hub_has_no_people(private: Made) -> None:
    assert private.run("people").outcome == "skipped"


def test_control_characters_of_a_name_are_escaped(made: Made) -> None:
    made.pinned["identity.services"] = ("\x1b[2J",)
    assert "\\\\x1b[2J" in text(made.run("people"))
