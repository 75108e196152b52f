"""A client of the previous minor version, frozen when it was current, against the Hub of this tree."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import build_pyz
from amux import __version__
from tests.cli.tool import PYTHON, Result, Tool
from tests.harness import Hub
from tests.previous import FROZEN


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    """With click, so that every command runs."""
    whole = tmp_path_factory.mktemp("previous") / "amux.pyz"
    whole.write_bytes(FROZEN.read_bytes())
    click = build_pyz.find_click()
    with zipfile.ZipFile(whole, "a") as archive:
        for path in click.rglob("*.py"):
            archive.write(path, f"click/{path.relative_to(click).as_posix()}")
    return Tool([PYTHON, "-IS", str(whole)])


def test_it_is_one_minor_version_older(previous: Tool) -> None:
    said = previous.run("--version", hub=None).out.decode().split()[-1]
    (major, minor), (old_major, old_minor) = ([int(part) for part in v.split(".")[:2]] for v in (__version__, said))
    assert (old_major, old_minor) == (major, minor - 1)


def test_every_command_of_its_works(previous: Tool, hub: Hub) -> None:
    def run(*words: str, text: str = "") -> Result:
        return previous.run(*words, hub=hub.sockets["hub"], input=text.encode())

    revision = run("memory", "upsert", "a.md", "--expected-revision", "absent", text="one\n").json["revision"]
    assert run("memory", "show", "a.md").json["content"] == "one\n"
    assert [one["path"] for one in run("memory", "search", "one").json["matches"]] == ["a.md"]
    assert [one["path"] for one in run("memory", "list").json["documents"]] == ["a.md"]
    late = run("memory", "upsert", "a.md", "--expected-revision", "absent", text="two\n")
    assert (late.status, late.error["code"]) == (4, "conflict")
    assert late.error["details"]["observed_revision"] == revision
    revision = run("memory", "upsert", "a.md", "--expected-revision", revision, text="two\n").json["revision"]
    assert run("memory", "forget", "a.md", "--expected-revision", revision).status == 0
    assert not run("memory", "show", "a.md").json["exists"]
    refused = run("memory", "show", "../a.md")
    assert (refused.status, refused.error["code"]) == (2, "invalid_path")
    assert run("whoami").json["scope"] == "global"
    status = run("status").json
    assert (status["reachable"], status["version"]) == (True, __version__)


def test_its_mcp_conversation_goes_on_across_a_restart(previous: Tool, tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    with Hub(tmp_path / "hub", held=True) as hub, previous.popen("mcp", hub=hub.sockets["mcp"]) as relay:
        to, back = relay.stdin, relay.stdout
        assert to is not None and back is not None

        def say(**message: Any) -> None:
            to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            to.flush()

        def ask(number: int, method: str, **parameters: object) -> dict[str, Any]:
            say(id=number, method=method, params=parameters)
            answer = json.loads(back.readline())
            assert answer["id"] == number
            result: dict[str, Any] = answer["result"]
            return result

        def tool(number: int, name: str, **arguments: str) -> dict[str, Any]:
            result = ask(number, "tools/call", name=f"amux.{name}", arguments=arguments)
            told: dict[str, Any] = json.loads(result["content"][0]["text"])
            return told

        ask(0, "initialize", **hello)
        say(method="notifications/initialized")
        assert len(ask(1, "tools/list")["tools"]) == 5
        tool(2, "memory_upsert", path="a.md", content="one\n", expected_revision="absent")
        hub.restart()
        assert tool(3, "memory_get", path="a.md")["content"] == "one\n"
        to.close()
        assert relay.wait(30) == 0
