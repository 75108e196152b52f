"""Pi: the command-line protocol through `--append-system-prompt`, on every start. No MCP, no memory of its own.

Pi renders its system prompt afresh each time, and the option suppresses the user's APPEND_SYSTEM.md: so that file's
text goes into the option too. docs/reference/launch.md#pi
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from amux.launch import protocol
from amux.launch.agent import CLI, Agent, Plan, Request

CONTINUING = ("--continue", "-c", "--resume", "-r", "--session", "--fork")


class Pi(Agent):
    name = "pi"
    programs = ("pi",)
    install = "npm install -g @mariozechner/pi-coding-agent"
    tools = CLI
    native = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

    def conflict(self, arguments: Sequence[str]) -> str | None:
        return next((word for word in arguments if word in CONTINUING), None)

    def plan(self, request: Request) -> Plan:
        argv = [request.program]
        if request.native is not None:
            argv += ["--session", request.native]
        return Plan([*argv, "--append-system-prompt", protocol.merged(request.protocol), *request.arguments])


AGENT = Pi()
