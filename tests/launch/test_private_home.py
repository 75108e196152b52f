"""A private home: what it is given, and what it is not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.launch.launching import World
from tests.launch.telling import BINDING, SESSION, STATE, Told


def test_it_has_next_to_nothing_of_the_caller(told: Told) -> None:
    world, hub = told
    (world.home / ".netrc").write_text("secret")
    ran = world.run(
        "--isolation", "private-home", env={"TERM": "xterm", "OPENAI_API_KEY": "sk", "XDG_CONFIG_HOME": "/x"}
    )
    assert ran.status == 0, ran
    assert "private-home is weak" in ran.err
    home = world.home / f".local/state/amux/homes/{SESSION}"
    assert world.agent_environment == {
        "PATH": world.environment()["PATH"],
        "LC_ALL": "C.UTF-8",
        "TERM": "xterm",
        "HOME": str(home),
        "CODEX_HOME": f"{home}/.codex",
        "PI_CODING_AGENT_DIR": f"{home}/.pi/agent",
        "AMUX_HUB": world.hub,
        "AMUX_SESSION": SESSION,
        "AMUX_MEMORY_BINDING": BINDING,
    }
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not list(home.iterdir())
    assert hub.asked("Begin")[0]["isolation"] == "private-home"


def test_credentials_are_those_that_were_listed(told: Told) -> None:
    world, hub = told
    given = world.home / ".pi/agent/auth.json"
    given.parent.mkdir(parents=True)
    given.write_text("token")
    (world.home / ".netrc").write_text("other")
    options = ("--credential-file", ".pi/agent/auth.json", "--credential-variable", "OPENAI_API_KEY")
    world.run("--isolation", "private-home", *options, env={"OPENAI_API_KEY": "sk", "OTHER_KEY": "x"})
    home = world.home / f".local/state/amux/homes/{SESSION}"
    files = [path for path in home.rglob("*") if path.is_file()]
    assert files == [home / ".pi/agent/auth.json"]
    assert files[0].read_text() == "token"
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600
    assert world.agent_environment["OPENAI_API_KEY"] == "sk"
    assert "OTHER_KEY" not in world.agent_environment
    hub.replies["Resume"] = {**STATE, "isolation": "private-home"}
    given.write_text("new token")
    assert world.run("--resume", SESSION, agent=None).status == 0
    assert files[0].read_text() == "token"
    assert "OPENAI_API_KEY" not in world.agent_environment
    assert world.run("--resume", SESSION, *options[:2], agent=None).status == 0
    assert files[0].read_text() == "new token"


@pytest.mark.parametrize("file", ["../outside", "/etc/passwd", ".", "", "directory", "nothing", "pipe"])
def test_what_is_no_credential_is_refused(told: Told, file: str) -> None:
    world, hub = told
    (world.home.parent / "outside").write_text("x")
    (world.home / "directory").mkdir()
    os.mkfifo(world.home / "pipe")
    ran = world.run("--isolation", "private-home", "--credential-file", file)
    assert ran.status == 2, ran
    assert not world.record.exists()
    assert hub.asked("End") == [{"session": SESSION}]


def test_a_copy_is_never_written_through_a_link(told: Told) -> None:
    world, _ = told
    (world.home / "token").write_text("token")
    home = world.home / f".local/state/amux/homes/{SESSION}"
    home.mkdir(parents=True, mode=0o700)
    (home / "token").symlink_to(world.checkout / "stolen")
    world.run("--isolation", "private-home", "--credential-file", "token")
    assert not (world.checkout / "stolen").exists()
    assert (home / "token").read_text() == "token"


def test_a_home_that_others_may_enter_is_not_used(told: Told) -> None:
    world, _ = told
    home = world.home / f".local/state/amux/homes/{SESSION}"
    home.mkdir(parents=True)
    home.chmod(0o750)
    ran = world.run("--isolation", "private-home")
    assert ran.error["code"] == "unsafe_file"
    assert not world.record.exists()


def test_without_memory_it_is_still_private(alone: World) -> None:
    ran = alone.run("--isolation", "private-home", env={"CODEX_HOME": "/srv/codex"})
    home = Path(alone.agent_environment["HOME"])
    assert home.parent == alone.home / ".local/state/amux/homes"
    assert home.name.startswith("u-")
    assert str(home) in ran.err
    assert alone.agent_environment["CODEX_HOME"] == f"{home}/.codex"
