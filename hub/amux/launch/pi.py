"""Pi: the command-line protocol through `--append-system-prompt`, on every start. No MCP, no memory of its own.

Pi renders its system prompt afresh at each start, and the option keeps it from reading APPEND_SYSTEM.md; so that
file's text, or what the user's own options say, goes in front of the protocol into one option. The conversation's
record gets a name that is chosen here, so that it is found again whatever else ran in the same directory.
Checked with Pi 0.73.1; docs/reference/launch.md says what is set.
"""

from __future__ import annotations

import glob
import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence

from amux.errors import AmuxError
from amux.launch import files, protocol
from amux.launch.agent import CLI, Agent, Plan, Request

CONTINUING = frozenset({"--continue", "-c", "--resume", "-r", "--session", "--fork"})
OTHER = frozenset({"install", "remove", "uninstall", "update", "list", "config"})
"""First words that manage Pi's packages and begin no conversation."""
VALUED = frozenset(
    "--mode --provider --model --api-key --system-prompt --append-system-prompt --session --fork --session-dir "
    "--models --tools -t --thinking --export --extension -e --skill --prompt-template --theme".split()
)
"""Options that take the next word, whatever it is."""
APPEND = "--append-system-prompt"
AGENT_DIR = ".pi/agent"
PROJECT_DIR = ".pi"
SETTINGS_BYTES = 1024 * 1024
APPEND_BYTES = 96 * 1024
"""The most of the user's own that fits into one argument beside the protocol; the kernel's bound is 128 KiB."""


class Pi(Agent):
    name = "pi"
    programs = ("pi",)
    install = "npm install -g @mariozechner/pi-coding-agent"
    tools = CLI
    names = protocol.CLI_NAMES
    native = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

    def conflict(self, arguments: Sequence[str]) -> str | None:
        if arguments and arguments[0] in OTHER:
            return arguments[0]
        return next((option for option, _ in _options(arguments) if option in CONTINUING), None)

    def plan(self, request: Request) -> Plan:
        given = list(_options(request.arguments))
        own = [value for option, value in given if option == APPEND and value is not None]
        rest = [word for option, value in given if option != APPEND or value is None for word in _words(option, value)]
        texts = [_resolved(text, request.directory) for text in own] if own else _append_file(request)
        argv = [request.program]
        native = request.native
        options = dict(given)
        if "--no-session" not in options:
            native = native or str(uuid.uuid4())
            argv += ["--session", _record(request, native, options.get("--session-dir"))]
        argv += [APPEND, protocol.merged(request.protocol, *texts), *rest]
        return Plan(argv, native=native, notices=list(_warnings(options)))


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Each word of the command line with the value that Pi takes it for, as Pi's own parser reads it."""
    rest = iter(arguments)
    for word in rest:
        yield word, next(rest, None) if word in VALUED else None


def _words(option: str, value: str | None) -> list[str]:
    return [option] if value is None else [option, value]


def _warnings(options: dict[str, str | None]) -> Iterator[str]:
    tools = options.get("--tools", options.get("-t"))
    if {"--no-tools", "-nt", "--no-builtin-tools", "-nbt"} & set(options) or (tools and "bash" not in tools.split(",")):
        yield "without its tool bash pi cannot reach the memory in this launch"


def _append_file(request: Request) -> list[str]:
    """The text of the APPEND_SYSTEM.md that Pi would read: the project's, else the user's."""
    for directory in (os.path.join(request.directory, PROJECT_DIR), os.path.join(request.home, AGENT_DIR)):
        path = os.path.join(directory, "APPEND_SYSTEM.md")
        if os.path.exists(path):
            return [_read(path)]
    return []


def _resolved(text: str, directory: str) -> str:
    """What Pi makes of a value of its option: the content of a file of that name, else the text itself."""
    path = os.path.join(directory, text)
    return _read(path) if text and "\0" not in text and os.path.exists(path) else text


def _read(path: str) -> str:
    try:
        data = files.read(path, APPEND_BYTES + 1)
    except OSError as error:
        raise AmuxError(
            "invalid_argument", f"{path}: {error.strerror}; pi would begin without it", path=path
        ) from error
    if len(data) > APPEND_BYTES:
        raise AmuxError(
            "limit_exceeded",
            f"{path} has over {APPEND_BYTES} bytes: it cannot be handed to pi beside the memory protocol; shorten it",
            limit="append_bytes",
            value=APPEND_BYTES,
        )
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


def _record(request: Request, native: str, named: str | None) -> str:
    """The file of the conversation: the one that has this id in its name, else a new name beside Pi's own."""
    directory = _session_dir(request, named)
    everywhere = os.path.join(glob.escape(os.path.join(request.home, AGENT_DIR, "sessions")), "*")
    for place in (glob.escape(directory), everywhere):
        found = glob.glob(os.path.join(place, f"*_{native}.jsonl"))
        if found:
            return min(found)
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S-000Z", time.gmtime())
    return os.path.join(directory, f"{stamp}_{native}.jsonl")


def _session_dir(request: Request, named: str | None) -> str:
    """Where Pi keeps its records: the option, the variable, its settings, else below its own directory."""
    chosen = named or request.environment.get("PI_CODING_AGENT_SESSION_DIR") or _setting(request)
    if chosen:
        expanded = request.home + chosen[1:] if chosen == "~" or chosen.startswith("~/") else chosen
        return os.path.join(request.directory, expanded)
    own = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", request.directory))
    return os.path.join(request.home, AGENT_DIR, "sessions", f"--{own}--")


def _setting(request: Request) -> str | None:
    for directory in (os.path.join(request.directory, PROJECT_DIR), os.path.join(request.home, AGENT_DIR)):
        try:
            value = json.loads(files.read(os.path.join(directory, "settings.json"), SETTINGS_BYTES)).get("sessionDir")
        except (OSError, ValueError, AttributeError, RecursionError):
            continue
        if isinstance(value, str) and value:
            return value
    return None


AGENT = Pi()
