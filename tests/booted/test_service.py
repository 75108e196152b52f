"""The unit at work: what starts it, revives it, keeps it out of the network, and what a squatter gets."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.booted.system import BASE, HUB_YAML, QUICK, Held, Maker, System

pytestmark = pytest.mark.parametrize("_installed", ["trixie"], indirect=True)
"""Nothing here depends on the suite's libraries; the other files run on both."""

DROP_IN = "/etc/systemd/system/amux-hub.service.d/test.conf"

SQUATTER = """
import os, socket, sys
path, uid = sys.argv[1], int(sys.argv[2])
squat = socket.socket(socket.AF_UNIX)
squat.bind(path)
os.chmod(path, 0o666)
os.setresuid(uid, uid, uid)
squat.listen()
print("listening", flush=True)
while True:
    one, _ = squat.accept()
    one.settimeout(2)
    try:
        print(repr(one.recv(4096)), flush=True)
    except OSError as error:
        print(repr(b""), flush=True)
    one.close()
"""
"""Listens at a path as a user, and tells what it is sent."""

WRITE = """
import json, socket, sys
done = 0
while True:
    with socket.socket(socket.AF_UNIX) as hub:
        hub.connect("/run/amux/hub.sock")
        text = {"path": f"{done}.md", "content": str(done) * 500, "expected_revision": "absent"}
        hub.sendall(json.dumps({"method": "io.amux.Memory.Upsert", "parameters": text}).encode() + b"\\0")
        if b"revision" not in hub.recv(65536):
            break
    done += 1
    print(done, flush=True)
"""
"""Writes one document after another and says each that was acknowledged, until one is not."""


@pytest.fixture
def drop_in(system: System) -> Iterator[Callable[[str], None]]:
    """`drop_in(text)`: lines for [Service], in force; gone after the test."""

    def change(text: str) -> None:
        system.machine.run("mkdir", "-p", "/etc/systemd/system/amux-hub.service.d")
        system.machine.put(f"[Service]\n{text}".encode(), DROP_IN)
        system.machine.run("systemctl", "daemon-reload")
        system.restart()

    yield change
    system.machine.run("rm", "-f", DROP_IN)
    system.machine.run("systemctl", "daemon-reload")
    system.restart()


def test_the_first_connection_of_a_user_starts_the_hub_and_the_helper(system: System, person: Maker) -> None:
    alice = person("alice")
    system.machine.run("systemctl", "stop", "amux-hub.service", "amux-pam.service")
    assert system.pid() == 0
    assert system.who(alice)["principal"] == alice
    assert system.pid() > 0
    assert system.show("amux-pam", "ActiveState") == "active"


def test_c48_everything_starts_where_ipv6_is_off(system: System, person: Maker) -> None:
    alice = person("alice")
    switches = "/proc/sys/net/ipv6/conf/*/disable_ipv6"
    services = ("amux-hub.service", "amux-pam.service", "amux-materializer.service")
    system.machine.run("sh", "-ec", f"for one in {switches}; do echo 1 >$one; done")
    try:
        assert system.machine.run("ip", "-6", "address").stdout == "", "it is off"
        system.machine.run("systemctl", "stop", *services)
        system.machine.run("systemctl", "start", *services)
        assert system.who(alice)["principal"] == alice
    finally:
        system.machine.run("sh", "-ec", f"for one in {switches}; do echo 0 >$one; done")


def test_systemds_own_varlink_client_speaks_it(system: System, person: Maker) -> None:
    """`varlinkctl` of systemd 257: it is no client of ours, and parses what the Hub says of its interfaces."""
    alice, hub = person("alice"), "/run/amux/hub.sock"

    def varlinkctl(*words: str) -> str:
        return str(system.machine.run("varlinkctl", "--no-pager", *words, user=alice).stdout)

    assert "io.amux.Memory" in varlinkctl("info", hub)
    for interface in ("io.amux.Hub", "io.amux.Memory", "io.amux.Session"):
        assert f"interface {interface}" in varlinkctl("introspect", hub, interface)
    new = {"path": "a.md", "content": "deploy", "expected_revision": "absent"}
    varlinkctl("call", hub, "io.amux.Memory.Upsert", json.dumps(new))
    found = json.loads(varlinkctl("--json=short", "call", hub, "io.amux.Memory.Search", '{"query":"deploy"}'))
    assert [match["path"] for match in found["matches"]] == ["a.md"]


