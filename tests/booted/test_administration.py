"""Administration of an installed Hub: root's alone, by nothing but its UID (S9), and what it says of everybody."""

from __future__ import annotations

import json

import pytest

from tests.booted.system import BASE, HUB_YAML, QUICK, TALK, Held, Maker, System

pytestmark = pytest.mark.parametrize("_installed", ["bookworm"], indirect=True)
"""Nothing here depends on the suite's libraries; the other files run on both."""

ADMIN = "io.amux.Admin."


def test_s9_only_root_opens_the_administration_socket(system: System, person: Maker) -> None:
    alice = person("alice", "--groups", "sudo,adm,systemd-journal")
    system.machine.run("usermod", "--append", "--groups", "amux", alice)
    done = system.machine.run("amux", "admin", "principals", "list", user=alice, check=False)
    assert done.returncode == 6
    assert "administration is root's; use sudo" in done.stderr
    for name in (alice, "amux", "daemon"):
        line = json.dumps({"method": f"{ADMIN}ListPrincipals"})
        command = ("python3", "-IS", "-c", TALK, "/run/amux/admin.sock")
        assert "PermissionError" in system.machine.run(*command, user=name, stdin=line, check=False).stderr


def test_s9_a_uid_that_gets_hold_of_the_socket_is_still_no_administrator(system: System, person: Maker) -> None:
    """Who may connect is one thing, what the Hub reads at accept the other: the mode is opened for once."""
    alice = person("alice")
    system.machine.run("chmod", "0666", "/run/amux/admin.sock")
    try:
        for name, code in ((alice, "Forbidden"), ("amux", "IdentityRefused")):
            for method in ("ListPrincipals", "GetUsage", "ListConnections", "ListSettings"):
                assert system.ask(name, ADMIN + method, socket="admin")["error"].endswith(f".{code}")
            told = system.ask(name, ADMIN + "RetirePrincipal", socket="admin", principal=alice)
            assert told["error"].endswith(f".{code}")
    finally:
        system.machine.run("chmod", "0600", "/run/amux/admin.sock")
    assert system.admin("principals", "list")["principals"][0]["retired"] == ""


def test_s9_administration_is_on_no_other_socket_and_follows_no_setting(system: System, person: Maker) -> None:
    alice = person("alice")
    system.configure(BASE + QUICK + "  services: [daemon]\n  aliases: {alice: root}\n")
    for user in (None, alice, "daemon"):
        assert "error" in system.ask(user, ADMIN + "ListPrincipals")
        assert "error" in system.ask(user, ADMIN + "SetSetting", key="memory.enabled", value="false")
    who = system.who(alice)
    assert (who["principal"], who["administrator"]) == ("root", False)
    assert "error" in system.ask(alice, "io.amux.Hub.GetMetrics")


def test_s9_root_in_a_user_namespace_is_who_made_it(system: System, person: Maker) -> None:
    alice = person("alice")
    line = json.dumps({"method": "io.amux.Hub.WhoAmI"})
    command = ("unshare", "--user", "--map-root-user", "--", "python3", "-IS", "-c", TALK, "/run/amux/hub.sock")
    reply = json.loads(system.machine.run(*command, user=alice, stdin=line).stdout)
    assert reply["parameters"]["principal"] == alice
    assert reply["parameters"]["administrator"] is False


def test_s9_a_held_connection_of_root_grants_nothing_to_a_later_user(system: System, person: Maker) -> None:
    """root's connection stays root's: what another UID writes into it was handed over by root."""
    alice = person("alice")
    system.write(alice, "a.md", "hers\n")
    with Held(system.machine, None, "admin") as root, Held(system.machine, alice) as hers:
        system.admin("principals", "retire", alice)
        assert hers.wait_for_the_end()
        assert root.call(ADMIN + "GetPrincipal", principal=alice)["parameters"]["retired"]


def test_usage_counts_and_shows_no_content_and_no_name_of_a_document(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(alice, "secret-plan.md", "x" * 1000)
    system.write(alice, "b.md", "y" * 24)
    system.who(bob)
    usage = system.admin("usage")
    of = {one["principal"]: (one["documents"], one["bytes"]) for one in usage["usage"]}
    assert (of["alice"], of["bob"], of["global"]) == ((2, 1024), (0, 0), (0, 0))
    assert (usage["scope_documents"], usage["scope_bytes"]) == (1024, 16 * 1024 * 1024)
    assert "secret-plan" not in json.dumps(usage) and "xx" not in json.dumps(usage)


def test_connections_are_shown_with_their_uid_and_socket(system: System, person: Maker) -> None:
    alice = person("alice")
    uid = int(system.machine.run("id", "-u", alice).stdout)
    with Held(system.machine, alice) as one, Held(system.machine, alice, "mcp") as other:
        one.call("List")
        other.mcp()
        found = system.admin("connections")["connections"]
        assert sorted(each["listener"] for each in found if each["uid"] == uid) == ["hub", "mcp"]
    system.machine.wait("both to be gone", lambda: len(system.admin("connections")["connections"]) == 1)


def test_rebind_wants_both_disconnected_and_names_who_is_not(system: System, person: Maker) -> None:
    alice, heir = person("alice", uid=1901), person("heir", uid=1902)
    system.write(alice, "a.md", "hers\n")
    for user in (alice, heir):
        with Held(system.machine, user) as held:
            held.call("io.amux.Hub.GetStatus")
            told = system.admin("principals", "rebind", "alice", "1901", "1902", check=False)["error"]
            assert (told["code"], told["details"]["found"]) == ("busy", 1)
    # heir enrolled by that call, and a person is one principal
    told = system.admin("principals", "rebind", "alice", "1901", "1902", check=False)["error"]
    assert told["code"] == "conflict"
    system.admin("principals", "retire", "heir")
    system.admin("principals", "rebind", "alice", "1901", "1902")
    assert system.read(heir, "a.md") == "hers\n"
    assert system.refusal(alice).code == "IdentityRefused"
    told = system.admin("principals", "rebind", "alice", "1902", "999999", check=False)["error"]
    assert told["code"] == "not_found"


def test_purge_is_for_the_retired_and_asks_first(system: System, person: Maker) -> None:
    alice = person("alice")
    system.write(alice, "a.md", "hers\n")
    assert system.admin("principals", "purge", "--yes", alice, check=False)["error"]["code"] == "forbidden"
    system.admin("principals", "retire", alice)
    system.admin("principals", "retire", alice)
    assert len(system.audit("retire", principal=alice)) == 1
    assert system.admin("principals", "purge", "--yes", alice)["memory_removed"] is True
    assert system.admin("principals", "show", alice, check=False)["error"]["code"] == "not_found"
    assert not system.machine.run("find", "/var/lib/amux/memory/users", "-mindepth", "1").stdout


def test_what_is_pinned_in_hub_yaml_is_not_saved_over(system: System) -> None:
    command = ("amux", "system", "config", "set", "memory.enabled", "false")
    done = system.machine.run(*command, check=False)
    assert done.returncode == 6
    assert HUB_YAML in done.stderr
    system.configure("isolation: true\n" + QUICK)
    assert json.loads(system.machine.run(*command).stdout)["saved"] == "false"
    system.machine.run("rm", "/var/lib/amux/settings.yaml")
