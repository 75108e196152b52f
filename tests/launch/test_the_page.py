"""The adapter of docs/how-to/add-an-agent.md is one."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from amux.launch import protocol
from amux.launch.agent import Agent, Plan, Request, Tool

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "add-an-agent.md"


def test_the_adapter_of_the_page_works() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    scope: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), scope)
    agent: Agent = scope["AGENT"]
    assert agent.conflict(["--continue"]) == "--continue"
    text = protocol.of(agent)
    assert all(name in text for name in agent.names.values())
    tool = Tool(("/opt/amux",), ("AMUX_HUB",))
    request = Request("/opt/quill", ("hello",), {}, "/", "/home/ana", text, tool, True, False, None)
    plan: Plan = agent.plan(request)
    assert plan.argv[0] == "/opt/quill"
    assert plan.argv[-1] == "hello"
    assert plan.argv[plan.argv.index("--rules") + 1] == text
    server = json.loads(plan.argv[plan.argv.index("--mcp") + 1])["amux"]
    assert server == {"command": "/opt/amux", "args": ["mcp"]}
    assert plan.native is not None
    assert agent.native.fullmatch(plan.native)
