"""What people would use instead, each installed in a directory of its own under the user's cache.

`$XDG_CACHE_HOME/amux-hub/bench`, or `~/.cache/amux-hub/bench`: a virtual environment for basic-memory, an npm
prefix for server-memory. Their versions are pinned: the table compares known things. grep and ripgrep are the
system's. A peer that cannot be had is named with the reason and the table goes on without it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.bench.processes import environment, run, say
from tests.runner.place import newer_interpreter

SERVER_MEMORY = ("@modelcontextprotocol/server-memory", "2026.8.31")
BASIC_MEMORY = ("basic-memory", "0.24.1")
_DONE = "bench-installed"


class MissingError(Exception):
    """A peer that cannot be had here; the message says what is missing."""


@dataclass(frozen=True)
class Server:
    """An MCP server on stdio, ready for one corpus. `arguments` turns a query into its search tool's arguments."""

    name: str
    version: str
    command: list[str]
    env: dict[str, str]
    search_tool: str

    def arguments(self, query: str) -> dict[str, object]:
        # basic-memory: full text alone, its model for meanings would have to be fetched from elsewhere.
        return {"query": query, "search_type": "text"} if self.name == "basic-memory" else {"query": query}


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    directory = Path(base) if base.startswith("/") else Path.home() / ".cache"
    found = directory / "amux-hub" / "bench"
    found.mkdir(parents=True, exist_ok=True)
    return found


def _install(directory: Path, *commands: list[str]) -> Path:
    """Run the commands that fill `directory`, unless they once ran to their end."""
    if (directory / _DONE).exists():
        return directory
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    say(f"installing {directory.name} into {directory}")
    for command in commands:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            said = " ".join(done.stderr.split())[-300:]  # for a cell of the table
            raise MissingError(f"{directory.name}: {' '.join(command[:4])} … failed: {said}")
    (directory / _DONE).touch()
    return directory


def _pip(directory: Path, interpreter: str, package: tuple[str, str]) -> Path:
    python = str(directory / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    name, version = package
    return _install(directory, [interpreter, "-m", "venv", str(directory)], [*pip, f"{name}=={version}"])


def grep() -> tuple[str, str]:
    """The path and the version line of grep."""
    return _versioned(shutil.which("grep") or "", "grep")


def ripgrep() -> tuple[str, str]:
    """The path and the version line of ripgrep."""
    return _versioned(shutil.which("rg") or "", "rg (Debian: ripgrep)")


def _versioned(path: str, name: str) -> tuple[str, str]:
    if not path:
        raise MissingError(f"{name} is not on PATH")
    return path, run([path, "--version"], environment()).decode().splitlines()[0]


def server_memory(corpus: Mapping[str, bytes], data: Path) -> Server:
    """The knowledge graph of the MCP project: each document one entity, its text one observation."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise MissingError("server-memory needs node and npm (Debian: nodejs npm)")
    name, version = SERVER_MEMORY
    prefix = cache() / f"server-memory-{version}"
    places = ["--prefix", str(prefix), "--cache", str(prefix.parent / "_npm")]
    install = [npm, "install", *places, "--no-audit", "--no-fund", f"{name}@{version}"]
    _install(prefix, install)
    script = prefix / "node_modules" / name / "dist" / "index.js"
    data.mkdir(parents=True, exist_ok=True)
    file = data / "memory.jsonl"
    entities = (
        {"type": "entity", "name": path, "entityType": "document", "observations": [content.decode()]}
        for path, content in corpus.items()
    )
    file.write_text("\n".join(json.dumps(one, ensure_ascii=False) for one in entities), encoding="utf-8")
    env = environment(MEMORY_FILE_PATH=str(file))
    return Server("server-memory", version, [node, str(script)], env, "search_nodes")


def basic_memory(corpus: Mapping[str, bytes], data: Path) -> Server:
    """basic-memory with its full-text index. It writes front matter into the files: the copy is its own."""
    from tests.bench.corpus import write

    interpreter = sys.executable if sys.version_info >= (3, 12) else newer_interpreter()
    if interpreter is None:
        raise MissingError("basic-memory needs Python 3.12 or newer, and none is on this machine")
    name, version = BASIC_MEMORY
    directory = _pip(cache() / f"basic-memory-{version}", interpreter, BASIC_MEMORY)
    command = str(directory / "bin" / "basic-memory")
    home, notes = data / "home", data / "notes"
    env = environment(
        HOME=str(home),
        BASIC_MEMORY_HOME=str(notes),
        BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED="false",
        BASIC_MEMORY_AUTO_UPDATE="false",
    )
    if not (data / _DONE).exists():
        shutil.rmtree(data, ignore_errors=True)
        home.mkdir(parents=True)
        write(corpus, notes)
        say(f"basic-memory indexes {len(corpus)} documents (once for this corpus)")
        run([command, "reindex", "--full", "--search"], env)
        (data / _DONE).touch()
    return Server(name, version, [command, "mcp"], env, "search_notes")
