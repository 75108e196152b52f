"""Our side of the bench: a real Hub over the corpus, the store in this process, `amux.pyz` and the installed `amux`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from amux_hub.store import Store
from tests.bench.corpus import write
from tests.bench.measure import Run, Skip, once
from tests.bench.processes import Mcp, environment
from tests.harness import Channel, Hub

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_PYTHON = "/usr/bin/python3"
SESSIONS = 1000
CONFIG: dict[str, object] = {"limits": {"connections_per_uid": SESSIONS + 100}}
"""The bench connects as one UID: 1,000 sessions are over what one person may have."""

_CACHE = 256 * 1024 * 1024


def build_pyz(directory: Path) -> Path:
    """`amux.pyz` for the system's interpreter, as a launch would copy it."""
    out = directory / "amux.pyz"
    subprocess.run([sys.executable, str(ROOT / "packaging" / "build_pyz.py"), str(out)], check=True)
    return out


def installed() -> str:
    """The console script `amux` beside the running interpreter."""
    found = shutil.which("amux", path=str(Path(sys.executable).parent)) or shutil.which("amux")
    if found is None:
        raise SystemExit("bench: the product is not installed beside this Python: make venv")
    return found


def hub(directory: Path, documents: Mapping[str, bytes]) -> Hub:
    """A Hub, not started, whose home holds the documents."""
    made = Hub(directory, config=CONFIG)
    write(documents, made.home / "memory" / "global")
    for path in [made.home, *made.home.rglob("*")]:
        if path.is_dir():
            path.chmod(0o700)
    return made


def client_environment(running: Hub) -> dict[str, str]:
    return environment(AMUX_HUB=str(running.sockets["hub"]))


def relay(running: Hub, pyz: Path) -> Mcp:
    """`amux mcp` as a launch starts it, with the handshake done."""
    started = Mcp(mcp_command(pyz), client_environment(running), running.directory / "relay.stderr")
    started.open()
    return started


def mcp_command(pyz: Path) -> list[str]:
    return [SYSTEM_PYTHON, "-IS", str(pyz), "mcp"]


class InProcess:
    """The store's own call, nothing around it."""

    def __init__(self, directory: Path, documents: Mapping[str, bytes]) -> None:
        home = directory / "store"
        write(documents, home / "memory" / "global")
        home.chmod(0o700)
        self.store = Store(str(home), _CACHE, 0)
        self.scope = self.store.scope("global")
        warm(self.search)

    def search(self, query: str) -> None:
        complete(self.scope.search(query))

    def paths(self, query: str) -> set[str]:
        """The first 20 documents of an answer, for comparison with what others found."""
        matches: Any = self.scope.search(query, "", 20)["matches"]
        return {match["path"] for match in matches}

    def close(self) -> None:
        self.store.close()


class Socket:
    """Varlink over hub.sock, one connection kept, the reply decoded."""

    def __init__(self, running: Hub) -> None:
        self.channel: Channel = running.connect()
        warm(self.search)  # a connection that says nothing is closed after five seconds

    def search(self, query: str) -> None:
        complete(self.call("Search", query=query))

    def get(self, path: str) -> None:
        self.call("Get", path=path)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        answer = self.channel.call(f"io.amux.Memory.{method}", **parameters)
        if "error" in answer:
            raise RuntimeError(f"{method} {parameters}: {answer}")
        found: dict[str, Any] = answer["parameters"]
        return found

    def close(self) -> None:
        self.channel.close()


class ThroughMcp:
    """A tool call by an MCP client, through `amux mcp`, to the Hub and back."""

    def __init__(self, running: Hub, pyz: Path) -> None:
        self.mcp = relay(running, pyz)

    def search(self, query: str) -> None:
        line = self.mcp.call("amux.memory_search", query=query)
        if b'"isError":true' in line:
            raise RuntimeError(f"amux.memory_search {query}: {line[:500]!r}")
        if rb"\"incomplete\":true" in line:
            raise Skip

    def upsert(self, path: str, content: str, revision: str) -> str:
        line = self.mcp.call("amux.memory_upsert", path=path, content=content, expected_revision=revision)
        answer = json.loads(json.loads(line)["result"]["content"][0]["text"])
        found: str = answer["revision"]
        return found

    def close(self) -> None:
        self.mcp.close()


def complete(answer: Mapping[str, object]) -> None:
    """Searches that ended early are not counted."""
    if answer["incomplete"]:
        raise Skip


def warm(search: Run) -> None:
    """Search until the whole corpus is in memory: on a busy machine the first one may run out of its time."""
    for _ in range(20):
        if once(search, "warm") is not None:
            return
    raise RuntimeError("no search came to its end within its 250 ms: is this machine busy?")
