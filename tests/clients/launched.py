"""What the tests of launched clients share: somebody who types `amux launch`, and what is compared before and after.

person = Person(program, hub, tmp_path, "pi"); person.launch("--", "-p", "Hello"); person.session()
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.clients.model import Script
from tests.harness import Hub
from tests.mcp.peers import AMUX

SECONDS = 180


class Person:
    """Somebody with a home, a checkout, a private Hub and one agent. Their environment is made from nothing."""

    def __init__(self, program: str, hub: Hub, directory: Path, agent: str) -> None:
        self.program, self.hub, self.agent = program, hub, agent
        self.home, self.checkout = directory / "home", directory / "checkout"
        self.home.mkdir(parents=True)
        self.checkout.mkdir()
        self.env = {
            "PATH": f"{Path(AMUX[0]).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(hub.runtime.parent),
            "LC_ALL": "C.UTF-8",
        }

    def launch_words(self, *own: str, resume: str | None = None, options: tuple[str, ...] = ()) -> list[str]:
        """The command line of a launch; `own` are the agent's arguments."""
        which = [self.agent] if resume is None else ["--resume", resume]
        return [AMUX[0], "launch", *which, "--program", self.program, *options, "--", *own]

    def run(self, words: list[str], said: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end in the checkout; `said` is its standard input."""
        return subprocess.run(
            words,
            env={**self.env, **env},
            cwd=self.checkout,
            input=said,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def popen(self, words: list[str]) -> subprocess.Popen[str]:
        """Start it with pipes to talk through; its standard error goes to ours."""
        return subprocess.Popen(
            words, env=self.env, cwd=self.checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def sessions(self) -> list[dict[str, Any]]:
        """What the Hub knows of the launches of this person."""
        done = self.run([AMUX[0], "session", "list"])
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["sessions"]
        return found


def tell(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    """One JSON line to the standard input of a client that is driven so."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def hear(process: subprocess.Popen[str], end: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The JSON lines of its standard output, up to the one that `end` is true of. Fails if it ends before."""
    assert process.stdout is not None
    heard = []
    for line in process.stdout:
        heard.append(json.loads(line))
        if end(heard[-1]):
            return heard
    raise AssertionError(f"it ended with {process.wait()} after {heard}")


def says(words: str) -> Callable[[], Script]:
    """A model that calls nothing."""

    def script() -> Script:
        return words
        yield

    return script


def checksums(directory: Path) -> dict[str, str]:
    """Each file below the directory, by its path there."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in directory.rglob("*")
        if path.is_file()
    }


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The files that are new, gone or different."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
