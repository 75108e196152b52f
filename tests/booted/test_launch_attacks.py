"""Attacks on the helper of launches as it is installed: by the account of the Hub, by users, for a minute."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.booted.launching import PLACE, records, refusals, runs
from tests.booted.system import Maker, System

REQUEST: dict[str, object] = {"amux": 1, "session": "s-" + "a" * 26, "binding": "global"}
FORGED: list[dict[str, object]] = [
    {"uid": 0},
    {"user": "alice"},
    {"principal": "alice"},
    {"run": "/etc"},
    {"path": "../../etc/cron.d/x"},
    {"content": "#!/bin/sh"},
    {"session": "../../../etc/passwd"},
    {"binding": "principal:../../root"},
    {"amux": 2},
]
"""What is changed in a request: nobody else, no path and no content can be asked for."""

TALK = """
import json, socket, sys
for line in json.load(sys.stdin):
    with socket.socket(socket.AF_UNIX) as helper:
        helper.settimeout(60)
        helper.connect("/run/amux/launch.sock")
        try:
            helper.sendall(line.encode() + b"\\n")
        except BrokenPipeError:
            pass
        print(helper.makefile().readline().strip(), flush=True)
"""
"""Sends each line over a connection of its own; the first answer to each."""

SWAP = """
import fcntl, json, os, socket, sys, threading, time
until, request, targets, rounds = time.monotonic() + float(sys.argv[1]), sys.argv[2].encode() + b"\\n", sys.argv[3:], 0

def quietly(do, *what):
    try:
        do(*what)
    except OSError:
        pass

def swap(run, over):
    names = [run + name for name in ("/lock", "/agent-config", "/agent-config/memory", "/agent-config/memory/amux.pyz")]
    while not over.is_set():
        for name in names:
            for target in targets:
                quietly(os.rename, name, run + "/aside")
                quietly(os.symlink, target, name)
                quietly(os.link, target + "/file", run + "/hard")
                quietly(os.unlink, name)
                quietly(os.rename, run + "/aside", name)

while time.monotonic() < until:
    over = threading.Event()
    try:
        with socket.socket(socket.AF_UNIX) as helper:
            helper.settimeout(60)
            helper.connect("/run/amux/launch.sock")
            helper.sendall(request)
            answer = helper.makefile().readline()
            run = json.loads(answer)["run"]
            swapping = threading.Thread(target=swap, args=(run, over))
            if rounds % 2:
                lock = os.open(run + "/lock", os.O_RDWR)
                fcntl.flock(lock, fcntl.LOCK_EX)
                swapping.start()
                helper.sendall(b'{"locked":true}\\n')
                helper.recv(4096)
                os.close(lock)
            else:
                swapping.start()
        end = time.monotonic() + 0.2
        while os.path.exists(run) and time.monotonic() < end:
            time.sleep(0.01)
        rounds += 1
    except (OSError, KeyError, ValueError):
        time.sleep(0.05)  # the helper is being killed beside us, or our launches are all we may have
    finally:
        over.set()
