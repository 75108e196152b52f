"""amux-pam and the name service of a real host: whatever fails, the answer is an error that says "try again"."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.booted.system import BASE, HOME, QUICK, Held, Maker, System, digest

PAM = "/etc/pam.d/amux"
NSSWITCH = "/etc/nsswitch.conf"
OPEN = "/run/systemd/system/amux-pam.service.d/open.conf"

VERDICTS = """
import json, socket, sys, threading
uids = json.loads(sys.argv[1])
found, lock = {}, threading.Lock()
def ask(uid, count):
    for _ in range(count):
        with socket.socket(socket.AF_UNIX) as helper:
            helper.settimeout(60)
            helper.connect("/run/amux/pam.sock")
            helper.sendall(b"%d\\n" % uid)
            said = helper.makefile().read()
        with lock:
            key = f"{uid} {said.strip()}"
            found[key] = found.get(key, 0) + 1
threads = [threading.Thread(target=ask, args=(uid, 200)) for uid in uids for _ in range(2)]
for one in threads: one.start()
for one in threads: one.join()
print(json.dumps(found))
"""


@contextmanager
def _changed(system: System, path: str, change: Callable[[bytes], bytes] | None) -> Iterator[None]:
    """A file of root's changed, or gone, and as it was afterwards."""
    before = system.machine.get(path)
    if change is None:
        system.machine.run("rm", path)
    else:
        system.machine.put(change(before), path)
    try:
        yield
    finally:
        system.machine.put(before, path)


def _stop_helper(system: System) -> None:
    system.machine.run("systemctl", "stop", "amux-pam.socket", "amux-pam.service")


def _start_helper(system: System) -> None:
    system.machine.run("systemctl", "start", "amux-pam.socket")


@pytest.fixture
def helper(system: System) -> Iterator[System]:
    """Afterwards the helper listens, and nothing of it is in force any more."""
    yield system
    _stop_helper(system)
    _start_helper(system)


@pytest.mark.parametrize("isolation", ["true", "false"])
def test_without_the_helper_nobody_is_served_and_never_as_global(helper: System, person: Maker, isolation: str) -> None:
    alice = person("alice")
    helper.configure(BASE.replace("isolation: true", f"isolation: {isolation}") + QUICK)
    helper.write(alice, "a.md", "hers\n")
    kept = helper.tree()
    with Held(helper.machine, alice) as held:
        assert "error" not in held.call("List")
        _stop_helper(helper)
        helper.machine.wait("what was known to end", lambda: "error" in held.call("List"))
        told = held.call("Upsert", path="b.md", content="x", expected_revision="absent")
        assert told["error"].endswith(".IdentityUnavailable")
        assert told["parameters"]["details"]["retry_after_ms"] > 0
        assert helper.refusal(alice, "io.amux.Hub.WhoAmI").code == "IdentityUnavailable"
        assert helper.tree() == kept
        _start_helper(helper)
        assert "error" not in held.call("List"), "the connection lived on, and is served again"


def test_p6_without_its_file_the_helper_does_not_start_and_nobody_is_served(helper: System, person: Maker) -> None:
    alice = person("alice")
    _stop_helper(helper)
    with _changed(helper, PAM, None):
        _start_helper(helper)
        assert helper.machine.run("systemctl", "start", "amux-pam.service", check=False).returncode != 0
        assert helper.refusal(alice).code == "IdentityUnavailable"
        lines = [str(one["MESSAGE"]) for one in helper.machine.journal("-u", "amux-pam", "-n", "20")]
        assert [one for one in lines if f"{PAM} is missing" in one]
        done = helper.machine.run("amux", "doctor", "--json", check=False)
        found = [one["name"] for one in json.loads(done.stdout)["checks"] if one["outcome"] == "problem"]
        assert done.returncode == 1 and "pam-file" in found
    helper.machine.wait("alice to be served", lambda: "error" not in helper.ask(alice, "List"))


@pytest.mark.parametrize(
    "text", [b"", b"auth required pam_permit.so\n", b"# account required pam_permit.so\n"], ids=["empty", "auth", "off"]
)
def test_p6_a_file_without_an_account_rule_gives_no_verdict(helper: System, person: Maker, text: bytes) -> None:
    alice = person("alice")
    assert helper.who(alice)["principal"] == alice
    with _changed(helper, PAM, lambda _: text):
        helper.reload()
        assert helper.refusal(alice).code == "IdentityUnavailable"


def test_p6_a_file_that_others_may_write_gives_no_verdict(helper: System, person: Maker) -> None:
    alice = person("alice")
    assert helper.who(alice)["principal"] == alice
    helper.machine.run("chmod", "0666", PAM)
    try:
        helper.reload()
        assert helper.refusal(alice).code == "IdentityUnavailable"
    finally:
        helper.machine.run("chmod", "0644", PAM)
    helper.machine.wait("alice to be served", lambda: "error" not in helper.ask(alice, "List"))


