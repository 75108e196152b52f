"""Where the agent is looked for, and what a checkout cannot make of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux.launch import find, known
from tests.launch.launching import World

PI = known.find("pi")


def put(path: Path, mode: int = 0o755) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(mode)
    return str(path)


def test_path_comes_first_then_the_usual_places(tmp_path: Path) -> None:
    usual = put(tmp_path / "home/.npm-global/bin/pi")
    assert find.program(PI, None, {"PATH": ""}, str(tmp_path / "home")) == usual
    on_path = put(tmp_path / "bin/pi")
    assert find.program(PI, None, {"PATH": f"/nonexistent:{tmp_path}/bin"}, str(tmp_path / "home")) == on_path


@pytest.mark.parametrize("place", find.NPM)
def test_npm_and_other_managers(tmp_path: Path, place: str) -> None:
    wanted = put(tmp_path / place / "pi")
    assert find.program(PI, None, {"PATH": ""}, str(tmp_path)) == wanted


@pytest.mark.parametrize("line", ["prefix={home}/own", 'prefix = "${{HOME}}/own"', "prefix=~/own"])
def test_npms_own_prefix(tmp_path: Path, line: str) -> None:
    (tmp_path / ".npmrc").write_text(f"audit=false\n{line.format(home=tmp_path)}\n")
    wanted = put(tmp_path / "own/bin/pi")
    assert find.program(PI, None, {"PATH": ""}, str(tmp_path)) == wanted


def test_the_newest_node_of_nvm(tmp_path: Path) -> None:
    for version in ("v9.1.0", "v22.4.1", "v20.11.0"):
        put(tmp_path / find.NVM / version / "bin/pi")
    assert "/v22.4.1/" in find.program(PI, None, {"PATH": ""}, str(tmp_path))


def test_what_cannot_be_run_is_passed_over(tmp_path: Path) -> None:
    put(tmp_path / "a/pi", 0o644)
    (tmp_path / "b/pi").mkdir(parents=True)
    wanted = put(tmp_path / "c/pi")
    if os.geteuid() == 0:
        assert not find.runnable(str(tmp_path / "a/pi"))
    assert find.program(PI, None, {"PATH": f"{tmp_path}/a:{tmp_path}/b:{tmp_path}/c"}, "/nonexistent") == wanted


@pytest.mark.parametrize("entry", ["", ".", "bin", "./bin"])
def test_n4_a_checkout_does_not_choose_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    for place in ("pi", "bin/pi"):
        put(tmp_path / "checkout" / place)
    wanted = put(tmp_path / "real/pi")
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setattr(find, "SYSTEM", ())
    assert find.program(PI, None, {"PATH": f"{entry}:{tmp_path}/real"}, "/nonexistent") == wanted
    with pytest.raises(AmuxError) as missing:
        find.program(PI, None, {"PATH": entry}, str(tmp_path / "nobody"))
    assert missing.value.code == "not_found"
    assert "npm install" in missing.value.message
    assert "--program" in missing.value.message


def test_a_named_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = put(tmp_path / "mine/pi-next")
    monkeypatch.chdir(tmp_path)
    assert find.program(PI, wanted, {}, "/nonexistent") == wanted
    assert find.program(PI, "mine/pi-next", {}, "/nonexistent") == wanted
    assert find.program(PI, "pi-next", {"PATH": f"{tmp_path}/mine"}, "/nonexistent") == wanted
    for nothing in ("mine", str(tmp_path / "nothing"), "pi-next", ""):
        with pytest.raises(AmuxError) as refused:
            find.program(PI, nothing, {"PATH": "/nonexistent"}, "/nonexistent")
        assert refused.value.code == "invalid_argument"


def test_any_other_agent_is_told_apart(alone: World) -> None:
    ran = alone.run(agent="aider")
    assert ran.status == 2
    assert "aider has no memory capability" in ran.error["message"]
    assert not alone.record.exists()


def test_an_agent_beside_its_node_finds_it(alone: World) -> None:
    """nvm's shell function puts both on PATH; a launch from a desktop or from cron does not have it."""
    node = put(alone.home / find.NVM / "v22.4.1/bin/node")
    agent = alone.home / find.NVM / "v22.4.1/bin/pi"
    agent.symlink_to(alone.words()[4])
    bare = {"PATH": "/nonexistent"}
    words = [word for word in alone.words() if word not in ("--program", alone.words()[4])]
    assert alone.popen(words, bare).wait() == 0
    assert alone.agent_environment["PATH"] == f"/nonexistent:{os.path.dirname(node)}"