print(rounds)
"""
"""Launches, and swaps every name in the run directory with links to elsewhere while the helper clears it away."""

OUTSIDE = "/srv/outside"
Race = Callable[[], tuple[int, str, str]]


@pytest.fixture(scope="module")
def swapper(_installed: System) -> Iterator[Race]:
    """M2 for a minute, beside the other tests."""
    machine = _installed.machine
    machine.account("mallory", "--uid=19999")
    mine = "/home/mallory/mine"
    for path, owner in ((OUTSIDE, "root"), (mine, "mallory")):
        script = f"mkdir -p {path}/below && echo kept | tee {path}/file {path}/below/file && chmod 755 {path}"
        machine.run("sh", "-ec", f"{script}; chown -R {owner}: {path}; chmod 4755 {path}/file")
    places = (OUTSIDE, mine, "/etc/pam.d", "/usr/lib/amux/launch-bin")
    look = ("find", *places, "-printf", "%p %y %U %G %m %n %s %l\\n")

    def outside() -> str:
        return "\n".join(sorted(machine.run(*look).stdout.splitlines()))

    before, words = outside(), ("python3", "-IS", "-c", SWAP, "60", json.dumps(REQUEST), OUTSIDE, mine)
    process = machine.start(*words, user="mallory", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def look_again() -> tuple[int, str, str]:
        """How often it swapped, what was outside before, and what is now."""
        rounds, _ = process.communicate(timeout=180)
        assert process.returncode == 0
        return int(rounds), before, outside()

    yield look_again
    if process.poll() is None:
        process.communicate(timeout=180)
    machine.remove_account("mallory")
    machine.run("rm", "-r", OUTSIDE)


@pytest.fixture(autouse=True)
def _beside(system: System, request: pytest.FixtureRequest) -> None:
    """The race runs from the first test of Debian 13 on; what it races with is the same code on both."""
    if system.machine.suite == "trixie":
        request.getfixturevalue("swapper")


def _ask(system: System, user: str | int | None, *requests: object) -> list[dict[str, Any]]:
    lines = [one if isinstance(one, str) else json.dumps(one) for one in requests]
    done = system.machine.run("python3", "-IS", "-c", TALK, user=user, stdin=json.dumps(lines))
    return [json.loads(line) if line else {} for line in done.stdout.split("\n")[:-1]]


def test_m1_neither_the_hubs_account_nor_root_nor_nobody_gets_a_launch_and_all_is_audited(system: System) -> None:
    every = [REQUEST, *({**REQUEST, **forged} for forged in FORGED), "{", "", "x" * 5000]
    hub = int(system.machine.run("id", "-u", "amux").stdout)
    for user, uid in (("amux", hub), (None, 0), (65534, 65534), (999, 999), (29999, 29999)):
        seen = refusals(system, uid)
        answers = _ask(system, user, *every)
        assert {answer["error"]["code"] for answer in answers} == {"identity_refused"}, answers
        assert len(answers) == len(every)
        system.machine.wait(f"a record of each of {uid}", lambda: refusals(system, uid) == seen + len(every))  # noqa: B023
        assert records(system, "launch", uid) == []
        system.machine.wait("nothing to be left", lambda: not runs(system, uid))  # noqa: B023
    others = ("find", PLACE, "-mindepth", "1", "-maxdepth", "1", "!", "-user", "19999")
    system.machine.wait("nobody to have got one", lambda: system.machine.run(*others).stdout == "")


def test_m1_no_field_names_another_uid_a_path_or_a_content(system: System, person: Maker) -> None:
    alice = person("alice")
    uid = int(system.machine.run("id", "-u", alice).stdout)
    before = system.machine.run("sh", "-c", "ls -lR --time-style=full-iso /etc /usr/lib/amux/launch-bin").stdout
    answers = _ask(system, alice, *({**REQUEST, **forged} for forged in FORGED), '{"amux":1,"amux":1}', "x" * 5000)
    codes = [answer["error"]["code"] for answer in answers]
    assert set(codes) == {"invalid_argument", "version_mismatch", "protocol_error", "limit_exceeded"}
    assert codes[:8] == ["invalid_argument"] * 8
    system.machine.wait("a record of each", lambda: refusals(system, uid) == len(answers))
    system.machine.wait("nothing of hers", lambda: runs(system, uid) == [])
    assert system.machine.run("sh", "-c", "ls -lR --time-style=full-iso /etc /usr/lib/amux/launch-bin").stdout == before


@pytest.mark.parametrize("_installed", ["trixie"], indirect=True)
def test_m2_c42_a_minute_of_swaps_changes_nothing_outside(system: System, swapper: Race) -> None:
    rounds, before, after = swapper()
    assert rounds > 0
    assert after == before
    assert "/srv/outside/file f 0 0 4755 1 5" in before, "root's, with one name"
    system.machine.wait("its run directories to be gone", lambda: not runs(system, "mallory"), 60)
