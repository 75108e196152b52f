"""Launches and a real private Hub: what one begins the other remembers, across restarts and the switch."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amux.launch import notes
from tests.harness import WAIT_SECONDS, Hub
from tests.launch.launching import AMUX, World


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with Hub(tmp_path / "hub", mcp=False) as running:
        yield running


@pytest.fixture
def person(tmp_path: Path, hub: Hub) -> World:
    """Somebody whose account keeps no notes: only the Hub can know a session."""
    return World(tmp_path, hub.sockets["hub"])


def _sessions(person: World) -> list[dict[str, Any]]:
    done = subprocess.run(
        [AMUX, "session", "list"], env=person.environment(), capture_output=True, timeout=WAIT_SECONDS, check=True
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["sessions"]
    return found


def _begun(person: World, *options: str, **more: Any) -> dict[str, Any]:
    ran = person.run(*options, **more)
    assert ran.status == 0, ran
    shutil.rmtree(person.home / notes.PLACE)
    (session,) = (one for one in _sessions(person) if one["session"] == person.agent_environment["AMUX_SESSION"])
    return session


def _record(person: World) -> str:
    argv = person.started["argv"]
    return str(argv[argv.index("--session") + 1])


def test_a_launch_gets_a_session(person: World) -> None:
    session = _begun(person, "--kind", "task")
    assert (session["agent"], session["kind"], session["isolation"], session["binding"]) == (
        "pi",
        "task",
        "none",
        "global",
    )
    assert _record(person).endswith(f"_{session['native']}.jsonl")
    assert person.agent_environment["AMUX_MEMORY_BINDING"] == "global"


def test_c37_resuming_works_after_the_hub_was_killed(person: World, hub: Hub) -> None:
    session = _begun(person)
    hub.kill()
    hub.start()
    ran = person.run("--resume", session["session"], agent=None)
    assert ran.status == 0, ran
    assert _record(person).endswith(f"_{session['native']}.jsonl")
    assert person.agent_environment["AMUX_SESSION"] == session["session"]
    (again,) = _sessions(person)
    assert again == {**session, "last_used": again["last_used"]}


def test_the_agents_calls_reach_the_memory_of_the_session(person: World) -> None:
    ran = person.run(
        do=(f"run=echo x | {AMUX} memory upsert a.md --expected-revision absent; {AMUX} memory show a.md",)
    )
    assert ran.status == 0, ran
    answer = json.loads(person.beside(".run").read_text())
    assert answer["status"] == 0 and json.loads(answer["out"].splitlines()[-1])["content"] == "x\n", answer


def test_a_launch_from_a_launch_is_a_child(person: World) -> None:
    parent = _begun(person)["session"]
    child = _begun(person, env={"AMUX_SESSION": parent, "AMUX_MEMORY_BINDING": "global"})
    assert (child["parent"], child["kind"]) == (parent, "child")


def test_while_the_switch_is_off_it_resumes_and_begins_none(person: World, hub: Hub) -> None:
    session = _begun(person)["session"]
    hub.stop()
    hub.save_settings({"memory": {"enabled": False}})
    hub.start()
    ran = person.run("--resume", session, agent=None)
    assert ran.status == 0 and "memory is switched off" in ran.err, ran
    assert person.agent_environment["AMUX_SESSION"] == session
    ran = person.run()
    assert ran.status == 0 and "AMUX_SESSION" not in person.agent_environment
    assert [one["session"] for one in _sessions(person)] == [session]


def test_another_scope_is_refused_before_the_agent_starts(person: World, hub: Hub) -> None:
    session = _begun(person)["session"]
    hub.stop()
    hub.write_config({"isolation": True})
    hub.start()
    person.record.unlink()
    ran = person.run("--resume", session, agent=None)
    assert ran.error["code"] == "binding_mismatch"
    assert not person.record.exists()


def test_one_that_ended_is_not_found_whatever_this_account_noted(person: World) -> None:
    person.run()
    session = person.agent_environment["AMUX_SESSION"]
    subprocess.run([AMUX, "session", "end", session], env=person.environment(), timeout=WAIT_SECONDS, check=True)
    ran = person.run("--resume", session, agent=None)
    assert ran.error["code"] == "not_found"
    assert not person.record.exists()


def test_a_launch_that_comes_to_nothing_leaves_no_session(person: World) -> None:
    own = person.home / ".pi" / "agent"
    own.mkdir(parents=True)
    (own / "APPEND_SYSTEM.md").write_text("x" * (96 * 1024 + 1))
    assert person.run().status != 0
    assert _sessions(person) == []
