"""Starts `amux launch` with the fake agent, and reads what that wrote down. Knows no more of launches than a person."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.harness import WAIT_SECONDS, until

FAKE = str(Path(__file__).with_name("fake_agent.py"))
SHELL = str(Path(__file__).with_name("shell.py"))
AMUX = str(Path(sys.executable).parent / "amux")
NO_HUB = "/nonexistent/hub.sock"


class World:
    """A home, a working directory and a Hub's address; each launch gets an environment built from nothing."""

    def __init__(self, directory: Path, hub: Path | str = NO_HUB) -> None:
        self.home = directory / "home"
        self.checkout = directory / "checkout"
        self.record = directory / "record"
        self.hub = str(hub)
        for made in (self.home, self.checkout):
            made.mkdir(parents=True, exist_ok=True)

    def environment(self, env: Mapping[str, str] | None = None) -> dict[str, str]:
        path = f"{Path(AMUX).parent}:/usr/local/bin:/usr/bin:/bin"
        return {"PATH": path, "HOME": str(self.home), "LC_ALL": "C.UTF-8", "AMUX_HUB": self.hub, **(env or {})}

    def words(
        self, *options: str, do: tuple[str, ...] = (), agent: str | None = "pi", args: tuple[str, ...] = ()
    ) -> list[str]:
        """The command line. `do` is for the fake agent, `args` are further arguments of the agent's."""
        fake = [f"fake:record={self.record}", *(f"fake:{word}" for word in do)]
        return [AMUX, "launch", *([agent] if agent else []), "--program", FAKE, *options, "--", *fake, *args]

    def popen(self, words: list[str], env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
        self.record.unlink(missing_ok=True)
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(words, env=self.environment(env), cwd=self.checkout, **{**pipes, **more})

    def run(self, *options: str, env: Mapping[str, str] | None = None, **more: Any) -> Ran:
        """One whole launch."""
        named = {key: more.pop(key) for key in ("do", "agent", "args") if key in more}
        with self.popen(self.words(*options, **named), env, **more) as process:
            try:
                out, err = process.communicate(timeout=WAIT_SECONDS)
            finally:
                process.kill()
        return Ran(process.returncode, out, err, self)

    def start(self, *options: str, env: Mapping[str, str] | None = None, **more: Any) -> subprocess.Popen[bytes]:
        """A launch whose agent is running and has written down how it was started."""
        named = {key: more.pop(key) for key in ("do", "agent", "args") if key in more}
        process = self.popen(self.words(*options, **named), env, **more)
        until(lambda: self.record.exists() or process.poll() is not None, "the agent starts")
        assert process.poll() is None, process.communicate()
        return process

    @property
    def started(self) -> dict[str, Any]:
        """What the agent saw of its start."""
        value: dict[str, Any] = json.loads(self.record.read_text())
        return value

    @property
    def agent_environment(self) -> dict[str, str]:
        return dict(entry.split("=", 1) for entry in self.started["environment"])

    def beside(self, suffix: str) -> Path:
        return self.record.with_name(self.record.name + suffix)

    @property
    def signals(self) -> list[str]:
        """The signals that the agent caught, in order."""
        return self.beside(".signals").read_text().split() if self.beside(".signals").exists() else []


class Ran:
    """What a launch left behind."""

    def __init__(self, status: int, out: bytes, err: bytes, world: World) -> None:
        self.status, self.out, self.err = status, out.decode(), err.decode()
        self.world = world

    def __repr__(self) -> str:
        return f"exit {self.status}\nout: {self.out}\nerr: {self.err}"

    @property
    def error(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.err.splitlines()[-1])["error"]
        return value


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):  # ESRCH: it ended between the open and the read
        return False


class Job:
    """A launch as the one job of a shell at a terminal."""

    def __init__(self, world: World, words: list[str], env: Mapping[str, str] | None = None) -> None:
        self.terminal, theirs = pty.openpty()
        name = os.ttyname(theirs)
        told, telling = os.pipe()
        commands, self._commanding = os.pipe()
        world.record.unlink(missing_ok=True)
        self._shell = subprocess.Popen(
            [sys.executable, SHELL, name, str(telling), str(commands), *words],
            env=world.environment({"TERM": "xterm", **(env or {})}),
            cwd=world.checkout,
            pass_fds=(telling, commands),
            stdin=subprocess.DEVNULL,
        )
        for fd in (telling, commands):
            os.close(fd)
        self._theirs = theirs  # kept open: reading a terminal that nobody has open is an error
        self._lines = os.fdopen(told, "r")
        self.pid = int(self.next().removeprefix("job "))

    def next(self) -> str:
        """What the shell says next of its job."""
        return self._lines.readline().strip()

    def tell(self, command: str) -> None:
        os.write(self._commanding, command.encode() + b"\n")

    def press(self, keys: bytes) -> None:
        os.write(self.terminal, keys)

    def shown(self) -> str:
        """What stands on the terminal by now."""
        os.set_blocking(self.terminal, False)
        shown = b""
        try:
            while data := os.read(self.terminal, 65536):
                shown += data
        except BlockingIOError:
            pass
        return shown.decode("utf-8", "replace")

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._shell.poll() is None and alive(self.pid):
            os.kill(self.pid, signal.SIGKILL)
        os.close(self._commanding)
        self._shell.wait(WAIT_SECONDS)
        self._lines.close()
        for fd in (self.terminal, self._theirs):
            os.close(fd)
