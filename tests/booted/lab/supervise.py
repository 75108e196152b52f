"""`python -m tests.booted.lab.supervise NAME IMAGE SECONDS [NSPAWN OPTIONS]`: boot one container, keep it, end it.

Writes one line of JSON when the system is up, and takes it down at the end of its standard input or on SIGTERM,
SIGINT or SIGHUP. `systemctl reboot` inside ends it too.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.booted.lab import enter, image, janitor, state, surroundings
from tests.booted.lab.trouble import LabError

_OPTIONS = (
    *("--quiet", "--boot", "--register=no", "--keep-unit", "--settings=no", "--notify-ready=yes", "--console=pipe"),
    *("--network-veth", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--kill-signal=SIGRTMIN+4"),
    # Without these IPAddressDeny= is not enforced, and Landlock is refused to services.
    "--capability=CAP_BPF",
    "--system-call-filter=bpf landlock_create_ruleset landlock_add_rule landlock_restrict_self @keyring",
)
_POWEROFF_SECONDS = 20
_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(arguments: list[str]) -> int:
    name, tree, seconds, *options = arguments
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        lock = state.claim(name)
        with image.in_use(Path(tree)):
            _life(name, Path(tree), float(seconds), options, lock)
    except (LabError, OSError) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return 1
    return 0


def _life(name: str, tree: Path, seconds: float, options: list[str], lock: int) -> None:
    surroundings.leave_the_host()
    groups = surroundings.make_cgroups(name)
    warden, alarm = janitor.start(name, groups, lock)
    process: subprocess.Popen[bytes] | None = None
    leader: int | None = None
    try:
        surroundings.mount_tree(tree)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(surroundings.WORK / "notify"))
            process = _nspawn(name, groups, options)
            leader = _wait(process, ready, name, seconds)
        prefix = enter.inside(leader)
        surroundings.connect_network(prefix)
        question = [*prefix, "systemctl", "is-system-running", "--wait"]
        done = subprocess.run(question, stdout=subprocess.PIPE, check=False)
        print(json.dumps({"leader": leader, "state": done.stdout.decode().strip()}), flush=True)
        _until_the_end(process)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if process is not None:
            _power_off(process, leader)
        os.close(alarm)
        os.waitpid(warden, 0)


def _nspawn(name: str, groups: list[Path], options: list[str]) -> subprocess.Popen[bytes]:
    supervisor = os.getpid()

    def prepare() -> None:
        surroundings.LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor:
            os._exit(1)
        for group in groups:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    environment["NOTIFY_SOCKET"] = str(surroundings.WORK / "notify")
    place = ["--directory", str(surroundings.TREE), "--machine", name, "--hostname", name]
    with state.console(name).open("wb") as console:
        return subprocess.Popen(
            ["systemd-nspawn", *_OPTIONS, *place, *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
            preexec_fn=prepare,
        )


def _wait(process: subprocess.Popen[bytes], ready: socket.socket, name: str, seconds: float) -> int:
    """PID 1 of the container, once it says READY=1; both arrive on the notification socket."""
    deadline = time.monotonic() + seconds
    leader, up = None, False
    ready.settimeout(0.25)
    while leader is None or not up:
        if process.poll() is not None or time.monotonic() > deadline:
            end = state.console(name).read_text(errors="replace")[-2000:]
            raise LabError(f"{name} did not boot within {seconds:.0f} s; the end of its console:\n{end}")
        with contextlib.suppress(TimeoutError):
            for line in ready.recv(65536).decode().splitlines():
                if line.startswith("X_NSPAWN_LEADER_PID="):
                    leader = int(line.partition("=")[2])
                up = up or line == "READY=1"
    return leader


def _until_the_end(process: subprocess.Popen[bytes]) -> None:
    """Of standard input, or of the container itself."""
    death = os.pidfd_open(process.pid)
    try:
        select.select([sys.stdin.fileno(), death], [], [])
    finally:
        os.close(death)


def _power_off(process: subprocess.Popen[bytes], leader: int | None) -> None:
    if process.poll() is None and leader is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGRTMIN + 4)  # systemd(1): poweroff.target
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POWEROFF_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
