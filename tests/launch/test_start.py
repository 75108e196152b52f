"""From the command line to the agent's start, against a Hub that says what the test wants: order and refusals."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from amux.launch import known, notes, protocol
from tests.harness import WAIT_SECONDS
from tests.launch.launching import AMUX, Job, World
from tests.launch.telling import BINDING, SESSION, Told, instructions

TEXT = protocol.of(known.find("pi"))


def test_a_launch_with_memory(told: Told) -> None:
    world, hub = told
    ran = world.run(do=("exit=5",))
    assert (ran.status, ran.out) == (5, "")
    assert (
        ran.err == "amux: isolation none: there is no materializer for this Hub, so the agent uses the installed amux\n"
    )
    assert hub.asked("Begin") == [{"agent": "pi", "kind": "interactive", "isolation": "none"}]
    (named,) = hub.asked("SetNative")
    argv = world.started["argv"]
    assert named == {"session": SESSION, "native": argv[argv.index("--session") + 1][-42:-6]}
    assert instructions(world) == TEXT
    assert hub.asked("End") == []


def test_m5_the_environment_of_a_launch_with_memory(told: Told) -> None:
    world, _ = told
    service = {"NOTIFY_SOCKET": "/run/x", "LISTEN_FDS": "1", "AMUX_RUN": "/run/y", "AMUX_HOME": "/z"}
    ran = world.run(env={**service, "CODEX_HOME": "/srv/codex", "CLAUDE_CONFIG_DIR": "/srv/claude", "KEPT": "a=b"})
    assert world.agent_environment == {
        **world.environment(),
        "KEPT": "a=b",
        "CODEX_HOME": f"{world.home}/.codex",
        "PI_CODING_AGENT_DIR": f"{world.home}/.pi/agent",
        "AMUX_SESSION": SESSION,
        "AMUX_MEMORY_BINDING": BINDING,
    }
    assert "CODEX_HOME of your environment is not used" in ran.err
    assert "CLAUDE_CONFIG_DIR of your environment is not used" in ran.err


def test_neither_home_nor_checkout_is_changed_but_for_the_note(told: Told) -> None:
    world, _ = told
    world.run()
    assert not list(world.checkout.iterdir())
    left = [str(path.relative_to(world.home)) for path in world.home.rglob("*") if path.is_file()]
    assert left == [f"{notes.PLACE}/{SESSION}.json"]
    assert stat.S_IMODE((world.home / left[0]).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("memory_disabled", "memory is switched off: pi starts without it"),
        ("busy", "busy it is"),
        ("identity_refused", "identity_refused it is"),
        ("version_mismatch", "version_mismatch it is"),
    ],
)
def test_a_hub_that_gives_no_session_is_one_clear_word_and_no_obstacle(told: Told, code: str, words: str) -> None:
    world, hub = told
    hub.replies["Begin"] = code
    ran = world.run(do=("exit=5",), env={"CODEX_HOME": "/srv/codex"})
    assert ran.status == 5
    assert words in ran.err
    assert "its own memory as it is" in ran.err
    assert instructions(world) is None
    assert world.agent_environment == {**world.environment(), "CODEX_HOME": "/srv/codex"}
    assert not (world.home / notes.PLACE).exists()


def test_a_hub_that_is_away_is_no_obstacle(alone: World) -> None:
    ran = alone.run(do=("exit=5",))
    assert ran.status == 5
    assert "no Hub runs at" in ran.err
    assert "pi starts without this memory, its own memory as it is" in ran.err
    assert instructions(alone) is None


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"session": SESSION},
        {"session": "../../etc/x", "binding": "global"},
        {"session": SESSION, "binding": "principal:a/../b"},
        {"session": SESSION + "\n", "binding": "global"},
        {"session": SESSION, "binding": "\x1b[2Jglobal"},
        {"session": [SESSION], "binding": "global"},
    ],
)
def test_m1_what_a_hub_that_was_taken_over_says_is_not_used(told: Told, reply: dict[str, Any]) -> None:
    world, hub = told
    hub.replies["Begin"] = reply
    ran = world.run()
    assert "it was not used" in ran.err
    assert "\x1b" not in ran.err
    assert instructions(world) is None
    assert "AMUX_SESSION" not in world.agent_environment


def test_m1_the_hub_chooses_no_text_command_or_path(told: Told) -> None:
    """Whatever else it answers is ignored."""
    world, hub = told
    world.run()
    usual = {**world.started, "argv": [word for word in world.started["argv"] if not word.endswith(".jsonl")]}
    more = {
        "protocol": "obey",
        "argv": ["/bin/sh"],
        "environment": {"LD_PRELOAD": "/evil.so"},
        "run": "/evil",
        "native": "x",
    }
    hub.replies["Begin"] = {"session": SESSION, "binding": BINDING, **more}
    world.run()
    now = {**world.started, "argv": [word for word in world.started["argv"] if not word.endswith(".jsonl")]}
    for key in ("argv", "environment", "cwd"):
        assert now[key] == usual[key]


def test_mistakes_are_refused_before_the_hub_is_asked(told: Told) -> None:
    world, hub = told
    for options, more in (
        ((), {"args": ("--continue",)}),
        (("--isolation", "dac"), {}),
        (("--isolation", "jail"), {}),
        (("--kind", "root"), {}),
        (("--credential-file", ".netrc"), {}),
        (("--credential-variable", "HOME"), {}),
        ((), {"agent": "aider"}),
        (("--resume", "s-1"), {}),
        (("--resume", "../x"), {"agent": None}),
        ((), {"agent": None}),
    ):
        ran = world.run(*options, **more)
        assert ran.status == 2, ran
        assert not world.record.exists()
    assert hub.calls == []


def test_nothing_of_the_command_line_is_taken_from_the_agent(told: Told) -> None:
    world, _ = told
    given = ("--help", "--resume-not", "--isolation", "--", "-p", "a b", "")
    world.run(args=given)
    assert tuple(world.started["argv"][-len(given) :]) == given


def test_another_accounts_home_is_refused(told: Told, tmp_path: Path) -> None:
    world, hub = told
    if os.geteuid() == 0:
        os.chown(world.home, 1, -1)
        ran = world.run()
        assert (ran.status, hub.calls) == (2, [])
        assert "belongs to UID 1" in ran.err
    else:
        foreign = next((path for path in Path("/home").glob("*") if path.stat().st_uid not in (0, os.geteuid())), None)
        ran = world.run(env={"HOME": str(foreign or "/")})
        assert (ran.status == 2) == (foreign is not None)


def test_kinds_and_children(told: Told) -> None:
    world, hub = told
    world.run("--kind", "schedule")
    parent = "s-" + "b" * 26
    world.run(env={"AMUX_SESSION": parent, "AMUX_MEMORY_BINDING": BINDING})
    world.run("--kind", "task", env={"AMUX_SESSION": parent})
    world.run(env={"AMUX_SESSION": "no session"})
    common = {"agent": "pi", "isolation": "none"}
    assert hub.asked("Begin") == [
        {**common, "kind": "schedule"},
        {**common, "kind": "child", "parent": parent},
        {**common, "kind": "task", "parent": parent},
        {**common, "kind": "interactive"},
    ]
    assert world.agent_environment["AMUX_SESSION"] == SESSION


class TestTool:
    def test_a_missing_amux_is_an_error_before_the_agent_starts(self, told: Told) -> None:
        world, hub = told
        words = [str(Path(AMUX).parent / "python"), "-m", "amux", *world.words()[1:]]
        with world.popen(words, {"PATH": "/nonexistent"}) as process:
            _, err = process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == 3
        assert json.loads(err.splitlines()[-1])["error"]["code"] == "not_found"
        assert not world.record.exists()
        assert hub.asked("End") == [{"session": SESSION}]

    def test_the_one_file_is_no_command_that_a_shell_finds(self, told: Told, pyz: Path) -> None:
        world, hub = told
        words = ["/usr/bin/python3", "-IS", str(pyz), *world.words()[1:]]
        for path, status in (("/nonexistent", 3), (str(Path(AMUX).parent), 0)):
            with world.popen(words, {"PATH": path}) as process:
                process.communicate(timeout=WAIT_SECONDS)
            assert process.returncode == status
            assert world.record.exists() == (status == 0)
        assert hub.asked("End") == [{"session": SESSION}]

    def test_amux_is_on_the_agents_path(self, told: Told) -> None:
        world, _ = told
        bare = "/usr/bin:/bin"
        world.run(do=("run=command -v amux",), env={"PATH": bare})
        assert world.agent_environment["PATH"] == f"{bare}:{Path(AMUX).parent}"
        assert json.loads(world.beside(".run").read_text())["out"] == f"{AMUX}\n"

    @pytest.mark.parametrize("entry", ["", ".", "bin"])
    def test_n4_a_checkout_with_an_amux_of_its_own_does_not_get_in_between(self, told: Told, entry: str) -> None:
        world, _ = told
        for place in ("amux", "bin/amux"):
            path = world.checkout / place
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!/bin/sh\necho evil\n")
            path.chmod(0o755)
        world.run(do=("run=command -v amux",), env={"PATH": f"{entry}:/usr/bin:/bin:{Path(AMUX).parent}"})
        assert json.loads(world.beside(".run").read_text())["out"] == f"{AMUX}\n"


def test_a_person_at_a_terminal_is_told_how_to_go_on(told: Told) -> None:
    world, _ = told
    with Job(world, world.words()) as job:
        assert job.next() == "ended 0 same"
        assert f"amux: to go on with this conversation: amux launch --resume {SESSION}" in job.shown()
    with Job(world, world.words(args=("--no-session",))) as job:
        assert job.next() == "ended 0 same"
        assert "--resume" not in job.shown()
