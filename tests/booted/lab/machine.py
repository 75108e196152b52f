"""`Machine`: one booted system, and what a test does with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.booted.lab import enter, image, state, surroundings
from tests.booted.lab.trouble import LabError

ROOT = Path(__file__).resolve().parents[3]
BOOT_SECONDS = 60.0
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Account:
    """An account of the machine; `home` is a path inside."""

    name: str
    uid: int
    gid: int
    home: str


class CommandError(AssertionError):
    """A command inside ended with another status than 0; the message holds what it said."""


class Machine:
    """Boots in about a second. Use as a context manager; the death of this process takes it down as well."""

    address = surroundings.INNER_ADDRESS
    outer_address = surroundings.OUTER_ADDRESS

    def __init__(self, suite: str, name: str | None = None, binds: Mapping[Path, str] | None = None) -> None:
        """`binds`: directories of the host, each with the path inside at which it appears read-only."""
        self.suite, self.name = suite, name or f"{suite}-{os.getpid()}"
        tree = image.ensure(suite)
        state.sweep()
        options = [f"--bind-ro={source}:{target}" for source, target in (binds or {}).items()]
        command = [sys.executable, "-m", "tests.booted.lab.supervise", self.name, str(tree), str(BOOT_SECONDS)]
        self.supervisor = subprocess.Popen(
            [*command, *options], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.supervisor.stdout is not None
        line = self.supervisor.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": "its supervisor died"}
        if "error" in answer:
            self.close()
            raise LabError(f"{self.name}: {answer['error']}")
        self.leader: int = answer["leader"]
        self.state: str = answer["state"]
        """What `systemctl is-system-running` said after the boot."""

    def close(self) -> None:
        """Power off and clear away; a second call does nothing."""
        assert self.supervisor.stdin is not None and self.supervisor.stdout is not None
        self.supervisor.stdin.close()
        self.supervisor.stdout.close()
        self.supervisor.wait()

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def run(
        self,
        *command: str,
        user: str | int | None = None,
        stdin: str | None = None,
        env: Mapping[str, str] | None = None,
        check: bool = True,
        seconds: float = 60,
    ) -> Done:
        """A command as root, as an account by name (its groups and home), or as a bare UID.

        A death by a signal is a negative `returncode`, as of subprocess. Its cgroup, seccomp filter and bounding set
        are not those of the container: use `unit` for what is to be confined.
        """
        return self._do([*enter.inside(self.leader, env), *enter.become(user), *command], stdin, check, seconds)

    def unit(
        self,
        *command: str,
        user: str | None = None,
        properties: Sequence[str] = (),
        stdin: str | None = None,
        check: bool = True,
        seconds: float = 60,
    ) -> Done:
        """A command in a transient unit; `properties` as in a unit file (`PrivateTmp=yes`). By a signal: status 255."""
        options = [*(f"--property={line}" for line in properties), *([f"--uid={user}"] if user else [])]
        start = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", *options, "--"]
        literal = [word.replace("$", "$$") for word in command]  # systemd.service(5): it expands variables itself
        return self._do([*enter.inside(self.leader), *start, *literal], stdin, check, seconds)

    def outside(self, *command: str, stdin: str | None = None, check: bool = True, seconds: float = 60) -> Done:
        """A command on the host's files at the other end of the wire: it reaches the machine at `address`."""
        return self._do([*enter.outside(self.supervisor.pid), *command], stdin, check, seconds)

    def start(self, *command: str, user: str | int | None = None, **options: Any) -> subprocess.Popen[str]:
        """The same as `run`, going on; `options` of Popen. The caller ends and waits for it."""
        return subprocess.Popen([*enter.inside(self.leader), *enter.become(user), *command], text=True, **options)

    def account(self, name: str, *options: str) -> Account:
        """A new account with a home; `options` of useradd(8). Then `chage` and `usermod` by `run`."""
        self.run("useradd", "--create-home", "--shell", "/bin/bash", *options, name)
        _, _, uid, gid, _, home, _ = self.run("getent", "passwd", name).stdout.strip().split(":")
        return Account(name, int(uid), int(gid), home)

    def remove_account(self, name: str) -> None:
        """With its processes and its home; nothing if it is gone."""
        if self.run("getent", "passwd", name, check=False).returncode == 0:
            self.run("pkill", "-KILL", "-u", name, check=False)
            self.run("userdel", "--force", "--remove", name, check=False)

    def put(self, content: bytes | Path, target: str, mode: int = 0o644, owner: str = "root:root") -> None:
        """A file inside, complete under its name at once; its directory exists."""
        data = content.read_bytes() if isinstance(content, Path) else content
        script = 'set -e; cat >"$0.new"; chown "$2" "$0.new"; chmod "$1" "$0.new"; mv -T "$0.new" "$0"'
        command = [*enter.inside(self.leader), "sh", "-c", script, target, f"{mode:o}", owner]
        subprocess.run(command, input=data, check=True, timeout=60)

    def get(self, source: str) -> bytes:
        """The bytes of a file inside."""
        command = [*enter.inside(self.leader), "cat", "--", source]
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=60).stdout

    def install(self, deb: Path) -> Done:
        """Install or upgrade a Debian package; everything it depends on is in the image already."""
        self.put(deb, f"/tmp/{deb.name}")
        quiet = {"DEBIAN_FRONTEND": "noninteractive"}
        return self.run("dpkg", "--install", f"/tmp/{deb.name}", env=quiet, seconds=300)

    def journal(self, *matches: str) -> list[dict[str, Any]]:
        """Entries as dictionaries, oldest first; `matches` of journalctl(1): `_SYSTEMD_UNIT=…`, `-u x`, `-n 5`."""
        self.run("journalctl", "--sync")
        lines = self.run("journalctl", "--no-pager", "--all", "-o", "json", *matches).stdout.splitlines()
        return [json.loads(line) for line in lines]

    def wait(self, what: str, condition: Callable[[], object], seconds: float = 20) -> None:
        """Until the condition is true; fails saying `what` was waited for."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: waited {seconds:.0f} s in vain for: {what}")
            time.sleep(0.05)

    @staticmethod
    def _do(command: list[str], stdin: str | None, check: bool, seconds: float) -> Done:
        done = subprocess.run(command, input=stdin or "", capture_output=True, text=True, check=False, timeout=seconds)
        if check and done.returncode != 0:
            raise CommandError(f"status {done.returncode} of {' '.join(command)}\n{done.stdout}{done.stderr}")
        return done
