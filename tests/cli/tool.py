"""Runs one form of `amux`, with pipes or at a terminal. Knows nothing of what it answers."""

from __future__ import annotations

import json
import os
import pty
import selectors
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.harness import Hub

PYTHON = "/usr/bin/python3"
SECONDS = 60.0
"""How long any command may take before it counts as a hang."""


class Result:
    """What a command left behind."""

    def __init__(self, status: int, out: bytes, err: bytes) -> None:
        self.status = status
        self.out = out
        self.err = err

    def __repr__(self) -> str:
        return f"exit {self.status}\nout: {self.out!r}\nerr: {self.err!r}"

    @property
    def json(self) -> dict[str, Any]:
        """Standard output as the one JSON object of a command that did its work."""
        assert self.status == 0, self
        assert self.out.endswith(b"\n"), self
        value: dict[str, Any] = json.loads(self.out)
        return value

    @property
    def error(self) -> dict[str, Any]:
        """The error on standard error, in its JSON form."""
        assert self.err.count(b"\n") == 1, self
        value: dict[str, Any] = json.loads(self.err)["error"]
        return value


class Tool:
    """One form of `amux`: the words that start it."""

    def __init__(self, command: list[str]) -> None:
        self.command = command

    def environment(self, hub: Path | str | None, env: Mapping[str, str] | None) -> dict[str, str]:
        built = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"}
        if hub is not None:
            built["AMUX_HUB"] = str(hub)
        built.update(env or {})
        return built

    def popen(
        self, *words: str, hub: Path | str | None, env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start it; standard input, output and error are pipes unless `options` say otherwise."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(
            [*self.command, *words], env=self.environment(hub, env), **{"cwd": "/", **pipes, **options}
        )

    def run(
        self,
        *words: str,
        hub: Path | str | None,
        input: bytes = b"",  # noqa: A002 - as subprocess names it
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Result:
        with self.popen(*words, hub=hub, env=env, **options) as process:
            out, err = process.communicate(input, timeout=SECONDS)
        return Result(process.returncode, out, err)

    def at_terminal(
        self,
        *words: str,
        hub: Path | str | None,
        input: bytes = b"",  # noqa: A002
        env: Mapping[str, str] | None = None,
    ) -> Result:
        """Run it with a terminal each as standard output and standard error; input stays a pipe."""
        ours, theirs = zip(pty.openpty(), pty.openpty(), strict=True)
        process = self.popen(*words, hub=hub, env={"TERM": "xterm", **(env or {})}, stdout=theirs[0], stderr=theirs[1])
        for descriptor in theirs:
            os.close(descriptor)
        assert process.stdin is not None
        process.stdin.write(input)
        process.stdin.close()
        collected = _collect(list(ours))
        status = process.wait(SECONDS)
        # The terminal itself turns LF into CR LF.
        out, err = (collected[descriptor].replace(b"\r\n", b"\n") for descriptor in ours)
        return Result(status, out, err)


def _collect(terminals: list[int]) -> dict[int, bytes]:
    collected = dict.fromkeys(terminals, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in terminals:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(SECONDS)
            assert ready, "the command hangs"
            for key, _ in ready:
                try:
                    data = os.read(key.fd, 65536)
                except OSError:  # EIO: nobody has the other side open any more
                    data = b""
                collected[key.fd] += data
                if not data:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return collected


def put(amux: Tool, hub: Hub, path: str, data: bytes, expected: str = "absent") -> Result:
    """Write one document through the command line."""
    words = ("memory", "upsert", path, "--expected-revision", expected)
    return amux.run(*words, hub=hub.sockets["hub"], input=data)


def failure(code: str) -> dict[str, Any]:
    """A reply of a scripted Hub: this error."""
    name = "io.amux.Hub." + "".join(part.capitalize() for part in code.split("_"))
    return {"error": name, "parameters": {"message": "m", "details": {"observed_revision": "c" * 64}}}
