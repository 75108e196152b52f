"""The official Python client, end to end through `amux mcp`, in both protocol eras, and over ssh."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.client.stdio import stdio_client

from amux.tools import TOOLS
from mcp import Client, StdioServerParameters
from tests.harness import Hub
from tests.mcp.peers import AMUX


def conversation(
    env: dict[str, str], mode: str, talk: Callable[[Client], Awaitable[None]], timeout: float = 60
) -> None:
    async def run() -> None:
        parameters = StdioServerParameters(command=AMUX[0], args=AMUX[1:], env=env)
        async with asyncio.timeout(timeout), Client(stdio_client(parameters), mode=mode) as client:
            await talk(client)

    asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(f"amux.{tool}", arguments)
    (block,) = result.content
    assert block.type == "text"
    answer: dict[str, Any] = json.loads(block.text)
    assert ("error" in answer) is bool(result.is_error)
    return answer


async def whole(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    """An answer with its pages joined, as the tool's description tells a model."""
    answer = await call(client, tool, **arguments)
    texts = []
    while "pages" in answer:
        texts.append(answer["text"])
        if "continuation" not in answer:
            return dict(json.loads("".join(texts)))
        answer = await call(client, "result_continue", continuation=answer["continuation"])
    return answer


async def the_main_job(client: Client) -> None:
    listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == [tool["name"] for tool in TOOLS]
    content = "# 部署\n\n" + 'say "yes" \\ no\n' * 500
    written = await call(client, "memory_upsert", path="deploy.md", content=content, expected_revision="absent")
    text, offset = "", 0
    while True:
        part = await whole(client, "memory_get", path="deploy.md", offset=offset)
        assert part["revision"] == written["revision"]
        text += part["content"]
        if not part["truncated"]:
            break
        offset = part["next_offset"]
    assert text == content
    found = await whole(client, "memory_search", query="部署")
    assert found["matches"][0]["path"] == "deploy.md"
    conflict = await call(client, "memory_upsert", path="deploy.md", content="", expected_revision="absent")
    assert conflict["error"]["code"] == "conflict"
    gone = await call(client, "memory_forget", path="deploy.md", expected_revision=written["revision"])
    assert gone["revision"] == "absent"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "auto"])
def test_the_official_client_does_the_main_job(shared_hub: Hub, mode: str) -> None:
    env = {"PATH": os.environ["PATH"], "AMUX_HUB": str(shared_hub.sockets["hub"])}
    conversation(env, mode, the_main_job)


def test_the_official_client_through_a_restart(held_hub: Hub) -> None:
    async def talk(client: Client) -> None:
        written = await call(client, "memory_upsert", path="a.md", content="1", expected_revision="absent")
        await asyncio.to_thread(held_hub.restart)
        assert (await call(client, "memory_get", path="a.md"))["revision"] == written["revision"]

    env = {"PATH": os.environ["PATH"], "AMUX_HUB": str(held_hub.sockets["hub"])}
    conversation(env, "auto", talk)


def test_the_official_client_over_ssh(shared_hub: Hub, tmp_path: Path) -> None:
    """`ssh` is a script that checks its arguments and runs what it is given, as a login there would."""
    ssh = tmp_path / "ssh"
    ssh.write_text(
        f"#!{sys.executable}\n"
        "import os, sys\n"
        "assert sys.argv[1:] == ['-T', '-o', 'BatchMode=yes', '--', 'host.example', 'amux', 'dial-stdio', '--mcp']\n"
        f"os.environ['AMUX_HUB'] = {str(shared_hub.sockets['hub'])!r}\n"
        f"os.execv({AMUX[0]!r}, ['amux', 'dial-stdio', '--mcp'])\n"
    )
    ssh.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "AMUX_HUB": "ssh://host.example"}
    conversation(env, "auto", the_main_job)
