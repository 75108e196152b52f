"""Search beside grep, ripgrep, a bare memmem pass, server-memory and basic-memory, on one corpus."""

from __future__ import annotations

import ctypes
import os
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from amux.limits import SEARCH_MAXIMUM
from amux_hub.store.text import match_key, match_key_bytes, parse_query
from tests.bench import ours, peers
from tests.bench.corpus import QUERIES, digest, write
from tests.bench.measure import Run, Timings, take_turns
from tests.bench.peers import MissingError, Server
from tests.bench.processes import Mcp, environment, memory_kib, run, say
from tests.bench.settle import settle
from tests.harness import Hub

STORE, SOCKET, MCP = "store", "hub.sock", "amux mcp"
GREP, RIPGREP, MEMMEM = "grep -rilF", "ripgrep", "memmem"
SERVER_MEMORY, BASIC_MEMORY = "server-memory", "basic-memory"
SLOW_ROUNDS = 5
"""How many rounds the two servers take part in: one answer of theirs costs as much as thirty of the others."""


@dataclass
class Result:
    """What one corpus gave: timings, who was missing and why, resident memory in MiB after all the searches."""

    timings: Timings
    missing: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)


class MemmemPass:
    """For every word, which documents have it: memmem(3) over one folded buffer, on to the next document at a hit.

    A floor, not a search: no files, no proof of freshness, no ranking, no snippet.
    """

    def __init__(self, documents: Mapping[str, bytes]) -> None:
        self.paths = sorted(documents)
        keys = [match_key_bytes(documents[path]) for path in self.paths]
        self._starts = [0]
        for key in keys:
            self._starts.append(self._starts[-1] + len(key) + 1)
        joined = b"\n".join(keys)
        self._size = len(joined)
        self._buffer = ctypes.create_string_buffer(joined, self._size)
        self._base = ctypes.addressof(self._buffer)
        self._memmem = ctypes.CDLL(None).memmem
        self._memmem.restype = ctypes.c_void_p
        self._memmem.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]

    def search(self, query: str) -> set[int]:
        found: set[int] = set()
        for term in parse_query(query):
            at, end = self._base, self._base + self._size
            while at < end and (hit := self._memmem(at, end - at, term, len(term))):
                document = bisect_right(self._starts, hit - self._base) - 1
                found.add(document)
                at = self._base + self._starts[document + 1]
        return found


def whole_process(path: str, flags: list[str], directory: Path) -> Run:
    """A searching program as a shell would run it: started, its list of files read, reaped."""
    env = environment()

    def search(query: str) -> bytes:
        words = [part for word in query.split() for part in ("-e", word)]
        return run([path, *flags, *words, str(directory)], env, ok=(0, 1))

    return search


def through(server: Server, running: Mcp) -> Run:
    def search(query: str) -> None:
        line = running.call(server.search_tool, **server.arguments(query))
        if b'"isError":true' in line[:400] or b'"isError":true' in line[-400:]:
            raise RuntimeError(f"{server.name} {query}: {line[:500]!r}")

    return search


def servers(documents: Mapping[str, bytes], missing: dict[str, str]) -> list[Server]:
    """The two servers with their data for this corpus; one that cannot be had goes into `missing`."""
    data = peers.cache() / f"data-{digest(documents)[:12]}"
    found = []
    for name, make in ((SERVER_MEMORY, peers.server_memory), (BASIC_MEMORY, peers.basic_memory)):
        try:
            found.append(make(documents, data / name))
        except MissingError as error:
            missing[name] = str(error)
    return found


def measure(
    documents: Mapping[str, bytes], hub: Hub, directory: Path, pyz: Path, others: list[Server], rounds: int
) -> Result:
    """Everybody's searches in turn. `hub` runs over the same documents."""
    result = Result(Timings())
    # A tree of its own: what grep opens is no news to the Hub, and basic-memory writes into its files.
    plain = write(documents, directory / "plain")
    with ExitStack() as stack:
        store = stack.enter_context(closing(ours.InProcess(directory, documents)))
        socket = stack.enter_context(closing(ours.Socket(hub)))
        mcp = stack.enter_context(closing(ours.ThroughMcp(hub, pyz)))
        memmem = MemmemPass(documents)
        contestants: dict[str, Run] = {
            STORE: store.search,
            SOCKET: socket.search,
            MCP: mcp.search,
            MEMMEM: memmem.search,
        }
        for name, find, flags in (
            (GREP, peers.grep, ["-rilF"]),
            (RIPGREP, peers.ripgrep, ["--no-config", "-ilF"]),
        ):
            try:
                path, result.versions[name] = find()
            except MissingError as error:
                result.missing[name] = str(error)
            else:
                contestants[name] = whole_process(path, flags, plain)
        open_servers = {}
        for server in others:
            say(f"starting {server.name}")
            running = stack.enter_context(Mcp(server.command, server.env, directory / f"{server.name}.stderr"))
            running.open()
            contestants[server.name] = through(server, running)
            contestants[server.name](next(iter(QUERIES.values())))
            settle(running.process.pid)
            open_servers[server.name] = running
            result.versions[server.name] = server.version
        _check_answers(documents, store, memmem, contestants.get(GREP), plain)
        seldom = {server.name: min(SLOW_ROUNDS, rounds) for server in others}
        say(f"searching: {len(contestants)} contestants, {len(QUERIES)} queries, {rounds} rounds")
        take_turns(contestants, list(QUERIES.values()), rounds, seldom, result.timings)
        result.memory["Hub"] = memory_kib(hub.pid, "VmRSS") / 1024
        for name, running in open_servers.items():
            result.memory[name] = memory_kib(running.process.pid, "VmRSS") / 1024
    return result


def _check_answers(
    documents: Mapping[str, bytes], store: ours.InProcess, memmem: MemmemPass, grep: Run | None, plain: Path
) -> None:
    """The contestants do the same work: each finds what a plain look at every document finds."""
    contents = {path: match_key_bytes(content) for path, content in documents.items()}
    names = {path: match_key(path).encode() for path in documents}
    for query in QUERIES.values():
        terms = parse_query(query)
        inside = {path for path, content in contents.items() if any(term in content for term in terms)}
        wanted = inside | {path for path, name in names.items() if any(term in name for term in terms)}
        answered = store.paths(query)
        if not answered <= wanted or len(answered) < min(len(wanted), SEARCH_MAXIMUM):
            raise RuntimeError(f"{query}: the store answers {len(answered)} documents of {len(wanted)}")
        if {memmem.paths[number] for number in memmem.search(query)} != inside:
            raise RuntimeError(f"{query}: the memmem pass finds others than the {len(inside)} documents that match")
        if grep is not None:
            output = grep(query)
            assert isinstance(output, bytes)
            listed = {os.fsdecode(os.path.relpath(line, os.fsencode(plain))) for line in output.splitlines()}
            if listed != inside:
                raise RuntimeError(f"{query}: grep lists {len(listed)} documents, not the {len(inside)} that match")
