"""`amux memory` as processes, over the installed command."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli.tool import Result, Tool
from tests.harness import Hub

AMUX = Tool([str(Path(sys.executable).parent / "amux")])


def upsert(hub: Hub, path: str, text: str, expected: str) -> Result:
    where = hub.sockets["hub"]
    return AMUX.run("memory", "upsert", path, "--expected-revision", expected, hub=where, input=text.encode())


def forget(hub: Hub, path: str, expected: str) -> Result:
    return AMUX.run("memory", "forget", path, "--expected-revision", expected, hub=hub.sockets["hub"])


def show(hub: Hub, path: str) -> Result:
    return AMUX.run("memory", "show", path, hub=hub.sockets["hub"])


def search(hub: Hub, query: str) -> Result:
    return AMUX.run("memory", "search", query, hub=hub.sockets["hub"])