def test_start_returns_when_it_answers(system: System, person: Maker) -> None:
    alice = person("alice")
    for _ in range(2):
        system.machine.run("systemctl", "stop", "amux-hub.service")
        system.machine.run("systemctl", "start", "amux-hub")
        with Held(system.machine, alice, "mcp") as agent:
            assert "error" not in agent.mcp()


def test_the_watchdog_revives_a_hub_that_hangs(system: System, person: Maker, drop_in: Callable[[str], None]) -> None:
    alice = person("alice")
    drop_in("WatchdogSec=2\n")
    system.write(alice, "a.md", "kept\n")
    hung = system.pid()
    system.machine.run("kill", "-STOP", str(hung))
    assert system.read(alice, "a.md") == "kept\n", "who came meanwhile waited, and was answered"
    assert system.pid() not in (0, hung)
    assert system.machine.run("systemctl", "is-active", "amux-hub.socket").stdout == "active\n"


def test_c38_a_broken_configuration_changes_nothing_of_what_is_in_force(system: System, person: Maker) -> None:
    alice = person("alice")
    system.configure(BASE + QUICK + "limits:\n  connections_per_uid: 2\n")
    pid = system.pid()
    system.machine.put(b"isolation: false\nlimits:\n  connections_per_uid: many\n", HUB_YAML)
    # the check of ExecReload= is passed over: a signal comes from anywhere
    system.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=HUP", "amux-hub")
    system.machine.wait(
        "the refusal in the journal",
        lambda: [
            one
            for one in system.machine.journal("-u", "amux-hub", "-n", "20")
            if f"not reloaded: {HUB_YAML}:3: limits.connections_per_uid" in str(one["MESSAGE"])
        ],
    )
    assert system.pid() == pid
    assert system.who(alice)["isolation"] is True
    with Held(system.machine, alice) as one, Held(system.machine, alice) as two:
        assert "error" not in one.call("List") and "error" not in two.call("List")
        assert system.refusal(alice).code == "LimitExceeded"
    system.machine.put((BASE + QUICK).encode(), HUB_YAML)
    system.reload()
    assert system.pid() == pid
    with Held(system.machine, alice) as one, Held(system.machine, alice) as two:
        assert "error" not in one.call("List") and "error" not in two.call("List")
        assert "error" not in system.ask(alice, "List"), "the limit of the mended file is in force"


def test_a_reload_never_flips_isolation_or_the_switch(system: System, person: Maker) -> None:
    alice = person("alice")
    system.write(alice, "a.md", "hers\n")
    system.machine.put(b"isolation: false\nmemory:\n  enabled: false\n", HUB_YAML)
    system.reload()
    assert system.who(alice)["scope"] == "principal:alice"
    assert system.read(alice, "a.md") == "hers\n"
    status = json.loads(system.machine.run("amux", "status", "--json").stdout)
    assert (status["memory_enabled_running"], status["memory_enabled_saved"]) == (True, False)
    system.configured = ""  # reset() writes the file again


def test_c49_kill_9_during_writes_loses_nothing_and_locks_nothing(system: System, person: Maker) -> None:
    alice = person("alice")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with system.machine.start("python3", "-IS", "-c", WRITE, user=alice, **pipes) as writer:
        assert writer.stdout is not None
        while int(writer.stdout.readline()) < 20:
            pass
        system.machine.run("kill", "-KILL", str(system.pid()))
        acknowledged = [20, *(int(line) for line in writer.stdout)][-1]
    with Held(system.machine, alice) as held:
        for number in range(acknowledged):
            answer = held.call("Get", path=f"{number}.md")["parameters"]
            assert answer["content"] == str(number) * 500
    hidden = system.machine.run("find", "/var/lib/amux/memory", "-name", ".*", "-type", "f", "-printf", "%f\\n").stdout
    assert sorted(hidden.split()) == [".amux-lock", ".amux-owner"], "temporary files were swept"


