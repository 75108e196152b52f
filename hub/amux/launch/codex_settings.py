"""The settings that a start of Codex will have: asked of the program itself, required, and put together.

Codex lays its settings on top of each other: the host's, the user's, a profile, the project's (of a trusted one alone),
the command line's overrides; an administrator's may come last.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from amux.errors import AmuxError
from amux.launch import files
from amux.launch.agent import Request
from amux.launch.codex_server import CodexServer, RefusedError
from amux.launch.codex_words import Line

Table = dict[str, Any]

MEMORY_OFF = ("features.memories", "memories.use_memories", "memories.generate_memories")
"""The switches of Codex's own memory: each must be false."""
SERVER = "mcp_servers.amux"
INSTRUCTIONS = "developer_instructions"
PROFILE_BYTES = 1024 * 1024
OVERRIDES = "sessionFlags"
BELOW_USER = frozenset({"mdm", "system", "enterpriseManaged"})
"""The layers below the user's own."""


@dataclass
class Settings:
    """What the launch needs of them. Each may hold anything that the files of the user hold."""

    merged: Table = field(default_factory=dict)
    """All layers."""
    own: Table = field(default_factory=dict)
    """All but the overrides of the command line."""

    def value(self, key: str) -> Any:
        return value(self.merged, key)

    def server(self) -> Table:
        """The MCP server of the launch, with what the user's own of that name leaves in it."""
        return table(self.merged, SERVER)


def value(found: Any, key: str) -> Any:
    """The value at a dotted key; None if it is not there."""
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def table(found: Any, key: str) -> Table:
    there = value(found, key)
    return there if isinstance(there, dict) else {}


def read_back(request: Request, line: Line, overrides: Sequence[str], directory: str) -> Settings:
    """The settings with these overrides. Raises `version_mismatch` if they are not what a launch must have."""
    words = [word for override in overrides for word in ("-c", override)]
    with CodexServer(request.program, words, environment(request), directory) as server:
        try:
            answer = server.ask("config/read", {"cwd": directory, "includeLayers": True})
        except RefusedError as error:
            raise unsupported(f"config/read was refused ({error})") from error
        if request.native is not None:
            _disable_thread(server, request.native)
    config, layers = answer.get("config"), answer.get("layers")
    if not isinstance(config, dict) or not isinstance(layers, list):
        raise unsupported("config/read answered neither settings nor layers")
    for key in MEMORY_OFF:
        if value(config, key) is not False:
            raise unsupported(f"{key} is {json.dumps(value(config, key))} where the launch set it to false")
    found = table(config, SERVER)
    if [found.get("command"), *(found.get("args") or [])] != [*request.tool.words, "mcp"] or not found.get("enabled"):
        raise unsupported(f"its MCP server amux would be {found.get('command')!r}, not that of the launch")
    layers = [layer for layer in layers if value(layer, "disabledReason") is None]  # a project that is not trusted
    if (read := value(config, INSTRUCTIONS)) != (laid := _put_together(layers, {}, False).value(INSTRUCTIONS)):
        raise unsupported(f"its layers come to other {INSTRUCTIONS} ({laid!r:.80}) than it reads ({read!r:.80})")
    return _put_together(layers, _profile(request, line), "--ignore-user-config" in line.values)


def environment(request: Request) -> dict[str, str]:
    """Without CODEX_HOME where there is none yet: Codex refuses that, and makes the same place without the variable."""
    gone = () if os.path.isdir(request.environment["CODEX_HOME"]) else ("CODEX_HOME",)
    return {name: text for name, text in request.environment.items() if name not in gone}


def unsupported(why: str) -> AmuxError:
    return AmuxError(
        "version_mismatch",
        f"codex would not run as a launch must: {why}. It was not started, since its own memory could be used beside "
        "this one; an administrator's settings or another version of codex can be the reason (codex --version)",
    )


def _disable_thread(server: CodexServer, native: str) -> None:
    """Mark a conversation of ours, so that Codex's own memory is not made from it, whoever starts Codex later."""
    try:
        server.ask("thread/memoryMode/set", {"threadId": native, "mode": "disabled"})
    except RefusedError as error:
        if "no rollout found" in str(error):
            raise AmuxError("not_found", f"codex has no record of the conversation {native}", found=native) from error
        raise unsupported(f"thread/memoryMode/set was refused ({error})") from error


def _put_together(layers: Sequence[Any], profile: Table, ignore_user: bool) -> Settings:
    settings, passed = Settings(), False
    for kind, config in _in_order(layers, profile):
        if ignore_user and kind in ("user", "project"):
            continue  # it is the user's settings that trust a project
        if passed and INSTRUCTIONS in config:
            raise unsupported(f"{INSTRUCTIONS} are fixed by settings ({kind}) that come after the command line's")
        _lay(settings.merged, config)
        if kind == OVERRIDES:
            passed = True
        else:
            _lay(settings.own, config)
    return settings


def _in_order(layers: Sequence[Any], profile: Table) -> Iterator[tuple[str, Table]]:
    """Kind and content of each layer, the weakest first, and the profile on top of the user's."""
    for layer in reversed(layers):
        kind = value(layer, "name.type")
        if profile and kind not in (*BELOW_USER, "user"):
            yield "profile", profile
            profile = {}
        yield str(kind), table(layer, "config")


def _profile(request: Request, line: Line) -> Table:
    """The file of `--profile NAME`, which an app-server does not take."""
    name = line.values.get("--profile")
    if name is None:
        return {}
    path = os.path.join(request.environment["CODEX_HOME"], f"{name}.config.toml")
    try:
        return tomllib.loads(files.read(path, PROFILE_BYTES).decode())
    except FileNotFoundError:
        return {}  # codex says what it makes of that
    except (OSError, ValueError) as error:
        raise AmuxError("invalid_argument", f"--profile {name}: {path} cannot be read: {error}", path=path) from error


def _lay(below: Table, above: Mapping[str, Any]) -> None:
    """Put one layer on top, table by table, as Codex does; what is below stays its own."""
    for key, found in above.items():
        if isinstance(found, dict):
            if not isinstance(below.get(key), dict):
                below[key] = {}
            _lay(below[key], found)
        else:
            below[key] = found
