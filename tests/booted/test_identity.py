"""Who is served as whom: each cell of the table of accounts, isolation and refusals, through the installed package."""

from __future__ import annotations

import json

import pytest

from tests.booted.system import BASE, QUICK, TALK, Held, Maker, System, digest

GLOBAL = BASE.replace("isolation: true", "isolation: false")
OFF = BASE.replace("enabled: true", "enabled: false")
MEMORY = ("Search", "Get", "List", "Upsert", "Forget")
CALLS: dict[str, dict[str, object]] = {
    "Search": {"query": "secret"},
    "Get": {"path": "a.md"},
    "List": {},
    "Upsert": {"path": "a.md", "content": "x", "expected_revision": "absent"},
    "Forget": {"path": "a.md", "expected_revision": "absent"},
}


def test_two_accounts_have_a_memory_each(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(alice, "MEMORY.md", "hers\n")
    system.write(bob, "MEMORY.md", "his\n")
    assert (system.read(alice, "MEMORY.md"), system.read(bob, "MEMORY.md")) == ("hers\n", "his\n")
    assert system.who(alice)["scope"] == "principal:alice"
    assert set(system.tree()) == {f"./users/{digest(name)}/MEMORY.md" for name in (alice, bob)}
    assert sorted(system.principals()) == ["alice", "bob"]


def test_without_isolation_all_share_one_memory_and_are_still_known(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.configure(GLOBAL + QUICK)
    system.write(alice, "MEMORY.md", "ours\n")
    assert system.read(bob, "MEMORY.md") == "ours\n"
    who = system.who(bob)
    assert (who["scope"], who["binding"], who["principal"]) == ("global", "global", "bob")
    assert set(system.tree()) == {"./global/MEMORY.md"}


def test_isolation_flipped_both_ways_copies_and_merges_nothing(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(alice, "a.md", "alone\n")
    mine = system.tree()
    system.configure(GLOBAL + QUICK)
    assert system.call(bob, "List")["documents"] == system.call(alice, "List")["documents"] == []
    assert system.read(alice, "a.md") is None
    system.write(bob, "a.md", "shared\n")
    both = system.tree()
    assert {path: both[path] for path in mine} == mine
    assert set(both) - set(mine) == {"./global/a.md"}
    system.configure(BASE + QUICK)
    assert (system.read(alice, "a.md"), system.read(bob, "a.md")) == ("alone\n", None)
    assert system.tree() == both


def test_while_the_switch_is_off_nobody_reads_or_writes(system: System, person: Maker) -> None:
    alice = person("alice")
    system.write(alice, "a.md", "kept\n")
    kept = system.tree()
    system.configure(OFF + QUICK)
    assert {name: system.refusal(alice, name, **CALLS[name]).code for name in MEMORY} == dict.fromkeys(
        MEMORY, "MemoryDisabled"
    )
    assert system.who(alice)["principal"] == "alice"
    assert system.tree() == kept
    system.configure(BASE + QUICK)
    assert system.read(alice, "a.md") == "kept\n"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        (("chage", "-E", "0"), "expired"),
        (("chage", "-d", "0"), "must_change"),
        (("usermod", "-L", "-e", "1"), "expired"),
        (("chage", "-d", "2020-01-01", "-M", "1", "-I", "1"), "password_expired"),
    ],
    ids=["expired", "must-change", "locked-and-expired", "password-expired"],
)
def test_c31_p1_an_account_that_is_shut_is_refused_and_not_told_why(
    system: System, person: Maker, command: tuple[str, ...], verdict: str
) -> None:
    gone = person("gone")
    uid = system.machine.run("id", "-u", gone).stdout.strip()
    system.machine.run("chpasswd", stdin=f"{gone}:x-long-enough-1\n")
    system.machine.run(*command, gone)
    told = system.refusal(gone)
    assert told.code == "IdentityRefused"
    assert told.parameters["message"] == f"the account of UID {uid} may not be used now: ask the administrator"
    assert verdict not in json.dumps(told.parameters)
    record = system.audited("identify", uid=uid, outcome=verdict)
    assert int(record["AMUX_COUNT"]) >= 1
    assert [one["AMUX_CLASS"] for one in system.machine.journal("-u", "amux-pam", f"AMUX_UID={uid}")][-1] == verdict
    assert system.principals() == []


@pytest.mark.parametrize("command", [("passwd", "-l"), ("usermod", "-s", "/usr/sbin/nologin")], ids=["locked", "shell"])
def test_c31_a_locked_password_alone_and_a_nologin_shell_pass(
    system: System, person: Maker, command: tuple[str, ...]
) -> None:
    alice = person("alice")
    system.machine.run("chpasswd", stdin=f"{alice}:x-long-enough-1\n")
    system.machine.run(*command, alice)
    assert system.who(alice)["principal"] == "alice"


def test_an_account_that_expires_is_disconnected_and_comes_back_with_its_memory(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(alice, "a.md", "kept\n")
    with (
        Held(system.machine, alice) as hers,
        Held(system.machine, alice, "mcp") as agent,
        Held(system.machine, bob) as his,
    ):
        assert "error" not in hers.call("List")
        assert "error" not in his.call("List")
        assert "error" not in agent.mcp()
        system.machine.run("chage", "-E", "0", alice)
        assert hers.wait_for_the_end()
        assert agent.wait_for_the_end()
        assert "error" not in his.call("List")
    assert system.refusal(alice).code == "IdentityRefused"
    system.machine.run("chage", "-E", "-1", alice)
    system.machine.wait("alice to be served", lambda: "error" not in system.ask(alice, "List"))
    assert system.read(alice, "a.md") == "kept\n"


def test_a_recycled_uid_is_refused_until_the_principal_is_retired(system: System, person: Maker) -> None:
    old = person("leaver", uid=1777)
    system.write(old, "a.md", "hers\n")
    system.machine.run("userdel", old)
    new = person("joiner", uid=1777)
    system.reload()
    told = system.refusal(new)
    assert told.code == "IdentityRefused"
    assert "leaver" in told.parameters["message"] and "joiner" in told.parameters["message"]
    assert system.audited("identify", uid="1777", outcome="identity_refused")["AMUX_ACCOUNT"] == "joiner"
    system.admin("principals", "retire", "leaver")
    assert system.call(new, "List")["documents"] == []
    assert system.who(new)["principal"] == "joiner"


def test_a_name_that_comes_back_with_another_uid_is_refused_until_it_is_rebound(system: System, person: Maker) -> None:
    alice = person("alice", uid=1801)
    system.write(alice, "a.md", "hers\n")
    system.machine.run("userdel", alice)
    person("alice", uid=1802)
    system.reload()
    assert system.refusal(alice).code == "IdentityRefused"
    system.admin("principals", "rebind", "alice", "1801", "1802")
    assert system.read(alice, "a.md") == "hers\n"
    record = system.audited("rebind", principal="alice")
    assert (record["AMUX_UID"], record["AMUX_OLD_UID"], record["AMUX_NEW_UID"]) == ("0", "1801", "1802")


def test_a_renamed_account_is_refused_until_it_is_rebound_and_keeps_its_principal(
    system: System, person: Maker
) -> None:
    system.write(person("maiden", uid=1811), "a.md", "hers\n")
    system.machine.run("usermod", "-l", "married", "maiden")
    try:
        system.machine.wait("maiden to be forgotten", lambda: "error" in system.ask("married", "List"))
        assert system.refusal("married").code == "IdentityRefused"
        system.admin("principals", "rebind", "maiden", "1811", "1811")
        assert system.read("married", "a.md") == "hers\n"
        who = system.who("married")
        assert (who["account"], who["principal"]) == ("married", "maiden")
    finally:
        system.machine.remove_account("married")


def test_a_retired_principal_is_nobody_and_its_memory_stays_until_it_is_purged(system: System, person: Maker) -> None:
    alice = person("alice")
    system.write(alice, "a.md", "hers\n")
    kept = system.tree()
    with Held(system.machine, alice) as held, Held(system.machine, alice, "mcp") as agent:
        assert "error" not in held.call("List")
        assert "error" not in agent.mcp()
        system.admin("principals", "retire", alice)
        assert held.wait_for_the_end()
        assert agent.wait_for_the_end()
    told = system.refusal(alice)
    assert told.code == "IdentityRefused" and "retired" in told.parameters["message"]
    assert system.tree() == kept
    assert system.admin("principals", "purge", alice, check=False)["error"]["code"] == "invalid_argument", "no --yes"
    system.admin("principals", "purge", "--yes", alice)
    assert system.tree() == {}
    assert system.read(alice, "a.md") is None
    assert {one: len(system.audit(one, principal=alice)) for one in ("retire", "purge")} == {"retire": 1, "purge": 1}


def test_d7_exchanged_directories_are_served_to_nobody_and_mended_as_the_doctor_says(
    system: System, person: Maker
) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(alice, "a.md", "her secret\n")
    system.write(bob, "b.md", "his\n")
    assert system.read(alice, "a.md") == "her secret\n"
    one, two = (f"/var/lib/amux/memory/users/{digest(name)}" for name in (alice, bob))
    system.machine.run("sh", "-ec", f"mv {one} {one}.x; mv {two} {one}; mv {one}.x {two}")
    kept = system.tree()
    for user in (alice, bob):
        told = {name: system.refusal(user, name, **CALLS[name]) for name in MEMORY}
        assert {name: one.code for name, one in told.items()} == dict.fromkeys(MEMORY, "UnsafeFile")
        assert "secret" not in json.dumps([one.parameters for one in told.values()])
    assert system.audited("search", principal=bob, outcome="unsafe_file")  # it came first in its second
    usage = {one["principal"]: one for one in system.admin("usage")["usage"]}
    assert "refused" in usage[bob] and "refused" not in usage["global"]
    system.admin("principals", "retire", bob)
    assert system.admin("principals", "purge", "--yes", bob, check=False)["error"]["code"] == "unsafe_file"
    assert system.tree() == kept

    def marks() -> list[dict[str, str]]:
        checks = json.loads(system.machine.run("amux", "doctor", "--json", check=False).stdout)["checks"]
        (found,) = (check["findings"] for check in checks if check["name"] == "store-marks")
        return [*found]

    found = marks()
    assert {(finding["what"], finding["found"].split(",")[0]) for finding in found} == {
        ("alice", "the memory principal:bob"),
        ("bob", "the memory principal:alice"),
    }
    system.machine.run("sh", "-ec", next(finding["fix"] for finding in found if "mv" in finding["fix"]))
    assert marks() == []
    assert system.read(alice, "a.md") == "her secret\n"


def test_root_is_the_administrator_and_has_no_memory(system: System) -> None:
    who = system.who(None)
    assert (who["administrator"], who["principal"], who["scope"]) == (True, "", "")
    for name in MEMORY:
        assert system.refusal(None, name, **CALLS[name]).code == "IdentityRefused"
    assert system.tree() == {} and system.principals() == []


def test_a_system_account_is_served_only_if_it_is_named(system: System) -> None:
    assert system.refusal("daemon").code == "IdentityRefused"
    assert "identity.services" in system.refusal("daemon").parameters["message"]
    system.configure(BASE + QUICK + "  services: [daemon]\n")
    system.write("daemon", "a.md", "a service's\n")
    assert system.who("daemon")["scope"] == "principal:daemon"
    assert system.refusal("bin").code == "IdentityRefused"
    assert system.refusal("amux").code == "IdentityRefused"
    system.configure(BASE + QUICK)
    assert system.refusal("daemon").code == "IdentityRefused"


def test_aliases_are_one_principal(system: System, person: Maker) -> None:
    alice, other = person("alice"), person("alice-admin")
    system.configure(BASE + QUICK + "  aliases: {alice-admin: alice}\n")
    system.write(alice, "a.md", "hers\n")
    assert system.read(other, "a.md") == "hers\n"
    assert {system.who(name)["binding"] for name in (alice, other)} == {"principal:alice"}
    accounts = system.admin("principals", "show", "alice")["accounts"]
    assert {(one["name"], one["by"]) for one in accounts} == {("alice", "self"), ("alice-admin", "alias")}
    system.configure(BASE + QUICK)
    assert system.read(alice, "a.md") == "hers\n"
    assert system.read(other, "a.md") is None, "an alias that ended leaves nothing behind"


def test_c35_names_with_capitals_are_two_principals(system: System, person: Maker) -> None:
    for name in ("alice", "Alice"):
        system.write(person(name, "--badname") if name == "Alice" else person(name), "a.md", name)
    assert [system.read(name, "a.md") for name in ("alice", "Alice")] == ["alice", "Alice"]
    assert sorted(system.principals()) == ["Alice", "alice"]


def test_c47_a_uid_above_2_31_is_its_own_principal(system: System, person: Maker) -> None:
    high = person("high", "--badname", uid=4_000_000_000)
    system.write(high, "a.md", "high\n")
    who = system.who(high)
    assert (who["uid"], who["principal"]) == (4_000_000_000, "high")
    assert system.admin("principals", "show", "high")["accounts"][0]["uid"] == 4_000_000_000
    assert system.audited("upsert", principal="high")["AMUX_UID"] == "4000000000"


@pytest.mark.parametrize("uid", [4_000_000_001, 54321])
def test_s8_a_uid_without_an_account_is_refused_by_name(system: System, uid: int) -> None:
    told = system.refusal(uid)
    assert told.code == "IdentityRefused"
    assert f"UID {uid} has no account" in told.parameters["message"]


def test_s8_the_overflow_uid_is_refused_by_name(system: System) -> None:
    told = system.refusal(65534)
    assert told.code == "IdentityRefused"
    assert "overflow UID" in told.parameters["message"]


def test_s8_in_a_user_namespace_a_caller_is_who_made_it(system: System, person: Maker) -> None:
    alice = person("alice")
    uid = int(system.machine.run("id", "-u", alice).stdout)
    system.write(alice, "a.md", "hers\n")
    script = "import os; assert os.getuid() == 0\n" + TALK

    def ask(number: int) -> dict[str, object]:
        line = '{"method":"io.amux.Memory.Get","parameters":{"path":"a.md"}}\n'
        command = ("unshare", "--user", "--map-root-user", "--", "python3", "-IS", "-c", script)
        done = system.machine.run(*command, "/run/amux/hub.sock", user=number, stdin=line)
        reply: dict[str, object] = json.loads(done.stdout)
        return reply

    parameters = ask(uid)["parameters"]
    assert isinstance(parameters, dict) and parameters["content"] == "hers\n"
    assert str(ask(54321)["error"]).endswith(".IdentityRefused")


def test_c46_a_clients_own_socket_name_says_nothing(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(alice, "a.md", "hers\n")
    uid = system.machine.run("id", "-u", alice).stdout.strip()
    for name in (f"uid={uid};pid=1;socket=", f"/run/user/{uid}/amux", "\\0", "principal:alice"):
        script = "import sys; sys.argv[2] = chr(0) + sys.argv[2]\n" + TALK
        line = '{"method":"io.amux.Hub.WhoAmI"}\n'
        done = system.machine.run("python3", "-IS", "-c", script, "/run/amux/hub.sock", name, user=bob, stdin=line)
        assert json.loads(done.stdout)["parameters"]["principal"] == "bob"
