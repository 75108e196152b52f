"""A real Hub process for tests: start it, wait until it serves, talk to it over plain sockets, stop it.

Promises: `start()` returns once the Hub said READY=1 on a NOTIFY_SOCKET of ours (or raises `HubFailedError`
with its standard error), nothing outlives the `with` block, and the environment is built from nothing, so no
setting of the person who runs the tests reaches the Hub. It knows nothing of what the Hub is for.

    with Hub(tmp_path, mcp=False) as hub:
        reply = hub.call("io.amux.Hub.GetStatus")

With `held=True` the listening sockets belong to the harness, as systemd holds them for a unit: they stay
across `restart()`, and connections queue in them while no Hub runs.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("hub", "mcp", "admin")
WAIT_SECONDS = 30.0
"""How long anything here may take before it counts as a hang; never a promise about speed."""

# Puts the descriptors given as arguments at 3, 4, 5, … and becomes the Hub: LISTEN_PID must be its own pid.
_HOLDER = """
import fcntl, os, sys
count = int(sys.argv[1])
kept = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[2:2 + count]]
for fd in sys.argv[2:2 + count]:
    os.set_inheritable(int(fd), False)
for target, fd in enumerate(kept, 3):
    os.dup2(fd, target)
    os.close(fd)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2 + count], sys.argv[2 + count:])
