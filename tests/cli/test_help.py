"""Help, completion, and the agreement of the two parsers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from amux import cli, memory
from tests.cli.tool import Tool
from tests.harness import Hub


def commands(
    group: click.Group = cli.amux, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, group
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield (*words, name), command


ALL = dict(commands())


@pytest.mark.parametrize("words", ALL, ids=lambda words: " ".join(words) or "amux")
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_help_names_every_option_and_command(amux: Tool, words: tuple[str, ...], flag: str) -> None:
    result = amux.run(*words, flag, hub=None)
    assert (result.status, result.err) == (0, b"")
    text = result.out.decode()
    assert text.startswith(f"Usage: amux {' '.join(words)}".rstrip())
    command = ALL[words]
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help
            assert all(name in text for name in parameter.opts)
            assert parameter.help.split()[0] in text
        else:
            assert parameter.make_metavar(click.Context(command)) in text
    if isinstance(command, click.Group):
        assert all(name in text for name in command.commands)
    else:
        assert command.help


def test_the_hot_commands_of_click_are_those_of_the_table() -> None:
    """Every option of either is one of the other."""
    for name, hot in memory.COMMANDS.items():
        command = ALL["memory", name]
        options = {opt for p in command.params if isinstance(p, click.Option) for opt in p.opts}
        assert options == {option.flag for option in hot.options}
        required = {p.opts[0] for p in command.params if isinstance(p, click.Option) and p.required}
        assert required == {option.flag for option in hot.options if option.required}


LINES = [
    "search a",
    "search a b --limit 3",
    "search --limit=3 a --path-prefix x/y --json",
    "search --limit 1 --limit 2 a",
    "search -- --json --limit",
    "search a -- b --json",
    "search -",
    "show a.md",
    "show --start-line 1 a.md --end-line=2",
    "show a.md --offset 007",
    "show --json --json a.md",
    "show a.md --offset=",
    "show a.md --offset ١",
    "show a.md b.md",
    "show --off 1 a.md",
    "show -x a.md",
    "show",
    "show --",
    "show -- -a.md",
    "show --json=1 a.md",
    "upsert a.md --expected-revision absent",
    "upsert a.md --expected-revision --file --file -",
    "upsert a.md --expected-revision= --file=x=y",
    "upsert a.md --file x",
    "upsert a.md --expected-revision",
    "forget a.md --expected-revision absent --json",
    "forget --expected-revision -1 a.md",
    "forget a.md",
    "forget a.md --file x --expected-revision absent",
    "show a.md --offset +1",
    "show a.md --offset 1_0",
]


@pytest.mark.parametrize("line", LINES)
def test_both_parsers_agree(line: str) -> None:
    """What the hot parser takes, click takes with the same values; what click refuses, it refuses.

    It may leave to click what click takes (a number written as `+1`): then click runs the command.
    """
    name, *words = line.split(" ")
    hot = memory.parse(memory.COMMANDS[name], words)
    command = ALL["memory", name]
    slow: dict[str, Any] | None
    try:
        slow = command.make_context(name, list(words)).params
    except click.UsageError:
        slow = None
    if hot is None:
        return
    assert slow is not None
    given = {key: value for key, value in slow.items() if value not in (None, False)}
    given = {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}
    assert given == hot


def test_the_hot_parser_takes_every_plain_line() -> None:
    """Else tool calls would pay for click. It leaves these to click, which refuses most of them."""
    left = [line for line in LINES if memory.parse(memory.COMMANDS[line.split()[0]], line.split(" ")[1:]) is None]
    assert left == [
        "show a.md --offset=",
        "show a.md --offset ١",
        "show a.md b.md",
        "show --off 1 a.md",
        "show -x a.md",
        "show",
        "show --",
        "show --json=1 a.md",
        "upsert a.md --file x",
        "upsert a.md --expected-revision",
        "forget a.md",
        "forget a.md --file x --expected-revision absent",
        "show a.md --offset +1",
        "show a.md --offset 1_0",
    ]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script(amux: Tool, shell: str) -> None:
    result = amux.run("completion", shell, hub=None)
    assert (result.status, result.err) == (0, b"")
    assert b"_AMUX_COMPLETE=" + shell.encode() + b"_complete" in result.out
    if shell == "fish":  # several descriptions hold a comma
        assert b'string split --max 1 "," $completion' in result.out and b'string split ","' not in result.out
    if shutil.which(shell):
        check = subprocess.run([shell, "-n"], input=result.out, capture_output=True)
        assert (check.returncode, check.stderr) == (0, b"")


def complete(amux: Tool, line: str, hub: Path | None, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    env = {f"_{'amux'.upper()}_COMPLETE": f"{shell}_complete", "COMP_WORDS": line}
    env["COMP_CWORD"] = words[-1] if shell == "fish" else str(len(words) - 1)
    result = amux.run(hub=hub, env=env)
    assert (result.status, result.err) == (0, b"")
    lines = result.out.decode().splitlines()
    if shell == "zsh":
        return lines[1::3]
    return [line.partition(",")[2].partition("\t")[0] for line in lines if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completing_commands_and_options(amux: Tool, short: Path, shell: str) -> None:
    nobody = short / "hub.sock"
    assert complete(amux, "amux mem", nobody, shell) == ["memory"]
    assert complete(amux, "amux memory s", nobody, shell) == ["search", "show"]
    assert "--expected-revision" in complete(amux, "amux memory upsert --", nobody, shell)
    assert complete(amux, "amux memory show x", nobody, shell) == []


def test_completing_document_paths(amux: Tool, hub: Hub) -> None:
    with hub.connect() as channel:
        for path in ("notes/a.md", "notes/b.md", "notes/deep/c.md", "部署.md", "other.md"):
            channel.call("io.amux.Memory.Upsert", path=path, content="", expected_revision="absent")
    where = hub.sockets["hub"]
    assert complete(amux, "amux memory show notes/", where) == ["notes/a.md", "notes/b.md", "notes/deep/c.md"]
    assert complete(amux, "amux memory export notes/d", where) == ["notes/deep/c.md"]
    assert complete(amux, "amux memory edit 部", where) == ["部署.md"]
    assert complete(amux, "amux memory upsert o", where) == ["other.md"]


def test_completion_offers_nothing_that_a_shell_would_run(amux: Tool, hub: Hub) -> None:
    """An agent chooses the names of documents; a person presses Tab and Enter."""
    with hub.connect() as channel:
        for path in ("x$(id).md", "x`id`.md", "x;id.md", "x y.md", "x&.md", "x'.md", "x*.md", "x,y.md", "xok.md"):
            reply = channel.call("io.amux.Memory.Upsert", path=path, content="", expected_revision="absent")
            assert "error" not in reply
    assert complete(amux, "amux memory show x", hub.sockets["hub"]) == ["xok.md"]


def test_bash_completes(amux: Tool, short: Path, tmp_path: Path) -> None:
    """The script, in a real bash, with `amux` on the PATH."""
    wrapper = tmp_path / "amux"
    wrapper.write_text("#!/bin/sh\nexec " + " ".join(amux.command) + ' "$@"\n')
    wrapper.chmod(0o755)
    script = (
        'eval "$(amux completion bash)"; COMP_WORDS=(amux memory sh); COMP_CWORD=2; _amux_completion amux; '
        'echo "${COMPREPLY[@]}"'
    )
    env = amux.environment(short / "hub.sock", None)
    env["PATH"] = f"{tmp_path}:{env['PATH']}"
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, check=True)
    assert done.stdout == b"show\n"
