"""The real Claude Code, configured as docs/how-to/claude-code.md says, with a scripted model and a real Hub (C20)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients import npm, story
from tests.clients.model import Call, ModelServer, Script
from tests.clients.pages import fences
from tests.harness import Hub
from tests.mcp.peers import AMUX

ADD, ONE_RUN, CHECK = fences("claude-code.md", "sh")
ALLOW_ALL, ALLOW_READING = fences("claude-code.md", "json")
NAMES = {
    "mcp__amux__amux_memory_search",
    "mcp__amux__amux_memory_get",
    "mcp__amux__amux_memory_upsert",
    "mcp__amux__amux_memory_forget",
    "mcp__amux__amux_result_continue",
}


@pytest.fixture(scope="module")
def claude(cache_dir: Path) -> str:
    return npm.claude_code(cache_dir)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path / "hub") as running:
        yield running


class Person:
    """Somebody with a home, Claude Code and a private Hub."""

    def __init__(self, claude: str, hub: Hub, directory: Path) -> None:
        self.claude = claude
        self.home = directory / "home"
        self.project = directory / "project"
        self.project.mkdir(parents=True)
        (self.home / ".claude").mkdir(parents=True)
        self.settings = self.home / ".claude" / "settings.json"
        self.env = {
            "PATH": f"{Path(AMUX[0]).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(hub.runtime.parent),
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def run(self, *arguments: str, words: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.claude, *arguments],
            env={**self.env, **env},
            cwd=self.project,
            input=words,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def add(self, command: str = ADD) -> None:
        _, *arguments = shlex.split(command)
        done = self.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def ask(self, model: ModelServer, *arguments: str) -> str:
        """`claude -p` with the scripted model; its last words."""
        done = self.run(
            "-p", "--output-format", "json", *arguments, words="Remember how we deploy.", ANTHROPIC_BASE_URL=model.url
        )
        assert done.returncode == 0, done.stdout + done.stderr
        result: Any = json.loads(done.stdout)
        words: str = result["result"]
        return words


def test_c20_claude_code_calls_all_five_tools_and_the_memory_is_on_disk(claude: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(claude, hub, tmp_path / "person")
    person.add()
    person.settings.write_text(ALLOW_ALL)
    with ModelServer(story.all_five_tools) as model:
        words = person.ask(model)
    assert words == story.FINAL, model.failure
    story.assert_on_disk(hub.home / "memory")
    assert {name for name in model.conversation[0].tools if "amux" in name} == NAMES
    assert "✔ Connected" in person.run(*shlex.split(CHECK.splitlines()[0])[1:]).stdout


def test_one_run_may_be_allowed_by_an_argument(claude: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(claude, hub, tmp_path / "person")
    person.add()
    _, _, command = ONE_RUN.partition("| ")
    _, _, *arguments = shlex.split(command)
    assert arguments == ["--allowedTools", "mcp__amux"]
    with ModelServer(story.one_write) as model:
        assert len(story.answer(person.ask(model, *arguments))["revision"]) == 64


def test_what_is_not_allowed_is_refused_and_writes_nothing(claude: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(claude, hub, tmp_path / "person")
    person.add()
    with ModelServer(story.one_read) as model:
        assert "haven't granted it" in person.ask(model)
    person.settings.write_text(ALLOW_READING)
    with ModelServer(story.one_read) as model:
        assert story.answer(person.ask(model))["exists"] is False
    with ModelServer(story.one_write) as model:
        assert "haven't granted it" in person.ask(model)
    assert not (hub.home / "memory/global/MEMORY.md").exists()


def test_without_always_load_the_model_finds_the_tools_by_its_tool_search(
    claude: str, hub: Hub, tmp_path: Path
) -> None:
    def script() -> Script:
        yield Call("ToolSearch", {"query": "select:mcp__amux__amux_memory_get", "max_results": 5})
        return (yield Call("amux_memory_get", {"path": "MEMORY.md"}))

    person = Person(claude, hub, tmp_path / "person")
    person.add("claude mcp add --scope user amux -- amux mcp")
    person.settings.write_text(ALLOW_ALL)
    with ModelServer(script) as model:
        assert story.answer(person.ask(model))["exists"] is False
    first, after = model.conversation[0], model.conversation[-1]
    assert not NAMES & set(first.tools)
    assert "mcp__amux__amux_memory_get" in json.dumps(first.body)
    assert "mcp__amux__amux_memory_get" in json.dumps(after.body)


def test_claude_code_says_so_when_there_is_no_hub(claude: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(claude, hub, tmp_path / "person")
    person.add()
    hub.stop()
    shown = person.run("mcp", "get", "amux").stdout
    assert "amux" in shown
    assert "✔ Connected" not in shown
