#!/usr/bin/python3
"""An agent of a few words: writes down how it was started, then does what its arguments say.

Arguments that begin with `fake:` are for it: `record=FILE` (required), `exit=N`, `kill=SIGNAL`, `raw` (leaves the
terminal in raw mode), `wait` (until a signal ends it; each signal that it can catch is added to FILE.signals),
`child` (starts a child as npm's wrappers do, its pid in FILE.child, the signals that it hears in FILE.heard), `stop`
(stops its group once, as Ctrl-Z does), `run=COMMAND` (runs it in a shell, its output and status in FILE.run). It knows
nothing of amux.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tty
from types import FrameType

words = dict(word[5:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("fake:"))
record = words["record"]


def write(suffix: str, value: str) -> None:
    with open(record + suffix + ".new", "w") as file:
        file.write(value)
    os.replace(record + suffix + ".new", record + suffix)


def caught(number: int, _frame: FrameType | None) -> None:
    with open(record + ".signals", "a") as file:
        file.write(signal.Signals(number).name + "\n")
    if number in (signal.SIGTERM, signal.SIGHUP):
        sys.exit(0)


def ignored() -> dict[str, str]:
    with open("/proc/self/status") as file:
        status = dict(line.split(":\t", 1) for line in file.read().splitlines() if ":\t" in line)
    return {name: status[name] for name in ("SigBlk", "SigIgn")}


def descriptors() -> dict[int, str]:
    found = {}
    for fd in range(250):
        try:
            found[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    return found


def environment() -> list[str]:
    with open("/proc/self/environ", "rb") as file:
        return file.read().decode("utf-8", "surrogateescape").split("\0")[:-1]


def foreground() -> int | None:
    try:
        with open("/dev/tty") as terminal:
            return os.tcgetpgrp(terminal.fileno())
    except OSError:
        return None


mask = os.umask(0)
os.umask(mask)
started = {
    "argv": sys.argv,
    "cwd": os.getcwd(),
    "descriptors": descriptors(),
    "environment": environment(),
    "foreground": foreground(),
    "group": os.getpgrp(),
    "limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "parent": os.getppid(),
    "pid": os.getpid(),
    "signals": ignored(),
    "umask": mask,
}
if "wait" in words:
    for name in ("SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH"):
        signal.signal(getattr(signal, name), caught)
if "child" in words:
    # The child ends for nothing but SIGKILL, and inherits nothing: so are the programs that wrappers start.
    code = "import signal, sys, time\nheard = lambda n, _: print(n, file=open(sys.argv[1], 'a'), flush=True)\n"
    code += "for n in (1, 2, 3, 15): signal.signal(n, heard)\nprint(flush=True)\nwhile True: time.sleep(600)"
    child = subprocess.Popen([sys.executable, "-c", code, record + ".heard"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    write(".child", str(child.pid))
if "run" in words:
    done = subprocess.run(words["run"], shell=True, capture_output=True, text=True, check=False)
    write(".run", json.dumps({"status": done.returncode, "out": done.stdout, "err": done.stderr}))
write("", json.dumps(started))
if "raw" in words:
    tty.setraw(0)
if "stop" in words:
    os.killpg(os.getpgrp(), signal.SIGTSTP)
    write(".continued", str(foreground()))
if "wait" in words:
    while True:
        signal.pause()
if "kill" in words:
    number = getattr(signal, words["kill"])
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)  # whoever started the tests may have ignored it
    os.kill(os.getpid(), number)
sys.exit(int(words.get("exit") or 0))
