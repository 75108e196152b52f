"""Which agents there are: name → adapter, each imported only when it is asked for."""

from __future__ import annotations

import importlib

from amux.errors import AmuxError
from amux.launch.agent import Agent

MODULES = {"codex": "amux.launch.codex", "pi": "amux.launch.pi"}
"""The module of each; its object is called AGENT."""


def find(name: str) -> Agent:
    """The adapter of this name. Raises `invalid_argument` for any other agent."""
    module = MODULES.get(name)
    if module is None:
        raise AmuxError(
            "invalid_argument",
            f"{name} has no memory capability here: amux knows how to give its memory to {', '.join(sorted(MODULES))}, "
            "and how to switch off theirs. Start it without amux, or add the MCP server `amux mcp` to it by hand",
            found=name,
        )
    agent: Agent = importlib.import_module(module).AGENT
    return agent
