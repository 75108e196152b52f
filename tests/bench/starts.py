"""Processes from nothing: `amux mcp` to its tools, `amux memory show`, the Hub to its first answers."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import ours
from tests.bench.corpus import QUERIES
from tests.bench.measure import Run, Spread, Timings, take_turns
from tests.bench.peers import Server
from tests.bench.processes import environment, memory_kib, run, say, started
from tests.harness import Hub

PASS = "python3 -IS -c pass"
RELAY, RELAY_INSTALLED = "amux.pyz mcp", "amux mcp, installed"
SHOW, SHOW_INSTALLED = "amux.pyz memory show", "amux memory show, installed"
SERVER_ROUNDS = 3


@dataclass
class Starts:
    """Milliseconds of whole starts, and the peak memory in MiB of those that are MCP servers."""

    timings: Timings
    peak: dict[str, Spread] = field(default_factory=dict)


def bare() -> Run:
    env = environment()
    command = [ours.SYSTEM_PYTHON, "-IS", "-c", "pass"]
    return lambda _case: run(command, env)


def relays(hub: Hub, pyz: Path, others: list[Server], rounds: int) -> Starts:
    """From fork to the answer to tools/list."""
    peaks: dict[str, list[float]] = {}
    log = hub.directory / "starts.stderr"

    def starter(name: str, command: list[str], env: Mapping[str, str]) -> Run:
        def start(_case: str) -> None:
            peaks.setdefault(name, []).append(started(command, env, log)[1])

        return start

    env = ours.client_environment(hub)
    contestants: dict[str, Run] = {
        RELAY: starter(RELAY, ours.mcp_command(pyz), env),
        RELAY_INSTALLED: starter(RELAY_INSTALLED, [ours.installed(), "mcp"], env),
        PASS: bare(),
    }
    for server in others:
        contestants[server.name] = starter(server.name, server.command, server.env)
    say(f"starts of MCP servers, {rounds} rounds")
    seldom = {server.name: min(SERVER_ROUNDS, rounds) for server in others}
    result = Starts(take_turns(contestants, ["start"], rounds, seldom))
    result.peak = {name: Spread.of(found) for name, found in peaks.items()}
    return result


def shows(hub: Hub, pyz: Path, path: str, rounds: int) -> Timings:
    """`amux memory show` as a whole process, as an agent's tool call runs it."""
    env = ours.client_environment(hub)
    contestants: dict[str, Run] = {
        SHOW: lambda _: run([ours.SYSTEM_PYTHON, "-IS", str(pyz), "memory", "show", path], env),
        SHOW_INSTALLED: lambda _: run([ours.installed(), "memory", "show", path], env),
        PASS: bare(),
    }
    say(f"amux memory show, {rounds} rounds")
    return take_turns(contestants, ["show"], rounds)


@dataclass
class Cold:
    """A Hub from nothing, milliseconds since its start: first answer of each socket, then the first searches."""

    first_answer: list[float] = field(default_factory=list)
    first_tools: list[float] = field(default_factory=list)
    first_search: list[float] = field(default_factory=list)
    """The search alone, with nothing in the cache; pages of the kernel are warm."""
    incomplete: int = 0
    rss_started: list[float] = field(default_factory=list)
    rss_searched: list[float] = field(default_factory=list)
    """MiB, resident."""


def cold(hub: Hub, rounds: int) -> Cold:
    """Start the Hub `rounds` times; it is left running."""
    found = Cold()
    say(f"starts of the Hub, {rounds} rounds")
    for number in range(rounds):
        begin = time.perf_counter()
        hub.spawn()
        status = json.dumps({"method": "io.amux.Hub.GetStatus", "parameters": {}}).encode() + b"\0"
        _first_answer(hub.sockets["hub"], status, b"\0")
        found.first_answer.append((time.perf_counter() - begin) * 1e3)
        _first_answer(hub.sockets["mcp"], b'{"amux":1}\n', b"\n")
        found.first_tools.append((time.perf_counter() - begin) * 1e3)
        found.rss_started.append(memory_kib(hub.pid, "VmRSS") / 1024)
        with hub.connect() as channel:
            query = list(QUERIES.values())[number % len(QUERIES)]
            channel.call("io.amux.Memory.Get", path="MEMORY.md")
            begin = time.perf_counter()
            answer = channel.call("io.amux.Memory.Search", query=query)
            found.first_search.append((time.perf_counter() - begin) * 1e3)
            found.incomplete += bool(answer["parameters"]["incomplete"])
        found.rss_searched.append(memory_kib(hub.pid, "VmRSS") / 1024)
        if number < rounds - 1:
            hub.stop()
    return found


def _first_answer(path: Path, request: bytes, end: bytes) -> None:
    """Ask until somebody answers: the socket appears while the Hub starts."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(path))
                connection.sendall(request)
                received = b""
                while end not in received:
                    data = connection.recv(65536)
                    if not data:
                        break
                    received += data
                else:
                    return
            except (FileNotFoundError, ConnectionError):
                pass
        time.sleep(0.002)
    raise TimeoutError(f"nobody answered at {path}")
