"""Single calls: get beside a plain asyncio echo, upsert of 2 KiB beside the bare durable write and the peers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, closing
from itertools import count, cycle
from pathlib import Path

from tests.bench import ours
from tests.bench.measure import Run, Timings, take_turns
from tests.bench.peers import Server
from tests.bench.processes import Mcp, say
from tests.harness import Hub, until

GET, ECHO = "get", "asyncio echo"
UPSERT, BARE = "upsert", "bare durable write"
UPSERT_MCP = "upsert through amux mcp"
DOCUMENT_BYTES = 2048
DISTINCT = 64
"""Documents that are read in turn."""

_ECHO = """
import asyncio, sys

async def echo(reader, writer):
    while True:
        try:
            frame = await reader.readuntil(b"\\0")
        except asyncio.IncompleteReadError:
            return writer.close()
        writer.write(frame)
        await writer.drain()

async def main():
    async with await asyncio.start_unix_server(echo, sys.argv[1]) as server:
        await server.serve_forever()

asyncio.run(main())
"""
"""What anybody would write: asyncio's streams, one frame in, the same frame out."""


class Echo:
    """The echo server in a process of its own, under the Hub's interpreter, and one connection to it."""

    def __init__(self, directory: Path, frame: bytes) -> None:
        path = directory / "echo.sock"
        self._process = subprocess.Popen([sys.executable, "-c", _ECHO, str(path)])
        until(path.exists, f"{path} exists")
        self._frame = frame
        self._socket = socket.socket(socket.AF_UNIX)
        until(lambda: self._socket.connect_ex(str(path)) == 0, f"{path} accepts")

    def exchange(self, _case: str) -> None:
        self._socket.sendall(self._frame)
        received = b""
        while not received.endswith(b"\0"):
            received += self._socket.recv(65536)
        json.loads(received[:-1])

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()


def get(hub: Hub, directory: Path, documents: Mapping[str, bytes], rounds: int) -> Timings:
    """A get of documents of about 2 KiB; the echo carries a frame as long as the Hub's reply, both ways.

    Each get is of another document than the one before.
    """
    paths = sorted(documents, key=lambda name: abs(len(documents[name]) - DOCUMENT_BYTES))[:DISTINCT]
    path, turns = paths[0], cycle(paths)
    with ExitStack() as stack:
        client = stack.enter_context(closing(ours.Socket(hub)))
        reply = client.channel.call("io.amux.Memory.Get", path=path)
        frame = json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode() + b"\0"
        echo = stack.enter_context(closing(Echo(directory, frame)))
        say(f"get of {len(documents[path])} bytes, {rounds} rounds")
        contestants: dict[str, Run] = {
            GET: lambda _: client.get(next(turns)),
            ECHO: echo.exchange,
        }
        # One round is 20 calls of each: a round's median is steadier than a call.
        calls = [str(number) for number in range(20)]
        return take_turns(contestants, calls, rounds)


class Rewriter:
    """Replaces one document by ever new text of 2 KiB, each time with the revision of the time before."""

    def __init__(self, client: ours.Socket, path: str) -> None:
        self._client, self._path, self._number = client, path, 0
        self._revision: str = client.call("Get", path=path)["revision"]

    def write(self, _case: str) -> None:
        self._number += 1
        answer = self._client.call(
            "Upsert", path=self._path, content=text(self._number), expected_revision=self._revision
        )
        self._revision = answer["revision"]


class McpRewriter:
    """The same through `amux mcp`."""

    def __init__(self, client: ours.ThroughMcp, path: str, revision: str) -> None:
        self._client, self._path, self._revision, self._number = client, path, revision, 0

    def write(self, _case: str) -> None:
        self._number += 1
        self._revision = self._client.upsert(self._path, text(self._number), self._revision)


class Bare:
    """What no durable replacement can do without: write, sync, rename, sync the directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        self._number = 0

    def write(self, _case: str) -> None:
        self._number += 1
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open("temporary", flags, 0o600, dir_fd=self._directory)
        os.write(fd, text(self._number).encode())
        os.fsync(fd)
        os.close(fd)
        os.rename("temporary", "document.md", src_dir_fd=self._directory, dst_dir_fd=self._directory)
        os.fsync(self._directory)

    def close(self) -> None:
        os.close(self._directory)


def text(number: int) -> str:
    """2 KiB that differ from those before."""
    return f"# Note {number}\n\n".ljust(DOCUMENT_BYTES - 1, "lorem ipsum "[number % 12]) + "\n"


def upsert(
    hub: Hub, directory: Path, documents: Mapping[str, bytes], pyz: Path, others: list[Server], rounds: int
) -> Timings:
    """Replacing a document of the full scope, durably, beside the bare writes on the same file system."""
    candidates = sorted(documents, key=lambda name: len(documents[name]), reverse=True)
    with ExitStack() as stack:
        client = stack.enter_context(closing(ours.Socket(hub)))
        mcp = stack.enter_context(closing(ours.ThroughMcp(hub, pyz)))
        bare = stack.enter_context(closing(Bare(directory / "bare")))
        revision = client.call("Get", path=candidates[1])["revision"]
        contestants: dict[str, Run] = {
            UPSERT: Rewriter(client, candidates[0]).write,
            BARE: bare.write,
            UPSERT_MCP: McpRewriter(mcp, candidates[1], revision).write,
        }
        say(f"upsert of {DOCUMENT_BYTES} bytes, {rounds} rounds")
        timings = take_turns(contestants, ["1", "2", "3", "4", "5"], rounds)
        for server in others:
            running = stack.enter_context(Mcp(server.command, server.env, directory / f"{server.name}.stderr"))
            running.open()
            say(f"{server.name} writes")
            take_turns({f"write by {server.name}": _writer(server, running)}, ["1"], 3, timings=timings)
            if server.name == "basic-memory":
                running.call("delete_note", identifier="bench/bench-note")  # its data is kept for the next run
        return timings


def _writer(server: Server, running: Mcp) -> Run:
    """A note of 2 KiB, written by a peer's own tool."""
    numbers = count(1)

    def graph(_case: str) -> None:
        number = next(numbers)
        entity = {"name": f"bench note {number}", "entityType": "document", "observations": [text(number)]}
        _answered(running.call("create_entities", entities=[entity]))

    def note(_case: str) -> None:
        content = text(next(numbers))
        _answered(running.call("write_note", title="bench note", directory="bench", content=content, overwrite=True))

    return graph if server.name == "server-memory" else note


def _answered(line: bytes) -> None:
    if b'"isError":true' in line:
        raise RuntimeError(f"a peer failed to write: {line[:500]!r}")