def test_s1_a_squatter_in_another_place_is_refused(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    uid = system.machine.run("id", "-u", bob).stdout.strip()
    for command in (("mkdir", "/run/amux/x"), ("rm", "/run/amux/hub.sock"), ("mv", "/run/amux", "/run/amux2")):
        assert system.machine.run(*command, user=bob, check=False).returncode != 0
    system.machine.run("mkdir", "-m", "1777", "/tmp/squat")
    squatter = system.machine.start("python3", "-c", SQUATTER, "/tmp/squat/hub.sock", uid, stdout=subprocess.PIPE)
    assert squatter.stdout is not None and squatter.stdout.readline() == "listening\n"
    try:
        done = system.machine.run(
            "env", "AMUX_HUB=/tmp/squat/hub.sock", "amux", "memory", "list", user=alice, check=False
        )
        assert done.returncode == 6
        assert f"UID {uid} listens at /tmp/squat/hub.sock" in done.stderr
        assert squatter.stdout.readline() == "b''\n", "not a byte was sent"
    finally:
        system.machine.run("pkill", "-KILL", "-u", bob)
        squatter.communicate()
        system.machine.run("rm", "-r", "/tmp/squat")


def test_s1_a_squatter_at_the_very_path_is_refused(system: System, person: Maker) -> None:
    """However it got there: root's mistake, or a directory that somebody opened."""
    alice, bob = person("alice"), person("bob")
    uid = system.machine.run("id", "-u", bob).stdout.strip()
    system.machine.run("mv", "/run/amux/hub.sock", "/run/amux/kept.sock")
    squatter = system.machine.start("python3", "-c", SQUATTER, "/run/amux/hub.sock", uid, stdout=subprocess.PIPE)
    assert squatter.stdout is not None and squatter.stdout.readline() == "listening\n"
    try:
        for command in (
            ("amux", "memory", "list"),
            ("amux", "memory", "upsert", "a.md", "--expected-revision", "absent"),
        ):
            done = system.machine.run(*command, user=alice, stdin="a secret", check=False)
            assert done.returncode == 6, done
            assert f"UID {uid} listens at /run/amux/hub.sock, but a system Hub is run by root" in done.stderr
            assert squatter.stdout.readline() == "b''\n", "not a byte was sent"
    finally:
        system.machine.run("pkill", "-KILL", "-u", bob)
        squatter.communicate()
        system.machine.run("mv", "/run/amux/kept.sock", "/run/amux/hub.sock")
    assert system.who(alice)["principal"] == alice


def test_n3_nothing_listens_on_a_network(system: System, person: Maker) -> None:
    system.who(person("alice"))
    listening = system.machine.run("ss", "-H", "-l", "-t", "-u", "-n", "-p").stdout.splitlines()
    assert [line for line in listening if "sshd" not in line and "systemd" not in line] == []
    for unit in ("amux-hub", "amux-pam"):
        inside = ("nsenter", "-t", system.show(unit, "MainPID"), "-n", "ss", "-H", "-a", "-t", "-u", "-n")
        assert system.machine.run(*inside).stdout == ""


def test_c33_under_the_units_filter_no_link_leads_out_of_the_memory(system: System, person: Maker) -> None:
    alice = person("alice")
    system.write(alice, "a.md", "hers\n")
    directory = next(iter(system.tree())).rpartition("/")[0]
    script = f"cd /var/lib/amux/memory/{directory} && ln -s /etc/passwd link.md && ln -s /etc dir && mkfifo fifo.md"
    system.machine.run("sh", "-ec", f"{script} && chown -h amux: *")
    for path in ("link.md", "dir/passwd.md", "fifo.md"):
        assert system.refusal(alice, "Get", path=path).code == "UnsafeFile"
        assert system.refusal(alice, "Upsert", path=path, content="x", expected_revision="absent").code == "UnsafeFile"
    assert [one["path"] for one in system.call(alice, "List")["documents"]] == ["a.md"]


@pytest.mark.parametrize("unit", ["amux-hub", "amux-pam"])
def test_n6_run_is_read_only_to_both_services(system: System, person: Maker, unit: str) -> None:
    """The helper is root: /run/systemd/system would be its way to more."""
    system.who(person("alice"))
    lines = system.machine.get(f"/proc/{system.show(unit, 'MainPID')}/mountinfo").decode().splitlines()
    options = {line.split()[4]: line.split()[5].split(",")[0] for line in lines}
    assert options["/run"] == "ro"
