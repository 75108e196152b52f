"""The package on a booted Debian 12 and 13: installed, started by its sockets, broken and mended, upgraded, removed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amux import __version__
from tests.booted.lab.machine import Account, Machine
from tests.booted.lab.recipe import SUITES
from tests.booted.packages import HIGHER
from tests.booted.system import doctor, problems

SOCKETS = ("amux-hub.socket", "amux-mcp.socket", "amux-admin.socket", "amux-materializer.socket")
NAMES = ("hub", "mcp", "admin", "launch")
MARK = "/var/lib/amux/memory/kept.md"

ASK = """
import json, os, socket, sys
done = []
while not os.path.exists(sys.argv[1]):
    with socket.socket(socket.AF_UNIX) as hub:
        hub.settimeout(30)
        try:
            hub.connect("/run/amux/hub.sock")
            hub.sendall(b'{"method":"org.varlink.service.GetInfo"}\\0')
            done.append("answered" if hub.recv(65536).endswith(b"\\0") else "hung up")
        except OSError as error:
            done.append(str(error))
    if len(done) == 1:
        open(sys.argv[1] + ".asking", "w").close()
print(json.dumps({word: done.count(word) for word in set(done)}))
"""
"""Connects again and again until a file is there, and counts what became of it."""


WAIT = """
import socket, sys
all = [socket.socket(socket.AF_UNIX) for _ in range(30)]
for one in all:
    one.connect("/run/amux/hub.sock")
print("connected", flush=True)
sys.stdin.read()
"""
"""Thirty that connect and wait, until standard input ends."""


@pytest.fixture(scope="module", params=SUITES)
def host(request: pytest.FixtureRequest, package: Callable[[str], Path]) -> Iterator[Machine]:
    """A machine of this file's own. Each test leaves the package installed and enabled, hub.yaml as shipped."""
    with Machine(request.param, f"{request.param}-life-{os.getpid()}") as machine:
        machine.install(package(request.param))
        yield machine


@pytest.fixture
def broken(host: Machine) -> Iterator[Callable[[], object]]:
    """Calling it breaks hub.yaml; afterwards it is as shipped."""
    good = host.get("/etc/amux/hub.yaml")
    yield lambda: host.put(b"isolation: perhaps\n", "/etc/amux/hub.yaml")
    host.put(good, "/etc/amux/hub.yaml")


def _active(machine: Machine, unit: str) -> str:
    return machine.run("systemctl", "is-active", unit, check=False).stdout.strip()


def _sockets(machine: Machine) -> dict[str, str]:
    return {unit: _active(machine, unit) for unit in SOCKETS}


def _answers(machine: Machine) -> bool:
    status = machine.run("amux", "status", "--json", check=False).stdout
    return bool(json.loads(status)["reachable"])


def test_the_first_connection_starts_the_hub_and_stopping_it_leaves_the_sockets_c39(host: Machine) -> None:
    assert _sockets(host) == dict.fromkeys(SOCKETS, "active")
    assert _active(host, "amux-hub.service") == "inactive"
    assert _answers(host)
    host.wait("a Hub that serves MCP too", lambda: _active(host, "amux-hub.service") == "active")
    modes = host.run("stat", "-c", "%a %U %n", "/run/amux", *(f"/run/amux/{n}.sock" for n in NAMES))
    assert modes.stdout.splitlines() == [
        "755 root /run/amux",
        "666 root /run/amux/hub.sock",
        "666 root /run/amux/mcp.sock",
        "600 root /run/amux/admin.sock",
        "666 root /run/amux/launch.sock",
    ]
    assert host.run("stat", "-c", "%a %U", "/var/lib/amux").stdout.strip() == "700 amux"
    host.run("systemctl", "stop", "amux-hub.service")
    assert _sockets(host) == dict.fromkeys(SOCKETS, "active")
    assert _answers(host)


def test_a_fresh_installation_has_no_problem_and_no_warning(host: Machine, accounts: Callable[..., Account]) -> None:
    """And an ordinary user who asks sees no memory."""
    accounts(host, "doris", "--uid=3001")
    host.run("systemctl", "start", "amux-hub")
    checks = doctor(host)
    assert problems(checks) == {}
    assert not [name for name, check in checks.items() if check["outcome"] == "warning"]
    assert not [name for name, check in checks.items() if check["outcome"] == "skipped"], "root sees everything"
    checks = doctor(host, user="doris")
    assert problems(checks) == {}
    assert {checks[name]["outcome"] for name in checks if name.startswith(("store-", "registry-"))} == {"skipped"}


