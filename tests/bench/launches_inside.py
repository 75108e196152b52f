"""Runs inside a booted host with the package installed, as root: what `amux launch` adds to a start. Prints JSON.

The agent is a program that ends at once, so every millisecond is the launch's; contestants take turns within a round.
Standard library alone, for the host's own Python.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median, quantiles

USER = "bench"
AS_USER = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "env", f"HOME=/home/{USER}"]
HOST_SWITCH = "memory:\n  enabled: true\n"
AGENT = Path("/usr/local/bin/agent-that-ends")
STAYS = Path("/usr/local/bin/agent-that-stays")
ROUNDS = 30
SOCKET = "/run/amux/launch.sock"
MODES = ("none", "private-home", "dac")


def milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1e3


def launch(mode: str, program: Path) -> list[str]:
    return ["amux", "launch", "pi", "--isolation", mode, "--program", str(program)]


def starts() -> dict[str, dict[str, float]]:
    contestants = {"bare": [str(AGENT)], **{mode: launch(mode, AGENT) for mode in MODES}}
    took: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(ROUNDS + 1):
        for turn in range(len(names)):
            name = names[(number + turn) % len(names)]
            began = time.perf_counter()
            subprocess.run(contestants[name], check=True, stdin=subprocess.DEVNULL, capture_output=True)
            if number:  # the first round fills caches
                took[name].append(milliseconds(began))
    return {name: spread(values) for name, values in took.items()}


def spread(values: list[float]) -> dict[str, float]:
    low, middle, high = quantiles(values, n=4)
    return {"low": low, "middle": middle, "high": high}


def copies() -> dict[str, float]:
    """The helper's part: from the connection to the run directory, to the lock taken note of, and its bytes."""
    request = {"amux": 1, "session": "s-" + "a" * 26, "binding": f"principal:{USER}"}
    made, held, size = [], [], 0
    for _ in range(ROUNDS):
        with socket.socket(socket.AF_UNIX) as peer:
            began = time.perf_counter()
            peer.connect(SOCKET)
            peer.sendall(json.dumps(request).encode() + b"\n")
            run = Path(json.loads(peer.recv(4096))["run"])
            made.append(milliseconds(began))
            lock = os.open(run / "lock", os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(lock, fcntl.LOCK_EX)
            peer.sendall(b'{"locked":true}\n')
            assert json.loads(peer.recv(4096))["ok"] is True
            held.append(milliseconds(began))
        size = sum(path.stat().st_size for path in run.rglob("*") if path.is_file())
        os.close(lock)
        while run.exists():
            time.sleep(0.01)
    return {"copy_ms": median(made), "launch_ms": median(held), "bytes": size}


def waiting() -> dict[str, float]:
    """What stands in memory for as long as a conversation lasts, in MiB, counted as PSS: shared pages by share."""
    command = [*AS_USER, *launch("dac", STAYS)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd="/")
    assert process.stdout is not None
    process.stdout.readline()
    helper = int(systemctl("show", "-P", "MainPID", "amux-materializer.service"))
    (waiter,) = children(helper)
    found = {"launch_mib": pss(process.pid), "waiter_mib": pss(waiter)}
    process.terminate()
    process.wait()
    return found


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout.strip()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def pss(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(text.split("\nPss:")[1].split()[0]) / 1024


def main() -> None:
    if sys.argv[1:] == ["as-user"]:
        print(json.dumps({"starts": starts(), **copies()}))
        return
    subprocess.run(["useradd", "--create-home", USER], check=True)
    AGENT.write_text("#!/bin/sh\n")
    STAYS.write_text("#!/bin/sh\necho started\nexec sleep 600\n")
    for path in (AGENT, STAYS):
        path.chmod(0o755)
    Path("/etc/amux/hub.yaml").write_text(HOST_SWITCH)
    systemctl("restart", "amux-hub.service")
    command = [*AS_USER, "python3", __file__, "as-user"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd="/")
    print(json.dumps({**json.loads(done.stdout), **waiting()}))


if __name__ == "__main__":
    main()
