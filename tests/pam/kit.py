"""Helpers of these tests: a listening socket, a process that serves it, and questions over it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.lint.sources import ROOT

PATIENCE = 20.0
"""How long anything is waited for, in seconds."""


class Helper:
    """A serving process, its socket, and what it wrote to standard error."""

    def __init__(self, directory: Path, command: list[str], **env: str) -> None:
        self.path = str(directory / "pam.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen(256)
        self._log = directory / "log"
        self._reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._reports.settimeout(PATIENCE)
        self._reports.bind(str(directory / "report"))
        command = [str(self.listener.fileno()) if word == "FD" else word for word in command]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[self.listener.fileno()],
            )

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def report(self) -> Any:
        """What a judge of `stub` reported next."""
        return json.loads(self._reports.recv(65536))

    def children(self) -> list[int]:
        """Processes of verdicts that run."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text(encoding="ascii").split()]

    def connect(self) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(PATIENCE)
        peer.connect(self.path)
        return peer

    def send(self, data: bytes) -> socket.socket:
        peer = self.connect()
        peer.sendall(data)
        return peer

    def ask(self, uid: int) -> str:
        """The answer, which is one line and the end; empty if there is none."""
        with self.send(b"%d\n" % uid) as peer:
            return rest(peer)

    def close(self) -> int:
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.wait()
            self.listener.close()
            self._reports.close()


def rest(peer: socket.socket) -> str:
    """All that comes until the other side closes, without the line feed that must end it."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := peer.recv(4096):
            data += more
    assert not data or (data.count(b"\n") == 1 and data.endswith(b"\n")), data
    return data[:-1].decode("ascii")


def wait_for(what: Callable[[], object], text: str) -> None:
    end = time.monotonic() + PATIENCE
    while not what():
        assert time.monotonic() < end, f"waited in vain for: {text}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether a process runs: a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # ESRCH: it ended between the open and the read
        return False
    return state != "Z"


@contextlib.contextmanager
def stub(directory: Path, seconds: float = 60, peer: int | None = None, **env: str) -> Iterator[Helper]:
    """The server with the judges of `stub`, serving `peer` (this account if None)."""
    served = os.getuid() if peer is None else peer
    command = [sys.executable, "-m", "tests.pam.stub", "FD", str(seconds), str(served), str(directory)]
    helper = Helper(directory, command, **env)
    try:
        yield helper
    finally:
        (directory / "gate").touch()
        helper.close()
