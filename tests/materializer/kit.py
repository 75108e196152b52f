"""Helpers of these tests: a materializer with the capabilities of its unit, and launches of one account or another."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lint.sources import ROOT

PATIENCE = 20.0
"""How long anything is waited for, in seconds."""

SESSION = "s-" + "a2" * 13
WANTED: dict[str, object] = {"amux": 1, "session": SESSION, "binding": "global"}
ARCHIVE = b"PK\x03\x04 the archive" * 5000
UNIT = ["setpriv", "--bounding-set", "-all,+setuid,+setgid,+chown", "--inh-caps", "-all", "--ambient-caps", "-all"]


class Account:
    def __init__(self, name: str) -> None:
        entry = pwd.getpwnam(name)
        self.name, self.uid, self.gid = name, entry.pw_uid, entry.pw_gid
        self.groups = os.getgrouplist(name, self.gid)

    def run(self, code: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Python as this account."""
        return subprocess.Popen(
            ["/usr/bin/python3", "-IS", "-c", code, *arguments],
            cwd="/",
            user=self.uid,
            group=self.gid,
            extra_groups=self.groups,
            stdout=subprocess.PIPE,
        )


@contextlib.contextmanager
def being(uid: int, gid: int | None = None) -> Iterator[None]:
    """This process as that account, as far as a connection and a new file tell."""
    os.setegid(uid if gid is None else gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class Helper:
    """A serving process below one directory, and its log. `start` again is its next start."""

    def __init__(self, base: Path) -> None:
        self.base, self.parent, self.archive = base, base / "launches", base / "amux.pyz"
        self.parent.mkdir(mode=0o711)
        self.parent.chmod(0o711)
        self.archive.write_bytes(ARCHIVE)
        self.archive.chmod(0o644)
        self.path = str(base / "launch.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        os.chmod(self.path, 0o666)
        self.listener.listen(256)
        self._seen: set[int] = set()
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **how: Any) -> None:
        fd = self.listener.fileno()
        words = [str(fd), str(self.parent), str(self.archive), "1000"]
        with (self.base / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*UNIT, sys.executable, "-m", "tests.materializer.serve", *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **{"pass_fds": [fd], **how},
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def log(self) -> str:
        return (self.base / "log").read_text(encoding="utf-8")

    def records(self, kind: str) -> list[str]:
        return [line for line in self.log().splitlines() if line.startswith(f"{kind}:")]

    def runs(self) -> list[Path]:
        return sorted(self.parent.iterdir())

    def waiters(self) -> list[int]:
        """The children: of requests that are under way, and of launches."""
        found = [
            int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii").split()
        ]
        self._seen.update(found)
        return found

    def connect(self, uid: int, gid: int | None = None) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(PATIENCE)
        with being(uid, gid):
            peer.connect(self.path)
        return peer

    def ask(self, uid: int, data: bytes) -> dict[str, Any]:
        """The first answer to a request; empty if there is none."""
        with self.connect(uid) as peer:
            with contextlib.suppress(BrokenPipeError):
                peer.sendall(data)
            return hear(peer)

    def launch(self, account: Account, **fields: object) -> Launch:
        return Launch(self, account, {**WANTED, **fields})

    def kill(self) -> None:
        """As a crash: its children live on."""
        assert self.process is not None
        self.waiters()
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.waiters()
            self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        try:
            self.stop()
        finally:
            for pid in self._seen:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.listener.close()


class Launch:
    """One that is under way, with its lock held by this process."""

    def __init__(self, helper: Helper, account: Account, wanted: dict[str, object]) -> None:
        with helper.connect(account.uid, account.gid) as peer:
            peer.sendall(line(wanted))
            answer = hear(peer)
            assert "run" in answer, answer
            self.run = Path(answer["run"])
            self.lock = os.open(self.run / "lock", os.O_RDWR | os.O_NOFOLLOW)
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            peer.sendall(line({"locked": True}))
            assert hear(peer) == {"ok": True}
            assert peer.recv(1) == b""

    def end(self) -> None:
        os.close(self.lock)


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def hear(peer: socket.socket) -> dict[str, Any]:
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while not data.endswith(b"\n") and (more := peer.recv(4096)):
            data += more
    found: dict[str, Any] = json.loads(data) if data else {}
    return found


def wait_for(what: Callable[[], object], text: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, f"waited in vain for: {text}"
        time.sleep(0.01)


def status(pid: int) -> dict[str, str]:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return {name: " ".join(value.split()) for name, _, value in (row.partition(":") for row in text.splitlines())}


@contextlib.contextmanager
def directory() -> Iterator[Path]:
    """One that other accounts can enter: pytest's own cannot be."""
    base = Path(tempfile.mkdtemp(prefix="amux-launch-"))
    base.chmod(0o755)
    try:
        yield base
    finally:
        shutil.rmtree(base)


@contextlib.contextmanager
def accounts(*names: str) -> Iterator[list[Account]]:
    """Accounts of this machine, each in one more group; removed afterwards."""
    made: list[list[str]] = []

    def run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"

    try:
        run("groupadd", "amuxm-more")
        made.append(["groupdel", "amuxm-more"])
        for name in names:
            run("useradd", "--no-create-home", "--no-log-init", "--groups", "amuxm-more", "--shell", "/bin/sh", name)
            made.append(["userdel", name])
        yield [Account(name) for name in names]
    finally:
        for command in reversed(made):
            subprocess.run(command, capture_output=True, check=False)


RUN = re.compile(r"[0-9a-f]{32}")
