"""An intruder in the place of the helper of launches, in its very unit: three rights, and no way to more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.booted.launching import PLACE, UNIT, Launched
from tests.booted.system import Maker, System

INTRUDER = """\
#!/usr/bin/python3 -IS
import ctypes, json, os, socket, subprocess, sys
sys.path.insert(0, "/usr/lib/amux/site-packages")
from amux_materializer import become
HERS = open("/usr/lib/amux/bin/hers").read().split()

def connect(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)

def libc(name, *arguments):
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)

def write(path, mode="w"):
    open(path, mode).close()

def give(path):
    fd = os.open(path, os.O_RDONLY)
    os.fchown(fd, 4242, 4242)

def run_written(path):
    with open(path, "w", opener=lambda path, flags: os.open(path, flags, 0o755)) as written:
        written.write("#!/usr/bin/python3\\n")
    subprocess.run([path], check=True)

def user_namespace():
    libc("unshare", 0x10000000)

TRIES = {
    "the system bus": lambda: connect("/run/dbus/system_bus_socket"),
    "PID 1": lambda: connect("/run/systemd/private"),
    "the Hub": lambda: connect("/run/amux/hub.sock"),
    "administration": lambda: connect("/run/amux/admin.sock"),
    "a user's manager": lambda: os.listdir("/run/user"),
    "an internet socket": lambda: socket.socket(socket.AF_INET),
    "a netlink socket": lambda: socket.socket(socket.AF_NETLINK),
    "a shell": lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True),
    "systemctl": lambda: subprocess.run(["/usr/bin/systemctl", "list-units"], check=True),
    "su": lambda: subprocess.run(["/bin/su", "-c", "true"], check=True),
    "the shadow file": lambda: open("/etc/shadow"),
    "its backup": lambda: open("/etc/shadow-"),
    "homes": lambda: os.listdir("/home"),
    "root's home": lambda: os.listdir("/root"),
    "memory": lambda: os.listdir("/var/lib/amux"),
    "host keys": lambda: os.listdir("/etc/ssh"),
    "a file in /etc": lambda: write("/etc/intruder"),
    "a unit of this boot": lambda: write("/run/systemd/system/intruder.service"),
    "a file in /run": lambda: write("/run/intruder"),
    "the archive": lambda: write("/usr/lib/amux/amux.pyz", "a"),
    "the tool": lambda: write("/usr/lib/amux/launch-bin/amux", "a"),
    "giving a file of root's away": lambda: give("/etc/passwd"),
    "giving the place away": lambda: os.chown("/run/amux-launches", 4242, 4242),
    "her directory": lambda: os.listdir(HERS[0]),
    "her lock": lambda: open(HERS[0] + "/lock"),
    "memory of her agent": lambda: open(f"/proc/{HERS[1]}/mem", "rb"),
    "tracing her agent": lambda: libc("ptrace", 16, int(HERS[1]), 0, 0),
    "ending her agent": lambda: os.kill(int(HERS[1]), 15),
    "memory of PID 1": lambda: open("/proc/1/mem", "rb"),
    "the root of PID 1": lambda: os.listdir("/proc/1/root"),
    "a mount": lambda: libc("mount", b"none", b"/tmp", b"tmpfs", 0, None),
    "a user namespace": user_namespace,
    "bpf": lambda: libc("syscall", 321, 0, 0, 0),
    "a kernel setting": lambda: write("/proc/sys/kernel/core_pattern"),
    "a device": lambda: open("/dev/kmsg"),
    "a program in the place": lambda: run_written("/run/amux-launches/intruder"),
    "a program in /tmp": lambda: run_written("/tmp/intruder"),
    "a program in /dev/shm": lambda: run_written("/dev/shm/intruder"),
}

def setuid_file():
    write("/tmp/setuid")
    os.chmod("/tmp/setuid", 0o4755)

TRIES["a set-user-ID file"] = setuid_file
BACK = {
    "root": lambda: os.setresuid(0, 0, 0),
    "root as saved": lambda: os.setresuid(-1, 0, -1),
    "root's group": lambda: os.setresgid(0, 0, 0),
    "more groups": lambda: os.setgroups([0]),
    "another user": lambda: os.setresuid(1, 1, 1),
    "giving a file away": lambda: (write("/tmp/hers"), os.chown("/tmp/hers", 0, 0)),
}

def done(tries):
    found = []
    for what, attempt in tries.items():
        try:
            attempt()
        except (OSError, subprocess.SubprocessError):
            continue
        found.append(what)
    return found

def status():
    with open("/proc/self/status") as file:
        return dict(line.split(":\\t", 1) for line in file.read().splitlines() if ":\\t" in line)

report = {"root": done(TRIES), "status": status()}
reading, writing = os.pipe()
if os.fork() == 0:
    become.become(become.account(int(HERS[2])))
    own = {**TRIES, **BACK}
    for mine in ("her directory", "her lock", "memory of her agent", "ending her agent"):
        del own[mine]
    os.write(writing, json.dumps({"user": done(own), "user_status": status()}).encode())
    os._exit(0)
os.close(writing)
report |= json.loads(b"".join(iter(lambda: os.read(reading, 65536), b"")))
os.wait()
with open("/run/amux-launches/report.json", "w") as file:
    json.dump(report, file)
"""
"""In the helper's place, in its very unit: as root with its three rights, then as the user that it may become."""

DROP_IN = f"/etc/systemd/system/{UNIT}.service.d/intruder.conf"
CHANGED = b"[Service]\nType=oneshot\nExecStart=\nExecStart=/usr/lib/amux/bin/intruder\nRestart=no\n"


@pytest.fixture
def report(system: System, person: Maker) -> Iterator[dict[str, Any]]:
    """What the intruder brought home, while a launch of alice's lives."""
    machine, alice = system.machine, person("alice")
    uid = machine.run("id", "-u", alice).stdout.strip()
    one = Launched(system, alice).ready()
    machine.put(INTRUDER.encode(), "/usr/lib/amux/bin/intruder", 0o755)
    machine.put(f"{one.run} {one.agent} {uid}".encode(), "/usr/lib/amux/bin/hers")
    machine.run("mkdir", "-p", DROP_IN.rpartition("/")[0])
    machine.put(CHANGED, DROP_IN)
    try:
        machine.run("systemctl", "stop", UNIT)
        machine.run("systemctl", "daemon-reload")
        done = machine.run("systemctl", "start", UNIT, check=False)
        assert done.returncode == 0, [one["MESSAGE"] for one in machine.journal("-u", UNIT, "-n", "12")]
        yield json.loads(machine.get(f"{PLACE}/report.json"))
    finally:
        machine.run(
            "sh", "-c", f"rm -rf {DROP_IN.rpartition('/')[0]} /usr/lib/amux/bin/intruder /usr/lib/amux/bin/hers"
        )
        machine.run("sh", "-c", f"rm -f {PLACE}/report.json {PLACE}/intruder")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", UNIT)
    assert one.lives()
    one.end()


def test_m8_with_its_three_rights_an_intruder_gets_nowhere_as_root_or_as_a_user(report: dict[str, Any]) -> None:
    assert report["root"] == []
    assert report["user"] == []
    rights = {name: int(report["status"][name], 16) for name in ("CapEff", "CapPrm", "CapBnd")}
    assert set(rights.values()) == {(1 << 0) | (1 << 6) | (1 << 7)}
    assert {int(report["user_status"][name], 16) for name in ("CapInh", "CapEff", "CapPrm", "CapAmb")} == {0}
    assert report["user_status"]["NoNewPrivs"] == "1"
