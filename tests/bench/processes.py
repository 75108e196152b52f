"""Child processes as cheaply as a shell starts them, MCP over their pipes, and what the kernel counted of them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

LOCALE = "C.UTF-8"
ANSWER_SECONDS = 300.0
"""How long a server may take to answer before the bench gives up; not a promise about anything."""

_READ = 1 << 20


def environment(**more: str) -> dict[str, str]:
    """What every contestant gets: a fixed locale, nothing of the caller's but PATH and HOME."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": LOCALE, "LANG": LOCALE, **more}


def run(command: Sequence[str], env: Mapping[str, str], ok: tuple[int, ...] = (0,)) -> bytes:
    """The standard output of a whole process, started with posix_spawn(3), read to its end, and reaped.

    Raises RuntimeError for another exit status than those of `ok`.
    """
    reading, writing = os.pipe()
    actions = [(os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_CLOSE, reading)]
    pid = os.posix_spawn(command[0], list(command), dict(env), file_actions=actions)
    os.close(writing)
    parts = []
    while part := os.read(reading, _READ):
        parts.append(part)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code not in ok:
        raise RuntimeError(f"{' '.join(command)} ended with {code}: {b''.join(parts)[-500:]!r}")
    return b"".join(parts)


def memory_kib(pid: int, field: str) -> int:
    """One line of /proc/PID/status, proc(5): VmRSS is what is resident now, VmHWM the most that ever was."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"/proc/{pid}/status has no {field}")


class Mcp:
    """An MCP server on the pipes of a child process, one raw JSON line a message; for all servers the same.

    The bench's own client, not an SDK: its cost is the same few microseconds for everybody. Answers are
    not parsed while time is taken, only told from notifications.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.command = list(command)
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                self.command, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._in, self._out = self.process.stdin.fileno(), self.process.stdout.fileno()
        self._number = 0
        self._rest = b""
        self._log = log

    def request(self, method: str, parameters: Mapping[str, Any]) -> bytes:
        """Send one request and read up to the line that answers it."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters}
        self._send(message)
        while True:
            line = self._line()
            # Notifications are short; an answer of megabytes is not parsed while the clock runs.
            if len(line) > 4096 or json.loads(line).get("id") == self._number:
                return line

    def call(self, tool: str, **arguments: Any) -> bytes:
        return self.request("tools/call", {"name": tool, "arguments": arguments})

    def open(self) -> bytes:
        """The handshake, and the answer to tools/list."""
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
        self.request("initialize", client)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self.request("tools/list", {})

    def _send(self, message: Mapping[str, Any]) -> None:
        data = memoryview(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        while data:
            data = data[os.write(self._in, data) :]

    def _line(self) -> bytes:
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            if not select.select([self._out], [], [], ANSWER_SECONDS)[0]:
                raise RuntimeError(f"{self.command[0]} did not answer within {ANSWER_SECONDS:g} s: see {self._log}")
            data = os.read(self._out, _READ)
            if not data:
                raise RuntimeError(f"{' '.join(self.command)} ended: {self._log.read_text()[-2000:]}")
            parts.append(data)
        last, _, self._rest = parts.pop().partition(b"\n")
        return b"".join([*parts, last])

    def close(self) -> None:
        """Close its input, which ends a server on stdio; kill what does not end."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Mcp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def started(command: Sequence[str], env: Mapping[str, str], log: Path) -> tuple[float, float]:
    """Start an MCP server: milliseconds to the answer to tools/list, and its peak memory in MiB by then."""
    begin = time.perf_counter_ns()
    with Mcp(command, env, log) as server:
        server.open()
        taken = (time.perf_counter_ns() - begin) / 1e6
        return taken, memory_kib(server.process.pid, "VmHWM") / 1024


def say(text: str) -> None:
    """Progress, on standard error: standard output is the table's."""
    print(text, file=sys.stderr, flush=True)
