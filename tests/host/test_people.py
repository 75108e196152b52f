"""What one person can see of another: nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.host.amux import status
from tests.host.conftest import Pair

CLOSED = [
    "ls /var/lib/amux",
    "find /var/lib/amux/memory",
    "cat /var/lib/amux/settings.yaml",
    "test -w /run/amux",
    "test -w /etc/amux -o -w /etc/amux/hub.yaml",
    "test -w /etc/pam.d/amux",
]
"""Nothing here changes a host that fails the test."""


@dataclass(frozen=True)
class Note:
    """A document of Ann's with a word in it that stands nowhere else."""

    path: str
    word: str


@pytest.fixture(scope="module")
def isolation(pair: Pair) -> None:
    """The two have a memory each."""
    if not status(pair.ann.host)["isolation"]:
        pytest.skip("one memory for all accounts: isolation is off")


@pytest.fixture(scope="module")
def note(isolation: None, pair: Pair) -> Iterator[Note]:
    word = f"amuxcheck{secrets.token_hex(8)}"
    path = f"amux-check/{word}.md"
    done = pair.ann.run(f"sh -c 'echo {word} | amux memory upsert {path} --expected-revision absent --json'")
    if '"memory_disabled"' in done.stderr:
        pytest.skip("the memory is off: amux system config set memory.enabled true")
    assert done.rc == 0, done.stderr
    yield Note(path, word)
    revision = json.loads(done.stdout)["revision"]
    assert pair.ann.run("amux memory forget %s --expected-revision %s", path, revision).rc == 0


def test_each_is_somebody_else_with_a_memory_of_their_own(isolation: None, pair: Pair) -> None:
    ann, ben = pair.ann.whoami(), pair.ben.whoami()
    for said, person in ((ann, pair.ann), (ben, pair.ben)):
        assert said["account"] == person.name
        assert said["isolation"]
        assert said["scope"] == f"principal:{said['principal']}"
        assert not said["administrator"]
    assert ann["scope"] != ben["scope"], "two accounts of one person: name two others by --accounts"


def test_one_finds_what_one_wrote(pair: Pair, note: Note) -> None:
    assert note.path in pair.ann.run("amux memory search %s --json", note.word).stdout
    assert note.word in pair.ann.run("amux memory show %s --json", note.path).stdout


def test_the_other_finds_and_reads_nothing(pair: Pair, note: Note) -> None:
    done = pair.ben.run("amux memory search %s --json", note.word)
    assert done.rc == 0, done.stderr
    assert note.path not in done.stdout
    assert note.word not in pair.ben.run("amux memory list --json").stdout
    done = pair.ben.run("amux memory show %s --json", note.path)
    assert done.rc == 0, done.stderr
    assert not json.loads(done.stdout)["exists"]


def test_a_binding_names_no_other_memory(pair: Pair, note: Note) -> None:
    binding = f"AMUX_MEMORY_BINDING=principal:{pair.ann.whoami()['principal']}"
    assert pair.ben.refused(f"env {binding} amux memory show %s --json", note.path) == "binding_mismatch"


def test_root_has_no_memory(pair: Pair, note: Note) -> None:
    assert pair.ann.host.run("amux memory show %s --json", note.path).rc != 0


@pytest.mark.parametrize("command", CLOSED)
def test_the_system_is_closed(pair: Pair, command: str) -> None:
    assert pair.ben.run(command).rc != 0


@pytest.mark.parametrize("socket", ["admin", "pam"])
def test_the_sockets_of_root_and_the_hub_cannot_be_opened(pair: Pair, socket: str) -> None:
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect('/run/amux/{socket}.sock')"
    done = pair.ben.run("/usr/bin/python3 -IS -c %s", connect)
    assert "PermissionError" in done.stderr


def test_administration_is_root_s(pair: Pair) -> None:
    assert pair.ben.refused("amux admin principals list --json") == "forbidden"
    assert pair.ben.refused("amux system config list --json") == "forbidden"
