"""A short `codex app-server`: the settings that a Codex would have, asked of that very program.

It gets the overrides, the environment and the directory of the launch, answers a few requests as JSON lines, and ends
before this returns, with its whole process group. Bounded in time and in bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from amux.errors import AmuxError

SECONDS = 30.0
"""For everything that one of them is asked; it takes half a second on an idle machine."""
REPLY_BYTES = 8 * 1024 * 1024
"""All that it may write to standard output."""
SAID_BYTES = 4096
"""The end of its standard error, for a message."""
END_SECONDS = 5.0


class RefusedError(Exception):
    """It answered a request with an error: the text."""


class CodexServer:
    """One of them: `with CodexServer(...) as server: server.ask("config/read", {...})`."""

    def __init__(self, program: str, overrides: Sequence[str], environment: Mapping[str, str], directory: str) -> None:
        self._until = time.monotonic() + SECONDS
        self._number = self._bytes = 0
        self._buffer = self._said = b""
        try:
            self._process = subprocess.Popen(
                [program, "app-server", *overrides],
                env=dict(environment),
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            )
        except OSError as error:
            raise AmuxError("not_found", f"{program} cannot be run: {error.strerror}", path=program) from error

    def __enter__(self) -> CodexServer:
        try:
            client = {"name": "amux", "title": "amux launch", "version": "1"}
            self.ask("initialize", {"clientInfo": client, "capabilities": {"experimentalApi": True}})
            self._send({"method": "initialized"})
        except BaseException:
            self._end(0.0)
            raise
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._end(END_SECONDS if error is None else 0.0)

    def ask(self, method: str, parameters: Mapping[str, object]) -> dict[str, Any]:
        """The result of one request. Raises RefusedError, or AmuxError if it ends, hangs or says too much."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": parameters})
        while True:
            line = self._line(method)
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if not isinstance(message, dict) or message.get("id") != self._number or "method" in message:
                continue  # a notification, or a request of its own
            if isinstance(message.get("result"), dict):
                return dict(message["result"])
            error = message.get("error")
            raise RefusedError(str(error.get("message")) if isinstance(error, dict) else f"{error}")

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended: reading says so, and why
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()

    def _line(self, method: str) -> bytes:
        while b"\n" not in self._buffer:
            self._read(method)
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _read(self, method: str) -> None:
        """Wait for more of either output, and keep it within bounds."""
        out, err = self._process.stdout, self._process.stderr
        assert out is not None
        assert err is not None
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            if not err.closed:
                selector.register(err, selectors.EVENT_READ)
            ready = selector.select(max(0.0, self._until - time.monotonic()))
        if not ready:
            raise AmuxError(
                "version_mismatch",
                f"codex app-server did not answer {method} within {SECONDS:.0f} s, so nothing shows that codex's own "
                f"memory would be off{self._words()}: codex was not started",
            )
        for key, _ in ready:
            data = os.read(key.fd, 65536)
            if key.fileobj is err:
                self._said = (self._said + data)[-SAID_BYTES:]
                if not data:
                    err.close()
                continue
            if not data:
                raise self._ended(method)
            self._bytes += len(data)
            self._buffer += data
        if self._bytes > REPLY_BYTES:
            raise AmuxError(
                "version_mismatch", f"codex app-server answered {method} with over {REPLY_BYTES} bytes", found="bytes"
            )

    def _ended(self, method: str) -> AmuxError:
        err = self._process.stderr
        assert err is not None
        self._process.kill()
        if not err.closed:
            self._said = (self._said + os.read(err.fileno(), 65536))[-SAID_BYTES:]
        return AmuxError(
            "invalid_argument",
            f"codex does not start with these settings: its app-server ended at {method}{self._words()}",
        )

    def _words(self) -> str:
        """What it complained of last, for a message: the lines from its first "Error" on, else the last one."""
        lines = [line.strip() for line in self._said.decode("utf-8", "replace").splitlines() if line.strip()]
        start = next((place for place, line in enumerate(lines) if line.startswith("Error")), len(lines) - 1)
        text = " ".join(lines[max(start, 0) :])
        return f": {text}" if text else ""

    def _end(self, seconds: float) -> None:
        """End of file ends it; whatever is left of its process group after `seconds` is killed."""
        process = self._process
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
