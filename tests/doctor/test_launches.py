"""The checks of launches: the socket, the tool, the place of run directories, and launch states."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from amux_hub.sessions import record
from tests.doctor.kit import ME, Made, told

SESSION = record.Session("s-" + "a" * 26, ME, "global", "pi", "task", "dac", *["2030-01-02T03:04:05Z"] * 2)


@pytest.fixture
def ready(made: Made, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A host on which everything that a launch needs is right."""
    one = socket.socket(socket.AF_UNIX)
    one.bind(made.places.launch_socket)
    one.close()
    os.chmod(made.places.launch_socket, 0o666)
    for path, mode in ((made.places.launch_bin, 0o755), (made.places.launches, 0o711)):
        os.mkdir(path)
        os.chmod(path, mode)
    tool = Path(made.places.launch_bin) / "amux"
    tool.touch()
    tool.chmod(0o755)
    ismount = os.path.ismount
    monkeypatch.setattr(os.path, "ismount", lambda path: path == made.places.launches or ismount(path))
    return made


def test_as_it_should_be_also_before_the_first_launch(ready: Made) -> None:
    assert ready.run("launches").outcome == "ok"
    os.rmdir(ready.places.launches)
    assert ready.run("launches").outcome == "ok"


def test_a_private_hub_has_no_helper(private: Made) -> None:
    assert private.run("launches").outcome == "skipped"


@pytest.mark.parametrize("name", ["launch_socket", "launch_bin", "launches"])
def test_modes_and_owners_are_those_that_are_wanted(ready: Made, name: str) -> None:
    os.chmod(getattr(ready.places, name), 0o777)
    found = ready.run("launches")
    assert told(found) == {("problem", "mode")}
    assert {kind for _, kind in told(ready.run("launches", root=os.geteuid() + 1))} >= {"owner", "mode"}


def test_what_is_missing_or_of_another_kind(ready: Made) -> None:
    os.unlink(ready.places.launch_socket)
    assert told(ready.run("launches")) == {("problem", "missing")}
    Path(ready.places.launch_socket).touch()
    assert told(ready.run("launches")) == {("problem", "type")}
    os.unlink(ready.places.launch_bin + "/amux")
    assert told(ready.run("launches")) == {("problem", "type"), ("problem", "missing")}
    shutil.rmtree(ready.places.launches)
    Path(ready.places.launches).touch()
    assert told(ready.run("launches")) == {("problem", "type"), ("problem", "missing"), ("problem", "kind")}


def test_another_program_first_on_the_path_of_agents(ready: Made) -> None:
    (Path(ready.places.launch_bin) / "git").touch()
    found = ready.run("launches")
    assert told(found) == {("problem", "stranger")}
    assert found.findings[0].fix.endswith("/launch-bin/git")


def test_a_place_that_is_no_mount_or_full(ready: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(ready.places.launches)
    full = os.statvfs_result((*real[:2], 1000, 99, 99, 1000, 99, 99, *real[8:]))
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    assert told(ready.run("launches")) == {("warning", "space"), ("warning", "inodes")}
    monkeypatch.setattr(os.path, "ismount", lambda path: False)
    assert told(ready.run("launches")) == {("warning", "mount")}


def test_no_launch_state_yet(made: Made) -> None:
    assert (made.run("sessions").outcome, made.run("sessions").summary) == ("ok", "no launch yet")


def test_launch_states_as_they_should_be_and_not(made: Made) -> None:
    directory = made.home / "sessions"
    directory.mkdir(mode=0o700)
    good = directory / f"{SESSION.id}.json"
    good.write_bytes(record.encode(SESSION))
    found = made.run("sessions")
    assert (found.outcome, found.summary) == ("ok", "1 launch state")
    (directory / f"s-{'b' * 26}.json").write_bytes(record.encode(SESSION))
    assert told(made.run("sessions")) == {("warning", "record")}
    (directory / f"s-{'b' * 26}.json").unlink()
    (directory / "link.json").symlink_to(good)
    os.mkfifo(directory / "fifo.json")
    os.link(good, directory / "hard.json")
    assert told(made.run("sessions")) == {("problem", "kind")}
    assert len(made.run("sessions").findings) == 4
    directory.chmod(0o750)
    assert ("note", "mode") in told(made.run("sessions"))
    assert ("problem", "owner") in told(made.run("sessions", account="lp"))


def test_launch_states_are_no_directory(made: Made) -> None:
    (made.home / "sessions").symlink_to(made.directory)
    assert told(made.run("sessions")) == {("problem", "kind")}
