"""Resuming: what the Hub remembers, what this account noted, and what stays as it began."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from amux.launch import known, notes, protocol
from amux.launch.values import Session
from tests.launch.telling import BINDING, NATIVE, SESSION, STATE, Told, instructions

TEXT = protocol.of(known.find("pi"))


def test_it_goes_on_as_the_hub_remembers(told: Told) -> None:
    world, hub = told
    hub.replies["Resume"] = STATE
    for agent in (None, "pi"):
        ran = world.run("--resume", SESSION, agent=agent)
        assert ran.status == 0, ran
        argv = world.started["argv"]
        assert argv[argv.index("--session") + 1].endswith(f"_{NATIVE}.jsonl")
        assert instructions(world) == TEXT
        assert world.agent_environment["AMUX_SESSION"] == SESSION
    assert hub.asked("Begin") == hub.asked("SetNative") == hub.asked("End") == []


@pytest.mark.parametrize("code", ["binding_mismatch", "not_found", "forbidden", "identity_refused", "memory_disabled"])
def test_a_refusal_is_an_error_before_the_agent_starts(told: Told, code: str) -> None:
    world, hub = told
    world.run()  # there is a note, and it does not count
    hub.replies["Resume"] = code
    ran = world.run("--resume", SESSION, agent=None)
    assert ran.error["code"] == code
    assert not world.record.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("native", "../../x"), ("native", NATIVE + "\n"), ("agent", "sh"), ("isolation", "off"), ("binding", "a")],
)
def test_m1_a_state_that_none_can_be_is_not_used(told: Told, field: str, value: str) -> None:
    world, hub = told
    hub.replies["Resume"] = {**STATE, field: value}
    ran = world.run("--resume", SESSION, agent=None)
    assert ran.status != 0
    assert not world.record.exists()


def test_a_switch_that_is_off_is_said_and_changes_nothing(told: Told) -> None:
    world, hub = told
    hub.replies["Resume"] = STATE
    for status in ({"memory_enabled_running": False}, {}, "busy"):
        hub.replies["GetStatus"] = status
        ran = world.run("--resume", SESSION, agent=None)
        assert ran.status == 0
        assert ("memory is switched off" in ran.err) == (status == {"memory_enabled_running": False})
        assert instructions(world) == TEXT


def test_what_the_session_began_with_stays(told: Told) -> None:
    world, hub = told
    hub.replies["Resume"] = STATE
    ran = world.run("--resume", SESSION, "--isolation", "private-home", agent=None)
    assert ran.error["code"] == "invalid_argument"
    hub.replies["Resume"] = {**STATE, "agent": "codex"}
    assert "not of pi" in world.run("--resume", SESSION).error["message"]
    assert not world.record.exists()


@pytest.mark.parametrize("away", ["stopped", "shutting_down", "busy"])
def test_without_the_hub_the_note_keeps_protocol_and_binding(told: Told, away: str) -> None:
    world, hub = told
    world.run()
    first = world.started
    if away == "stopped":
        hub.close()
    else:
        hub.replies["Resume"] = away
    ran = world.run("--resume", SESSION, agent=None)
    assert ran.status == 0, ran
    assert "its memory answers once the Hub does" in ran.err
    assert instructions(world) == TEXT
    again = world.started["argv"]
    record = first["argv"][first["argv"].index("--session") + 1]
    assert again[again.index("--session") + 1][-42:] == record[-42:]
    assert world.agent_environment["AMUX_MEMORY_BINDING"] == BINDING


def test_without_the_hub_and_without_a_note_it_is_an_error(told: Told) -> None:
    world, hub = told
    hub.close()
    ran = world.run("--resume", SESSION, agent=None)
    assert ran.error["code"] == "hub_unavailable"
    note = world.home / notes.PLACE / f"{SESSION}.json"
    note.parent.mkdir(parents=True)
    for text in (
        "",
        "[]",
        json.dumps({**STATE, "binding": "a/b"}),
        json.dumps({**STATE, "session": "s-" + "b" * 26}),
    ):
        note.write_text(text)
        assert world.run("--resume", SESSION, agent=None).status == 8
    note.unlink()
    note.symlink_to("/etc/passwd")
    assert world.run("--resume", SESSION, agent=None).status == 8
    assert not world.record.exists()


def test_a_conversation_that_was_never_seen_begins_anew_with_its_binding(told: Told) -> None:
    world, hub = told
    hub.replies["Resume"] = {key: value for key, value in STATE.items() if key != "native"}
    ran = world.run("--resume", SESSION, agent=None)
    assert "was never seen" in ran.err
    assert instructions(world) == TEXT
    assert len(hub.asked("SetNative")) == 1


def test_notes_are_bounded(tmp_path: Path) -> None:
    for number in range(notes.KEPT + 3):
        session = Session(f"s-{number:026d}".translate(str.maketrans("0189", "abcd")), "pi", "task", "none", "global")
        notes.save(str(tmp_path), session)
        os.utime(tmp_path / notes.PLACE / f"{session.id}.json", (number, number))
    left = sorted(path.stat().st_mtime for path in (tmp_path / notes.PLACE).iterdir())
    assert len(left) == notes.KEPT
    assert notes.load(str(tmp_path), session.id) == session