def test_a_run_of_the_doctor_leaves_no_refusal_in_the_audit(host: Machine, accounts: Callable[..., Account]) -> None:
    accounts(host, "doris", "--uid=3001")
    since = host.run("date", "+%s").stdout.strip()
    for user in (None, "amux", "doris"):
        assert problems(doctor(host, user)) == {}
    # Refusals are written when their second is over: one that is expected shows that all before it are there.
    host.run("amux", "whoami", user=54321, check=False)

    def refused() -> list[tuple[str, ...]]:
        found = host.journal("-u", "amux-hub", "-u", "amux-pam", f"--since=@{since}")
        records = [one for one in found if "AMUX_AUDIT" in one]
        told = [(one["AMUX_AUDIT"], one["AMUX_UID"], one.get("AMUX_OUTCOME") or one["AMUX_CLASS"]) for one in records]
        return [one for one in told if one[2] not in ("ok", "allow")]

    host.wait("the refusal that is expected", refused)
    assert refused() == [("identify", "54321", "identity_refused")]


def test_systemd_of_the_suite_accepts_the_units_and_their_confinement_n6(host: Machine) -> None:
    units = host.run("sh", "-c", "ls -d /usr/lib/systemd/system/*amux*").stdout.split()
    assert len(units) == 9
    done = host.run("systemd-analyze", "verify", "--man=no", *units)
    assert "amux" not in done.stderr
    host.run("systemd-analyze", "security", "--threshold=8", "amux-hub.service")
    host.run("systemd-analyze", "security", "--threshold=14", "amux-materializer.service")
    shown = host.run("systemctl", "show", "amux-hub.service", "-p", "CapabilityBoundingSet,PrivateNetwork,User")
    assert sorted(shown.stdout.split()) == ["CapabilityBoundingSet=", "PrivateNetwork=yes", "User=amux"]


def test_a_broken_configuration_refuses_to_reload_and_ends_no_socket_c38(
    host: Machine, broken: Callable[[], object]
) -> None:
    good = host.get("/etc/amux/hub.yaml")
    host.run("systemctl", "start", "amux-hub")
    broken()
    assert host.run("systemctl", "reload", "amux-hub", check=False).returncode != 0
    assert _answers(host)
    host.run("systemctl", "stop", "amux-hub.service")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with host.start("python3", "-c", WAIT, **pipes) as clients:
        assert clients.stdout is not None
        assert clients.stdout.readline() == "connected\n"
        host.wait("three starts that fail", lambda: _restarts(host) >= 3)
        assert "failed" not in _sockets(host).values()
        host.put(good, "/etc/amux/hub.yaml")
        host.wait("a Hub that answers again by itself", lambda: _answers(host))
        assert _sockets(host) == dict.fromkeys(SOCKETS, "active")


def test_c38_no_number_of_starts_ends_a_socket(host: Machine) -> None:
    """Five in ten seconds are the manager's own limit; the doctor, the role and people start them too."""
    host.run("systemctl", "stop", "amux-hub.service", "amux-pam.service", "amux-materializer.service")
    host.run("sh", "-ec", "for i in 1 2 3 4 5 6 7; do systemctl stop $0; systemctl start $0; done", " ".join(SOCKETS))
    assert _sockets(host) == dict.fromkeys(SOCKETS, "active")
    assert _answers(host)


def _restarts(machine: Machine) -> int:
    return int(machine.run("systemctl", "show", "amux-hub.service", "-p", "NRestarts", "--value").stdout)


def _version(machine: Machine) -> str:
    """That of the Hub that answers."""
    return str(json.loads(machine.run("amux", "status", "--json").stdout)["version"])


