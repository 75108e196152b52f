"""The Hub's account as the attacker: code of an intruder in place of the Hub, in the very unit of the package."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.booted.system import System

INTRUDER = b'''\
#!/usr/bin/python3 -IS
import ctypes, json, os, pwd, socket, subprocess

def connect(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)

def unshare():
    if ctypes.CDLL(None).unshare(0x10000000) != 0:
        raise PermissionError

def libc(name, *arguments):
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

def writable():
    """Directories in which this account may make a file."""
    found = []
    for directory, below, _ in os.walk("/"):
        below[:] = [name for name in below if os.path.join(directory, name) not in ("/proc", "/sys")]
        path = os.path.join(directory, "intruder.tmp")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600))
            os.unlink(path)
        except OSError:
            continue
        found.append(directory)
    return sorted(found)

def reachable():
    """Sockets below /run that this account may connect to."""
    found = []
    for directory, _, names in os.walk("/run"):
        for name in names:
            path = os.path.join(directory, name)
            try:
                connect(path)
            except OSError as error:
                if error.errno != 91:  # EPROTOTYPE: a datagram socket, and we may
                    continue
            found.append(path)
    return sorted(found)

TRIES = {
    "run a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
    "run a program by the loader": lambda: subprocess.run(["/usr/bin/env", "true"], check=True),
    "the system bus": lambda: connect("/run/dbus/system_bus_socket"),
    "PID 1": lambda: connect("/run/systemd/private"),
    "the admin socket": lambda: connect("/run/amux/admin.sock"),
    "an internet socket": lambda: socket.socket(socket.AF_INET),
    "an IPv6 socket": lambda: socket.socket(socket.AF_INET6),
    "a netlink socket": lambda: socket.socket(socket.AF_NETLINK),
    "the shadow file": lambda: open("/etc/shadow"),
    "homes": lambda: os.listdir("/home"),
    "a file in /etc": lambda: open("/etc/intruder", "w"),
    "a file in /run/amux": lambda: open("/run/amux/intruder", "w"),
    "its own program": lambda: open("/usr/lib/amux/bin/amux-hub", "a"),
    "another UID": lambda: os.setuid(1000),
    "root's UID": lambda: os.setresuid(0, 0, 0),
    "the GID of shadow": lambda: os.setgid(42),
    "sudo": lambda: subprocess.run(["/usr/bin/sudo", "-n", "true"], check=True),
    "su": lambda: subprocess.run(["/bin/su", "-c", "true"], check=True),
    "the shadow file of groups": lambda: open("/etc/gshadow"),
    "the backup of the shadow file": lambda: open("/etc/shadow-"),
    "a host key": lambda: open("/etc/ssh/ssh_host_ed25519_key"),
    "tracing itself": lambda: libc("ptrace", 0, 0, 0, 0),
    "tracing PID 1": lambda: libc("ptrace", 16, 1, 0, 0),
    "memory of PID 1": lambda: open("/proc/1/mem", "rb"),
    "a descriptor of PID 1": lambda: libc("syscall", 438, os.getpid(), 0, 0),
    "a mount": lambda: libc("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "the kernel's log": lambda: libc("klogctl", 3, ctypes.create_string_buffer(64), 64),
    "a kernel setting": lambda: open("/proc/sys/kernel/core_pattern", "w"),
    "bpf": lambda: libc("syscall", 321, 0, 0, 0),
    "another group": lambda: os.setgroups([42]),
    "a setuid file": lambda: os.chmod("/var/lib/amux/probe", 0o4755),
    "another process": lambda: os.listdir("/proc/1"),
    "a signal to others": lambda: os.kill(1, 0),
    "a namespace": unshare,
    "a device": lambda: open("/dev/kmsg"),
}

def run_written(place):
    path = place + "/written"
    with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as written:
        written.write("#!/usr/bin/python3\\n")
    subprocess.run([path], check=True)

for place in ("/var/lib/amux", "/tmp", "/var/tmp", "/dev/shm", "/run", "/run/amux"):
    TRIES["run what it wrote to " + place] = lambda place=place: run_written(place)
open("/var/lib/amux/probe", "w").close()
done = []
for what, attempt in TRIES.items():
    try:
        attempt()
    except (OSError, subprocess.SubprocessError):
        continue
    done.append(what)
with open("/proc/self/status") as file:
    status = dict(line.rstrip().split(":\\t") for line in file if ":\\t" in line)
with open("/var/lib/amux/report.json", "w") as report:
    found = {"done": done, "reachable": reachable(), "writable": writable(), "status": status}
    json.dump({**found, "name": pwd.getpwuid(os.geteuid())[0]}, report)
'''

INSTEAD = "/etc/systemd/system/amux-hub.service.d/intruder.conf"
DROP_IN = b"""\
[Service]
Type=oneshot
ExecStart=
ExecStart=/usr/lib/amux/bin/intruder
Restart=no
WatchdogSec=0
"""

HARMLESS = {
    "/run/amux/hub.sock",
    "/run/amux/launch.sock",  # answers this account with a refusal and a record
    "/run/amux/mcp.sock",
    "/run/amux/pam.sock",
    "/run/systemd/journal/dev-log",
    "/run/systemd/journal/socket",
    "/run/systemd/journal/stdout",
    "/run/systemd/notify",
    "/run/systemd/userdb/io.systemd.DynamicUser",
}
"""What may be connected to: clients' own sockets, the helpers, the log, readiness, and names of accounts."""


PLACES = ("/usr/lib/amux/bin/intruder", "/var/lib/amux/probe", "/var/lib/amux/report.json", "/var/lib/amux/written")


@pytest.fixture(scope="module")
def report(_installed: System) -> Iterator[dict[str, object]]:
    """What the intruder brought home."""
    machine = _installed.machine
    try:
        machine.put(INTRUDER, "/usr/lib/amux/bin/intruder", 0o755)
        machine.run("mkdir", "-p", os.path.dirname(INSTEAD))
        machine.put(DROP_IN, INSTEAD)
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", "amux-hub.service")
        found: dict[str, object] = json.loads(machine.get("/var/lib/amux/report.json"))
    finally:
        machine.run("rm", "-f", INSTEAD, *PLACES)
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", "amux-hub.service")
    yield found


def test_n6_the_account_of_the_hub_gets_nowhere(report: dict[str, object]) -> None:
    assert report["name"] == "amux"
    assert report["done"] == []


def test_n6_it_reaches_no_socket_that_takes_commands(report: dict[str, object]) -> None:
    reachable = report["reachable"]
    assert isinstance(reachable, list)
    assert "/run/amux/hub.sock" in reachable
    assert set(reachable) <= HARMLESS


def test_n6_it_writes_nowhere_but_to_its_state_and_private_places(report: dict[str, object]) -> None:
    writable = report["writable"]
    assert isinstance(writable, list)
    assert "/var/lib/amux" in writable
    places = ("/var/lib/amux", "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue")
    outside = [path for path in writable if not any(path == one or path.startswith(f"{one}/") for one in places)]
    assert outside == []


def test_n6_it_has_no_capability_and_gains_none(report: dict[str, object]) -> None:
    status = report["status"]
    assert isinstance(status, dict)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"], status["Groups"].split()) == ("1", "2", [status["Gid"].split()[0]])
