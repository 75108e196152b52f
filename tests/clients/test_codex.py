"""The real Codex, configured as docs/how-to/codex.md says, with a scripted model and a real Hub (C20)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import npm, story
from tests.clients.model import ModelServer
from tests.clients.pages import fences
from tests.harness import Hub
from tests.mcp.peers import AMUX

TABLE, APPROVE, APPROVE_ONE, NO_OWN_MEMORY = fences("codex.md", "toml")
PROVIDER = 'model_providers.local={{name="local",base_url="{url}/v1",wire_api="responses",env_key="LOCAL_KEY"}}'


@pytest.fixture(scope="module")
def codex(cache_dir: Path) -> str:
    return npm.program(cache_dir, npm.CODEX, "codex")


class Person:
    """Somebody with a home, Codex and a private Hub whose socket only XDG_RUNTIME_DIR tells."""

    def __init__(self, codex: str, hub: Hub, directory: Path) -> None:
        self.codex = codex
        self.home = directory / "home"
        self.project = directory / "project"
        self.project.mkdir(parents=True)
        (self.home / ".codex").mkdir(parents=True)
        self.config = self.home / ".codex" / "config.toml"
        self.env = {
            "PATH": f"{Path(AMUX[0]).parent}:{Path(codex).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "XDG_RUNTIME_DIR": str(hub.runtime.parent),
            "LOCAL_KEY": "none",
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.codex, *arguments],
            env=self.env,
            cwd=self.project,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    def ask(self, model: ModelServer) -> str:
        """`codex exec` with the scripted model; the model's last words."""
        done = self.run(
            *("exec", "--json", "--skip-git-repo-check", "-s", "read-only", "-m", "scripted"),
            *("-c", 'model_provider="local"', "-c", PROVIDER.format(url=model.url)),
            "Remember how we deploy.",
        )
        assert done.returncode == 0, done.stdout + done.stderr
        items = [json.loads(line).get("item", {}) for line in done.stdout.splitlines()]
        words: str = [item["text"] for item in items if item.get("type") == "agent_message"][-1]
        return words


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path / "hub") as running:
        yield running


def test_c20_codex_calls_all_five_tools_and_the_memory_is_on_disk(codex: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(codex, hub, tmp_path / "person")
    person.config.write_text(TABLE + APPROVE + NO_OWN_MEMORY)
    with ModelServer(story.all_five_tools) as model:
        words = person.ask(model)
    assert words == story.FINAL, model.failure
    story.assert_on_disk(hub.home / "memory")
    offered = {name for name in model.conversation[0].tools if name.startswith("mcp__amux/")}
    assert offered == {
        "mcp__amux/amux_memory_search",
        "mcp__amux/amux_memory_get",
        "mcp__amux/amux_memory_upsert",
        "mcp__amux/amux_memory_forget",
        "mcp__amux/amux_result_continue",
    }


def test_the_command_on_the_page_adds_the_server(codex: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(codex, hub, tmp_path / "person")
    add, check = fences("codex.md", "sh")
    _, *arguments = shlex.split(add.replace("$XDG_RUNTIME_DIR", person.env["XDG_RUNTIME_DIR"]))
    done = person.run(*arguments)
    assert done.returncode == 0, done.stderr
    assert check.splitlines()[0] == "codex mcp list"
    assert "enabled" in person.run("mcp", "list").stdout
    person.config.write_text(
        person.config.read_text().replace("[mcp_servers.amux]\n", "[mcp_servers.amux]\nrequired=true\n")
    )
    with ModelServer(story.one_read) as model:
        assert story.answer(person.ask(model))["exists"] is False


def test_codex_reads_without_a_question_and_writes_only_with_approval(codex: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(codex, hub, tmp_path / "person")
    person.config.write_text(TABLE)
    with ModelServer(story.one_read) as model:
        assert story.answer(person.ask(model))["exists"] is False
    with ModelServer(story.one_write) as model:
        assert "MCP tool call requires approval, but approval policy is never" in person.ask(model)
    assert not (hub.home / "memory/global/MEMORY.md").exists()
    person.config.write_text(TABLE + APPROVE_ONE)
    with ModelServer(story.one_write) as model:
        assert len(story.answer(person.ask(model))["revision"]) == 64
    assert (hub.home / "memory/global/MEMORY.md").read_text() == story.ENTRY


def test_codex_says_so_when_there_is_no_hub(codex: str, hub: Hub, tmp_path: Path) -> None:
    person = Person(codex, hub, tmp_path / "person")
    person.config.write_text(TABLE)
    hub.stop()
    with ModelServer(story.one_read) as model:
        done = person.run(
            *("exec", "--skip-git-repo-check", "-c", 'model_provider="local"'),
            *("-c", PROVIDER.format(url=model.url), "-m", "scripted", "Hello."),
        )
    assert done.returncode == 1
    assert "amux" in done.stderr
    assert model.conversation == []
