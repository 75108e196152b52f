"""An independent client: the command line of the MCP Inspector, over stdio through `amux mcp`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from amux.tools import TOOLS
from tests.clients import npm
from tests.harness import Hub
from tests.mcp.peers import AMUX


@pytest.fixture(scope="module")
def inspector(cache_dir: Path) -> str:
    return npm.program(cache_dir, npm.INSPECTOR, "mcp-inspector")


def ask(inspector: str, hub: Hub, home: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [inspector, "--cli", "-e", f"AMUX_HUB={hub.sockets['hub']}", *AMUX, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        cwd=home,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_inspector_lists_and_calls_the_tools(inspector: str, shared_hub: Hub, tmp_path: Path) -> None:
    listed = ask(inspector, shared_hub, tmp_path, "--method", "tools/list")
    assert listed["tools"] == TOOLS

    def call(tool: str, *arguments: str) -> dict[str, Any]:
        pairs = [word for argument in arguments for word in ("--tool-arg", argument)]
        result = ask(inspector, shared_hub, tmp_path, "--method", "tools/call", "--tool-name", f"amux.{tool}", *pairs)
        answer: dict[str, Any] = json.loads(result["content"][0]["text"])
        assert ("error" in answer) is result["isError"]
        return answer

    written = call("memory_upsert", "path=inspector.md", "content=# 笔记", "expected_revision=absent")
    assert call("memory_get", "path=inspector.md")["content"] == "# 笔记"
    assert call("memory_search", "query=笔记", "limit=3")["matches"][0]["path"] == "inspector.md"
    assert call("result_continue", "continuation=none")["error"]["code"] == "continuation_expired"
    assert (
        call("memory_forget", "path=inspector.md", f"expected_revision={written['revision']}")["revision"] == "absent"
    )