def test_an_upgrade_with_a_broken_configuration_leaves_the_running_hub(
    host: Machine, higher: Callable[[str], Path], broken: Callable[[], object]
) -> None:
    """And the new commands work with the old Hub."""
    host.run("amux", "system", "config", "set", "memory.enabled", "true")
    host.run("systemctl", "restart", "amux-hub")
    before = host.run("systemctl", "show", "amux-hub", "-p", "MainPID").stdout
    broken()
    done = host.install(higher(host.suite))
    assert "left as it is" in done.stderr
    assert "/etc/amux/hub.yaml:1: isolation" in done.stderr
    assert host.run("systemctl", "show", "amux-hub", "-p", "MainPID").stdout == before
    assert (_version(host), host.run("amux", "--version").stdout) == (__version__, f"amux {HIGHER}\n")
    user = host.account("ann", "--uid=3002").name  # a UID comes back to nobody else
    write = ("amux", "memory", "upsert", "a.md", "--expected-revision", "absent")
    host.run(*write, user=user, stdin="between two versions\n")
    assert "between two versions" in host.run("amux", "memory", "show", "a.md", user=user).stdout


def test_an_upgrade_refuses_no_connection_and_leaves_disabled_what_was(
    host: Machine, higher: Callable[[str], Path]
) -> None:
    """The Hub that runs before it is the older one, whichever tests ran before this one."""
    host.run("systemctl", "disable", "amux-mcp.socket")  # stopping it would stop the Hub, too
    host.run("systemctl", "start", "amux-hub")
    assert _version(host) == __version__
    before = host.run("systemctl", "show", "amux-hub", "-p", "MainPID").stdout
    client = host.start("python3", "-c", ASK, "/tmp/enough", stdout=-1)
    host.wait("a client that asks", lambda: host.run("test", "-e", "/tmp/enough.asking", check=False).returncode == 0)
    host.install(higher(host.suite))
    host.run("touch", "/tmp/enough")
    said = json.loads(client.communicate(timeout=60)[0])
    assert host.run("systemctl", "show", "amux-hub", "-p", "MainPID").stdout != before
    assert _version(host) == HIGHER
    assert said.pop("answered") > 20
    assert not said
    assert host.run("systemctl", "is-enabled", "amux-mcp.socket", check=False).stdout.strip() == "disabled"
    host.run("systemctl", "enable", "amux-mcp.socket")


def _without_launches(deb: Path, directory: Path) -> Path:
    """The package as it was before it had the helper of launches."""
    tree, older = directory / "tree", directory / "older.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
    units = tree / "usr/lib/systemd/system"
    names = [path.name for pattern in ("*launches.mount", "amux-materializer.*") for path in units.glob(pattern)]
    assert len(names) == 3
    for name in names:
        (units / name).unlink()
        for script in ("postinst", "prerm", "postrm"):
            text = (tree / "DEBIAN" / script).read_text(encoding="utf-8")
            (tree / "DEBIAN" / script).write_text(text.replace(name, ""), encoding="utf-8")
    subprocess.run(["dpkg-deb", "--build", "-Znone", tree, older], check=True, stdout=subprocess.DEVNULL)
    return older


def test_removing_keeps_the_memory_and_an_older_package_is_upgraded_to_one_with_launches(
    host: Machine, package: Callable[[str], Path], tmp_path: Path
) -> None:
    host.run("systemctl", "start", "amux-hub", "amux-materializer")
    host.put(b"memory\n", MARK, owner="amux:amux")
    for action in ("--remove", "--purge"):
        done = host.run("dpkg", action, "amux-hub")
        assert "is kept in /var/lib/amux" in done.stderr
        assert "rm -rf /var/lib/amux" in done.stderr
        assert host.get(MARK) == b"memory\n"
    services = ("amux-hub.service", "amux-materializer.service")
    assert {_active(host, unit) for unit in (*SOCKETS, *services)} == {"inactive"}
    left = host.run("sh", "-c", "ls -d /run/amux* /usr/lib/amux /etc/amux /etc/systemd/system/*/amux* || true")
    assert left.stdout == ""
    host.install(_without_launches(package(host.suite), tmp_path))
    assert _sockets(host) == {**dict.fromkeys(SOCKETS, "active"), "amux-materializer.socket": "inactive"}
    host.install(package(host.suite))
    assert _sockets(host) == dict.fromkeys(SOCKETS, "active")
    assert host.run("systemctl", "is-enabled", "amux-materializer.socket").stdout.strip() == "enabled"
    assert _answers(host)
    assert host.get(MARK) == b"memory\n"