"""


class HubFailedError(Exception):
    """The Hub ended before it served. `status` is its exit status, `stderr` everything that it wrote."""

    def __init__(self, status: int | None, stderr: str) -> None:
        super().__init__(f"the Hub did not start (exit {status}): {stderr.strip()}")
        self.status = status
        self.stderr = stderr


class Channel:
    """One open Varlink connection, blocking, without any checking of its own."""

    def __init__(self, path: str | Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(WAIT_SECONDS)
        self.socket.connect(str(path))
        self._buffer = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive(self) -> dict[str, Any] | None:
        """The next frame, or None at the end of the stream; a reset counts as the end."""
        while b"\0" not in self._buffer:
            try:
                data = self.socket.recv(65536)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._buffer += data
        frame, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(frame)
        return answer

    def call(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        """The whole reply object: `{"parameters": …}` or `{"error": …, "parameters": …}`."""
        self.send(json.dumps({"method": method, "parameters": parameters}).encode() + b"\0")
        answer = self.receive()
        if answer is None:
            raise ConnectionError(f"the Hub closed the connection instead of answering {method}")
        return answer

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Hub:
    """A Hub in a home of its own under `directory`, which is kept across `restart()`."""

    def __init__(
        self,
        directory: Path,
        *,
        mcp: bool = True,
        enabled: bool = True,
        held: bool = False,
        config: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        umask: int = 0o022,
        python: Sequence[str] = (sys.executable,),
        preexec: Any = None,
    ) -> None:
        """`mcp=False` never imports the MCP SDK (a second of start). `enabled` is the saved switch.

        `config` becomes hub.yaml (nested mappings; JSON is YAML). `env` is added to a bare environment.
        `preexec` runs in the child before the Hub, for resource limits.
        """
        self.directory = directory
        self.home = directory / "home"
        self.config_file = directory / "hub.yaml"
        # Socket paths end at 107 bytes and pytest's directories can be long.
        self._short = Path(tempfile.mkdtemp(prefix="amux-t-"))
        self.runtime = self._short / "amux"
        self.sockets = {name: self.runtime / f"{name}.sock" for name in NAMES}
        self.stderr_file = directory / "hub.stderr"
        self.notifications: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._mcp, self._held, self._umask = mcp, held, umask
        self._python, self._preexec = list(python), preexec
        self.env = {"PATH": os.environ["PATH"], "HOME": str(directory), "XDG_RUNTIME_DIR": str(self._short)}
        self.env["AMUX_HOME"] = str(self.home)
        self.env.update(env or {})
        self.holding: dict[str, socket.socket] = {}
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self._short / "notify"))
        directory.mkdir(parents=True, exist_ok=True)
        self.write_config(config or {})
        if enabled:
            self.save_settings({"memory": {"enabled": True}})

    def write_config(self, config: Mapping[str, object]) -> None:
        merged = json.loads(json.dumps(config))
        if not self._mcp:
            merged.setdefault("sockets", {})["mcp"] = ""
        self.config_file.write_text(json.dumps(merged))

    def save_settings(self, settings: Mapping[str, object]) -> None:
        self.home.mkdir(mode=0o700, exist_ok=True)
        self.home.chmod(0o700)
        path = self.home / "settings.yaml"
        path.write_text(json.dumps(settings))
        path.chmod(0o600)

    def hold(self) -> None:
        """Bind the sockets here, as a `.socket` unit does."""
        self.runtime.mkdir(mode=0o700, exist_ok=True)
        for name in NAMES:
            if name in self.holding or (name == "mcp" and not self._mcp):
                continue
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(str(self.sockets[name]))
            self.sockets[name].chmod(0o600)
            listener.listen(512)
            self.holding[name] = listener

    def command(self) -> list[str]:
        return [*self._python, "-m", "amux_hub", "--config", str(self.config_file)]

    def spawn(self, arguments: Sequence[str] = (), **extra_env: str) -> subprocess.Popen[bytes]:
        """Start the process without waiting for anything."""
        env = {**self.env, "NOTIFY_SOCKET": str(self._short / "notify"), **extra_env}
        command = [*self.command(), *arguments]
        descriptors: list[int] = []
        if self._held:
            self.hold()
            descriptors = [listener.fileno() for listener in self.holding.values()]
            env["LISTEN_FDS"] = str(len(descriptors))
            env.setdefault("LISTEN_FDNAMES", ":".join(self.holding))
            holder = [sys.executable, "-c", _HOLDER, str(len(descriptors)), *map(str, descriptors)]
            command = [*holder, *command]
        with self.stderr_file.open("ab") as stderr:
            self.process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                umask=self._umask,
                pass_fds=descriptors,
                preexec_fn=self._preexec,
                cwd=self.directory,
            )
        return self.process

    def start(self, **extra_env: str) -> Hub:
        self.notifications.clear()
        self.spawn(**extra_env)
        self.wait_notification("READY=1")
        return self

    def wait_notification(self, line: str, *, times: int = 1) -> list[str]:
        """Wait until `line` was notified `times` times since `start`; everything notified so far."""
        deadline = time.monotonic() + WAIT_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._notify, selectors.EVENT_READ)
            while sum(line in message.splitlines() for message in self.notifications) < times:
                if selector.select(0.05):
                    self.notifications.append(self._notify.recv(65536).decode())
                elif self.process is not None and self.process.poll() is not None:
                    raise HubFailedError(self.process.returncode, self.stderr)
                elif time.monotonic() > deadline:
                    raise TimeoutError(f"no {line} in {self.notifications}: {self.stderr}")
        return self.notifications

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        """The exit status of the Hub once it ended."""
        assert self.process is not None
        status = self.process.wait(WAIT_SECONDS)
        self.process = None
        return status

    def stop(self) -> int:
        """TERM and wait: the exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def restart(self) -> Hub:
        self.stop()
        return self.start()

    @property
    def stderr(self) -> str:
        return self.stderr_file.read_text() if self.stderr_file.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def connect(self, name: str = "hub") -> Channel:
        return Channel(self.sockets[name])

    def call(self, method: str, /, socket_name: str = "hub", **parameters: Any) -> dict[str, Any]:
        """One call on a connection of its own; the whole reply object."""
        with self.connect(socket_name) as channel:
            return channel.call(method, **parameters)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process = None
        for listener in self.holding.values():
            listener.close()
        self._notify.close()
        shutil.rmtree(self._short, ignore_errors=True)

    def __enter__(self) -> Hub:
        try:
            return self if self.process is not None else self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            sys.stderr.write(f"--- standard error of the Hub\n{self.stderr}---\n")
        self.close()


def until(condition: Any, what: str) -> Any:
    """Poll `condition()` until it answers something true; that answer."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.005)
    return answer
