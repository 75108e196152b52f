"""Codex: its own memory off, the protocol in its developer instructions, `amux mcp` as a server, for one start.

All of it by `-c` overrides behind the user's own; no file is changed. What they come to is read back from the same
program with the same overrides in the same directory (`codex_settings`): a Codex whose memory would be on is not
started. A screen that is given overrides does not attach to Codex's shared daemon, which has other settings.
Checked with Codex 0.153.4 and 0.171.0; docs/reference/launch.md says what is set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from amux.errors import AmuxError
from amux.launch import codex_rollouts, codex_words, protocol
from amux.launch.agent import MCP, Agent, Plan, Request
from amux.launch.codex_settings import INSTRUCTIONS, MEMORY_OFF, SERVER, Settings, environment, read_back, table
from amux.launch.codex_words import Line

NAMES = {
    "search": "amux_memory_search",
    "get": "amux_memory_get",
    "upsert": "amux_memory_upsert",
    "forget": "amux_memory_forget",
    "continue": "amux_result_continue",
}
"""Functions in the namespace `mcp__amux`; the dotted names of the server are not callable."""
ARGUMENT_BYTES = 128 * 1024 - 1
"""The kernel's bound of one argument (MAX_ARG_STRLEN), execve(2)."""
_OURS = re.compile(r"AMUX_\w+", re.ASCII)
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]')


class Codex(Agent):
    name = "codex"
    programs = ("codex",)
    install = "npm install -g @openai/codex"
    tools = MCP
    names = NAMES
    native = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

    def conflict(self, arguments: Sequence[str]) -> str | None:
        return codex_words.parse(arguments).against

    def plan(self, request: Request) -> Plan:
        line = codex_words.parse(request.arguments)
        directory = _directory(request, line)
        overrides = [*line.overrides, *_ours(request)]
        remove = [name for name in request.environment if name not in environment(request)]
        settings = read_back(request, line, overrides, directory)
        overrides += [*_against_own_environment(request, settings), *_approval(settings)]
        overrides.append(_instructions(request, settings))
        return Plan(_argv(request, line, overrides), remove=remove, notices=list(_notices(request, settings, line)))

    def conversation(self, request: Request, since: float) -> str | None:
        line = codex_words.parse(request.arguments)
        directory = None if "--worktree" in line.values else _directory(request, line)
        return codex_rollouts.begun(request.environment["CODEX_HOME"], directory, protocol.BEGIN, since)


def quoted(text: str) -> str:
    """A TOML basic string. Raises `invalid_argument` for what is no text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AmuxError("invalid_argument", f"{text!r:.80} is not UTF-8: codex cannot be told of it") from error
    return '"' + _ESCAPED.sub(_escape, text) + '"'


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[0]}" if found[0] in '"\\' else f"\\u{ord(found[0]):04X}"


def _array(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def _ours(request: Request) -> list[str]:
    """The overrides of every launch. Each is set, even to what it is by default: the user's own may say otherwise."""
    command, *rest = request.tool.words
    variables = list(request.tool.variables)
    if request.environment.get("AMUX_HUB", "").startswith("ssh://"):
        variables.append("SSH_AUTH_SOCK")
    return [
        *(f"{key}=false" for key in MEMORY_OFF),
        f"{SERVER}.command={quoted(command)}",
        f"{SERVER}.args={_array([*rest, 'mcp'])}",
        f"{SERVER}.env_vars={_array(variables)}",
        f"{SERVER}.enabled=true",
        f"{SERVER}.required={'true' if request.hub_answered else 'false'}",
    ]


def _against_own_environment(request: Request, settings: Settings) -> list[str]:
    """The user's own server of that name may name a Hub or a conversation: the launch's come in their place."""
    names = [name for name in table(settings.server(), "env") if _OURS.fullmatch(name)]
    return [f"{SERVER}.env.{name}={quoted(request.environment.get(name, ''))}" for name in names]


def _approval(settings: Settings) -> list[str]:
    """The tools run without a question, unless the user's settings of this server, or of all approvals, ask for one."""
    server = settings.server()
    tools = [tool for tool in table(server, "tools").values() if isinstance(tool, dict)]
    detailed = isinstance(settings.value("approval_policy"), dict)
    if detailed or "default_tools_approval_mode" in server or any("approval_mode" in tool for tool in tools):
        return []
    return [f'{SERVER}.default_tools_approval_mode="approve"']


def _instructions(request: Request, settings: Settings) -> str:
    own = settings.value(INSTRUCTIONS)
    text = protocol.merged(request.protocol, *([own] if isinstance(own, str) else []))
    override = f"{INSTRUCTIONS}={quoted(text)}"
    if len(override.encode()) > ARGUMENT_BYTES:
        raise AmuxError(
            "limit_exceeded",
            f"your own {INSTRUCTIONS} have {len(str(own).encode())} bytes: with the memory protocol they cannot be "
            f"handed to codex, whose one argument holds {ARGUMENT_BYTES}; shorten them",
            limit="argument_bytes",
            value=ARGUMENT_BYTES,
        )
    return override


def _argv(request: Request, line: Line, overrides: Sequence[str]) -> list[str]:
    """Options, then overrides (an option that takes several words ends there), then what is no option."""
    ours = [word for override in overrides for word in ("-c", override)]
    resume = ["resume"] if request.native else []
    native = [request.native] if request.native else []
    words = ["--", *line.words] if line.words else []
    if line.command is None:
        return [request.program, *resume, *line.options, *ours, *native, *words]
    return [request.program, *line.before, line.command, *line.options, *ours, *resume, *native, *words]


def _directory(request: Request, line: Line) -> str:
    return os.path.realpath(os.path.join(request.directory, line.values.get("--cd", "")))


def _notices(request: Request, settings: Settings, line: Line) -> Iterator[str]:
    own = table(settings.own, SERVER)
    command = str(own.get("command", ""))
    if own and (os.path.basename(command) != "amux" or own.get("args") != ["mcp"]):
        yield f"the MCP server amux of your codex settings ({command}) is not used in a launch, which has its own"
    if own.get("enabled_tools") or own.get("disabled_tools"):
        yield "your codex settings leave out some of the amux tools (enabled_tools, disabled_tools)"
    if not request.hub_answered:
        yield "codex starts without waiting for its memory tools"
    if "--ephemeral" in line.values:
        yield "with --ephemeral codex keeps no record: this conversation cannot be resumed"


AGENT = Codex()
