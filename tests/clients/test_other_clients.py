"""docs/how-to/other-mcp-clients.md, word for word: the settings with the official client, the check in a shell."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path

from mcp.client.stdio import stdio_client

from amux.tools import TOOLS
from mcp import Client, StdioServerParameters
from tests.clients import npm
from tests.clients.pages import fences
from tests.harness import Hub
from tests.mcp.peers import AMUX

(SETTINGS,) = fences("other-mcp-clients.md", "json")
CHECK, INSPECT = fences("other-mcp-clients.md", "sh")


def _environment(hub: Hub) -> dict[str, str]:
    return {
        "PATH": f"{Path(AMUX[0]).parent}:{os.environ['PATH']}",
        "HOME": "/nonexistent",
        "XDG_RUNTIME_DIR": str(hub.runtime.parent),
    }


def test_the_settings_on_the_page(shared_hub: Hub) -> None:
    entry = json.loads(SETTINGS)["mcpServers"]["amux"]
    parameters = StdioServerParameters(**entry, env=_environment(shared_hub))

    async def names() -> list[str]:
        async with asyncio.timeout(60), Client(stdio_client(parameters)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    assert asyncio.run(names()) == [tool["name"] for tool in TOOLS]


def test_the_check_on_the_page(shared_hub: Hub) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", CHECK], env=_environment(shared_hub), capture_output=True, text=True, timeout=60, check=True
    )
    first, second = map(json.loads, done.stdout.splitlines())
    assert first["result"]["serverInfo"]["name"] == "amux"
    assert json.loads(second["result"]["content"][0]["text"])["exists"] is False
    assert done.stderr == ""


def test_the_inspector_on_the_page(shared_hub: Hub, cache_dir: Path, tmp_path: Path) -> None:
    program, package, *arguments = INSPECT.split()
    assert (program, package) == ("npx", npm.INSPECTOR[0])
    installed = npm.program(cache_dir, npm.INSPECTOR, "mcp-inspector")
    # Like many clients it gives its servers a few variables alone: a private Hub has to be named.
    assert arguments[0] == "--cli"
    hub = f"AMUX_HUB={shared_hub.sockets['hub']}"
    done = subprocess.run(
        [installed, "--cli", "-e", hub, *arguments[1:]],
        env={**_environment(shared_hub), "HOME": str(tmp_path)},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout)["tools"] == TOOLS
