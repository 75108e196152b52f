"""`Launched`: a launch of a real account on the installed machine, with an agent of a few words, going on."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from typing import Any

from tests.booted.lab.machine import ROOT, Done
from tests.booted.system import System

FAKE = ROOT / "tests" / "launch" / "fake_agent.py"
AGENT = "/usr/local/bin/fake-agent"
PLACE = "/run/amux-launches"
TOOL = "/usr/lib/amux/launch-bin/amux"
UNIT = "amux-materializer"

IN_A_TERMINAL = """
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
print(os.getpid(), flush=True)
while True:
    os.read(terminal, 1024)
"""
"""The terminal of a command, until it is killed."""


class Launched:
    """Begun in the background; `started` is what the agent wrote down about itself, once `ready` was called."""

    def __init__(self, system: System, user: str, *do: str, terminal: bool = False) -> None:
        self.system, self.machine, self.user = system, system.machine, user
        self.machine.put(FAKE, AGENT, 0o755)
        self.record = f"/home/{user}/record"
        self.machine.run("rm", "-f", self.record)
        words = ["amux", "launch", "pi", "--program", AGENT, "--", f"fake:record={self.record}", "fake:wait"]
        words += [f"fake:{word}" for word in do]
        before = ["python3", "-IS", "-c", IN_A_TERMINAL] if terminal else []
        self.process = self.machine.start(
            *before, *words, user=user, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.terminal = int(self.process.stdout.readline()) if terminal and self.process.stdout else 0
        self.started: dict[str, Any] = {}

    def ready(self) -> Launched:
        """Wait until the agent runs."""

        def there() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"amux launch ended: {self.process.communicate()}")
            return self.machine.run("test", "-e", self.record, check=False).returncode == 0

        self.machine.wait(f"the agent of {self.user}", there)
        self.started = json.loads(self.machine.get(self.record))
        return self

    @property
    def environment(self) -> dict[str, str]:
        """Of the agent, as the kernel has it."""
        words: list[str] = self.started["environment"]
        assert len({word.partition("=")[0] for word in words}) == len(words), "a variable stands twice"
        return dict(word.partition("=")[::2] for word in words)

    @property
    def run(self) -> str:
        return self.environment["AMUX_RUN"]

    @property
    def agent(self) -> int:
        return int(self.started["pid"])

    @property
    def launcher(self) -> int:
        """The process `amux launch`."""
        return int(self.started["parent"])

    def said(self) -> dict[str, Any]:
        """What the agent's `run=COMMAND` came to."""
        found: dict[str, Any] = json.loads(self.machine.get(self.record + ".run"))
        return found

    def connection(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.machine.get(f"{self.run}/agent-config/memory/connection.json"))
        return found

    def tool(self, *words: str) -> Done:
        """The launch's own `amux`, as the agent would call it."""
        return self.machine.run("env", f"AMUX_RUN={self.run}", TOOL, *words, user=self.user, check=False)

    def kill(self, pid: int, name: str = "KILL") -> None:
        self.machine.run("kill", f"-{name}", str(pid))

    def lives(self) -> bool:
        """Its agent runs and its memory answers."""
        there = self.machine.run("test", "-d", f"/proc/{self.agent}", check=False).returncode == 0
        return there and self.tool("whoami").returncode == 0

    def is_gone(self) -> None:
        """Wait until nothing of it is left: no process, no directory."""
        self.process.communicate(timeout=60)
        for path in (f"/proc/{self.agent}", f"/proc/{self.launcher}", self.run):
            self.machine.wait(f"{path} to be gone", partial(self._missing, path))

    def _missing(self, path: str) -> bool:
        return self.machine.run("test", "-e", path, check=False).returncode != 0

    def end(self) -> None:
        if self.process.poll() is None:
            self.kill(self.agent, "TERM")
        self.is_gone()


def runs(system: System, user: str | int) -> list[str]:
    """The run directories of an account."""
    return system.machine.run("find", PLACE, "-mindepth", "1", "-maxdepth", "1", "-user", str(user)).stdout.split()


def waiters(system: System, user: str) -> list[int]:
    """The helper's processes that are this account."""
    parent = system.show(UNIT, "MainPID")
    return [int(pid) for pid in system.machine.run("pgrep", "-P", parent, "-u", user, check=False).stdout.split()]


def records(system: System, kind: str, uid: int) -> list[dict[str, Any]]:
    """The helper's own records about a UID."""
    return system.machine.journal("-u", UNIT, f"AMUX_AUDIT={kind}", f"AMUX_UID={uid}")


def refusals(system: System, uid: int) -> int:
    """How many requests of a UID were refused, by the records: those that were held back are counted in one."""
    return sum(int(one.get("AMUX_HELD", 1)) for one in records(system, "refused", uid))


def status(system: System, pid: int) -> dict[str, str]:
    """proc_pid_status(5) of a process."""
    text = system.machine.get(f"/proc/{pid}/status").decode()
    return {name: " ".join(value.split()) for name, _, value in (row.partition(":") for row in text.splitlines())}