def test_p4_a_verdict_leaves_the_record_of_failed_logins_as_it_is(helper: System, person: Maker) -> None:
    alice = person("alice")
    record = "/run/faillock/alice"
    common = "/etc/pam.d/common-account"
    helper.machine.run("mkdir", "-p", "/run/faillock")
    # faillock(8) reads these: a kind, a name, flags, a time; what pam_faillock's account call would erase. Its own are
    # the user's and the group root's, so that root needs no capability to write them.
    script = f"printf '%64s' locked | tr ' ' '\\001' >{record} && chown alice:root {record} && chmod 660 {record}"
    helper.machine.run("sh", "-c", script)
    before = helper.machine.run("sha256sum", record).stdout
    with _changed(helper, common, lambda text: b"account required pam_faillock.so\n" + text):
        _stop_helper(helper)
        _start_helper(helper)
        assert helper.who(alice)["principal"] == alice
        assert helper.machine.run("sha256sum", record).stdout == before
        # The same stack in the same unit, but for what keeps it from writing, does erase it: the record is a real one.
        helper.machine.run("mkdir", "-p", os.path.dirname(OPEN))
        helper.machine.put(b"[Service]\nProtectSystem=no\nReadOnlyPaths=\n", OPEN)
        try:
            helper.machine.run("systemctl", "daemon-reload")
            _stop_helper(helper)
            _start_helper(helper)
            helper.reload()
            assert helper.who(alice)["principal"] == alice
            assert helper.machine.run("sha256sum", record).stdout != before
        finally:
            helper.machine.run("rm", OPEN)
            helper.machine.run("systemctl", "daemon-reload")
    helper.machine.run("rm", "-r", "/run/faillock")


def test_c30_parallel_verdicts_are_each_right(helper: System, person: Maker) -> None:
    uids = {}
    for name, expire in (("good", False), ("shut", True), ("fine", False), ("over", True)):
        account = person(name)
        if expire:
            helper.machine.run("chage", "-E", "0", account)
        uids[int(helper.machine.run("id", "-u", account).stdout)] = "expired" if expire else "allow"
    done = helper.machine.run("python3", "-IS", "-c", VERDICTS, json.dumps(list(uids)), user="amux", seconds=120)
    assert json.loads(done.stdout) == {f"{uid} {verdict}": 400 for uid, verdict in uids.items()}


def test_c32_the_helper_answers_the_hub_and_root_alone(helper: System, person: Maker) -> None:
    alice = person("alice")
    ask = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/run/amux/pam.sock'); "
    told = helper.machine.run("python3", "-c", ask, user=alice, check=False)
    assert "PermissionError" in told.stderr
    helper.machine.run("chmod", "0666", "/run/amux/pam.sock")
    try:
        talk = ask + "s.sendall(b'0\\n'); print(s.recv(99))"
        # closed at once: nothing came, or the line met a closed connection
        said = helper.machine.run("python3", "-c", talk, user=alice, check=False)
        assert said.stdout in ("", "b''\n")
    finally:
        helper.machine.run("chmod", "0600", "/run/amux/pam.sock")
    assert helper.machine.journal("-u", "amux-pam", "AMUX_AUDIT=refused")
    done = helper.machine.run("/usr/lib/amux/bin/amux-pam", "--self-test")
    assert "can be asked" in done.stdout


def test_s8_a_name_service_that_fails_is_no_missing_account(helper: System, person: Maker) -> None:
    alice = person("alice")
    helper.write(alice, "a.md", "hers\n")
    kept = helper.tree()
    with _changed(helper, NSSWITCH, lambda _: b"passwd: files\ngroup: files\nshadow: files\n"):
        helper.machine.run("chmod", "0600", "/etc/passwd")
        try:
            helper.restart()
            told = helper.refusal(int(helper.machine.run("stat", "-c", "%u", "/home/alice").stdout))
            assert told.code == "IdentityUnavailable", told
            assert helper.tree() == kept
            assert helper.admin("principals", "show", alice)["retired"] == ""
        finally:
            helper.machine.run("chmod", "0644", "/etc/passwd")
    helper.restart()
    assert helper.read(alice, "a.md") == "hers\n"


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\xff", b'{"principal":"alice"}'], ids=["empty", "cut", "bytes", "part"]
)
def test_a_damaged_record_is_an_error_and_never_a_new_principal(helper: System, person: Maker, damage: bytes) -> None:
    alice, bob, carol = person("alice"), person("bob"), person("carol")
    helper.write(alice, "a.md", "hers\n")
    helper.write(bob, "a.md", "his\n")
    path = f"{HOME}/registry/{digest(alice)}.json"
    before, kept = helper.machine.get(path), helper.tree()
    for again in (helper.reload, helper.restart):
        helper.machine.put(damage, path, 0o600, "amux:amux")
        again()
        assert helper.refusal(alice).code == "IdentityUnavailable"
        assert helper.read(bob, "a.md") == "his\n", "whose record is whole is served"
        assert helper.machine.get(path) == damage
    assert helper.refusal(carol).code == "IdentityUnavailable", "it might be the record of carol"
    assert helper.tree() == kept
    helper.machine.put(before, path, 0o600, "amux:amux")
    helper.restart()
    assert helper.read(alice, "a.md") == "hers\n"
