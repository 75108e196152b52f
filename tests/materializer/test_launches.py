"""Launches by the real server with its unit's capabilities: who gets one, what is in it, how it ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux.launch.materializer import open_launch
from amux_materializer.server import LAUNCHES_PER_UID
from tests.materializer.kit import ARCHIVE, RUN, SESSION, WANTED, Account, Helper, being, hear, line, wait_for

pytestmark = pytest.mark.root


def test_a_launch_is_the_callers_and_goes_with_its_lock(helper: Helper, alice: Account) -> None:
    launch = helper.launch(alice, binding="principal:jürgen")
    assert launch.run.parent == helper.parent and RUN.fullmatch(launch.run.name)
    memory = launch.run / "agent-config/memory"
    found = {path: path.lstat() for path in (launch.run, *launch.run.rglob("*"))}
    assert {str(path.relative_to(launch.run)): stat.filemode(one.st_mode) for path, one in found.items()} == {
        ".": "drwx------",
        "lock": "-rw-------",
        "agent-config": "drwx------",
        "agent-config/memory": "drwx------",
        "agent-config/memory/amux.pyz": "-rw-------",
        "agent-config/memory/connection.json": "-rw-------",
    }
    assert {(one.st_uid, one.st_gid) for one in found.values()} == {(alice.uid, alice.gid)}
    assert (memory / "amux.pyz").read_bytes() == ARCHIVE
    assert (memory / "connection.json").read_text() == (
        f'{{"hub":"/run/amux/hub.sock","session":"{SESSION}","binding":"principal:j\\u00fcrgen"}}\n'
    )
    assert helper.runs() == [launch.run]
    launch.end()
    wait_for(lambda: not helper.runs(), "the end of the run directory")
    wait_for(lambda: helper.records("end"), "its record")
    assert helper.records("launch") == [f"launch: uid={alice.uid} run={launch.run}"]
    assert helper.records("end") == [f"end: uid={alice.uid} run={launch.run}"]
    assert not helper.records("refused") and not helper.waiters()


def test_the_client_of_amux_launch_understands_it(helper: Helper, alice: Account) -> None:
    tool = helper.base / "amux"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    pattern = re.compile(re.escape(str(helper.parent)) + "/[0-9a-f]{32}")
    with being(alice.uid, alice.gid):
        run, lock = open_launch(SESSION, "global", helper.path, 0, pattern, str(helper.base))
    assert helper.runs() == [Path(run)]
    os.close(lock)
    wait_for(lambda: not helper.runs(), "the end")
    with pytest.raises(AmuxError) as caught:  # root, whom the helper refuses without a word from it
        open_launch(SESSION, "global", helper.path, 0, pattern, str(helper.base))
    assert caught.value.code == "identity_refused"


@pytest.mark.parametrize(
    "field",
    [
        {"uid": 0}, {"user": "root"}, {"path": "/root"}, {"run": "/etc"}, {"content": "x"}, {"hub": "/tmp/hub.sock"},
        {"home": "/root"}, {"session": "../../../etc/passwd"}, {"session": SESSION + "/.."}, {"session": 1},
        {"binding": "principal:../x"}, {"binding": "principal:a\nb"}, {"binding": "principal:" + "ü" * 200},
        {"binding": "user:0"}, {"binding": None},
    ],
    ids=repr,
)  # fmt: skip
def test_m1_no_field_names_a_person_a_path_or_a_content(
    helper: Helper, alice: Account, field: dict[str, object]
) -> None:
    assert helper.ask(alice.uid, line({**WANTED, **field}))["error"]["code"] == "invalid_argument"
    wait_for(lambda: not helper.runs(), "nothing to be left")
    wait_for(lambda: helper.records("refused"), "the record")
    assert helper.records("refused")[0].startswith(f"refused: uid={alice.uid} (invalid_argument: ")
    assert not helper.records("launch")


@pytest.mark.parametrize(
    "data",
    [
        b"\n", b"{}{}\n", b"[1]\n", b"\xff\n", b"{" * 3000 + b"\n", b'{"amux":NaN}\n', line(WANTED) + b"x", b"x" * 4097,
        line(WANTED)[:-2] + b',"session":"' + SESSION.encode() + b'"}\n',
    ],
    ids=range(9),
)  # fmt: skip
def test_what_is_no_request_is_refused(helper: Helper, alice: Account, data: bytes) -> None:
    assert helper.ask(alice.uid, data)["error"]["code"] in {"protocol_error", "limit_exceeded"}
    wait_for(lambda: helper.records("refused") and not helper.runs(), "its record and its end")


def test_another_version_is_told_so(helper: Helper, alice: Account) -> None:
    for version in (2, True, "1", None):
        answer = helper.ask(alice.uid, line({**WANTED, "amux": version}))
        assert answer["error"]["code"] == "version_mismatch"


@pytest.mark.parametrize("uid", [0, 1, 999, 65534, 4_000_000_001])
def test_m1_whoever_is_no_person_gets_nothing(helper: Helper, uid: int) -> None:
    assert helper.ask(uid, line(WANTED))["error"]["code"] == "identity_refused"
    wait_for(lambda: helper.records("refused"), "the record")
    assert helper.records("refused")[0].startswith(f"refused: uid={uid} (identity_refused: ")
    wait_for(lambda: not helper.runs(), "nothing to be left")


@pytest.mark.parametrize("second", [b"", b"{}\n", line({"locked": 1}), line({"locked": True}), line({"locked": False})])
def test_a_launch_whose_lock_is_not_held_is_none(helper: Helper, alice: Account, second: bytes) -> None:
    with helper.connect(alice.uid) as peer:
        peer.sendall(line(WANTED))
        run = Path(hear(peer)["run"])
        assert helper.runs() == [run]
        if second:
            peer.sendall(second)
            assert hear(peer)["error"]["code"] == "protocol_error"
    wait_for(lambda: not helper.runs(), "its end")
    wait_for(lambda: helper.records("refused"), "its record")
    assert not helper.records("launch")


def test_an_archive_that_others_can_write_is_copied_to_nobody(helper: Helper, alice: Account) -> None:
    helper.archive.chmod(0o666)
    assert helper.ask(alice.uid, line(WANTED))["error"]["code"] == "unsafe_file"
    wait_for(lambda: not helper.runs(), "its end")


def test_m10_a_uid_has_so_many_launches_and_holds_up_no_other(helper: Helper, alice: Account, bob: Account) -> None:
    launches = [helper.launch(alice) for _ in range(LAUNCHES_PER_UID)]
    for _ in range(3):
        assert helper.ask(alice.uid, line(WANTED))["error"]["code"] == "limit_exceeded"
    other = helper.launch(bob)
    launches.pop().end()
    wait_for(lambda: helper.records("end"), "the end of one")
    launches.append(helper.launch(alice))
    wait_for(lambda: len(helper.records("refused")) == 2, "one record and one count")
    assert helper.records("refused")[1] == f"refused: uid={alice.uid}, 2 more within 1 s"
    for launch in (other, *launches):
        launch.end()
    wait_for(lambda: not helper.runs(), "the end of all")


def test_m10_a_waiter_that_its_user_kills_is_made_anew(helper: Helper, alice: Account) -> None:
    launch = helper.launch(alice)
    for _ in range(2):
        (waiter,) = helper.waiters()
        done = alice.run("import os, sys; os.kill(int(sys.argv[1]), 9)", str(waiter))
        assert done.wait() == 0
        done.communicate()
        wait_for(lambda old=waiter: helper.waiters() not in ([], [old]), "a new one")  # type: ignore[misc]
        assert (launch.run / "agent-config/memory/amux.pyz").exists()
    launch.end()
    wait_for(lambda: not helper.runs(), "the end of the run directory")


def test_m10_the_next_start_keeps_what_lives_and_sweeps_the_rest(helper: Helper, alice: Account, bob: Account) -> None:
    lives, ended = helper.launch(alice), helper.launch(bob)
    for pid in helper.waiters():
        os.kill(pid, signal.SIGSTOP)  # a crash of everything, with the run directories left
    pids = helper.waiters()
    helper.kill()
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    ended.end()
    (helper.parent / ("0" * 32)).mkdir()
    (helper.parent / "odd").mkdir()
    helper.start()
    wait_for(lambda: helper.runs() == sorted([lives.run, helper.parent / "odd"]), "the sweep")
    assert "odd is no run directory and was left alone" in helper.log()
    assert (lives.run / "agent-config/memory/connection.json").exists()
    lives.end()
    wait_for(lambda: helper.runs() == [helper.parent / "odd"], "the end of the other one")


def test_term_serves_what_is_under_way_and_ends_no_launch(helper: Helper, alice: Account) -> None:
    launch = helper.launch(alice)
    with helper.connect(alice.uid) as peer:
        wait_for(lambda: len(helper.waiters()) == 2, "the second to begin")
        assert helper.process is not None
        helper.process.terminate()
        peer.sendall(line({**WANTED, "uid": 0}))
        assert hear(peer)["error"]["code"] == "invalid_argument"
        assert helper.process.wait() == 0
    assert launch.run.exists()
    helper.start()
    launch.end()
    wait_for(lambda: not helper.runs(), "the end of all")


SWAP = """
import os, sys
parent, victims = sys.argv[1], sys.argv[2:]
print("ready", flush=True)
count = 0
while os.path.exists(parent):
    for name in os.listdir(parent):
        run = os.path.join(parent, name)
        victim = victims[count % len(victims)]
        count += 1
        fds = []
        try:
            for place in (run, "agent-config", "memory"):
                fds.append(os.open(place, os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fds[-1] if fds else None))
        except OSError:
            pass
        for fd in reversed(fds):
            for name in ("amux.pyz", "memory", "agent-config", "lock"):
                try:
                    os.rename(name, name + ".away", src_dir_fd=fd, dst_dir_fd=fd)
                    os.symlink(victim, name, dir_fd=fd)
                except OSError:
                    pass
            os.close(fd)
"""


def test_m2_m9_swapped_directories_lead_nobody_astray(helper: Helper, alice: Account) -> None:
    """Her own files are at stake too: a clean-up that follows a link removes them as herself."""
    helper.parent.chmod(0o755)  # she must not have to guess names
    roots, hers = helper.base / "roots", helper.base / "hers"
    for place, owner in ((roots, 0), (hers, alice.uid)):
        (place / "below").mkdir(parents=True)
        (place / "below/file").write_text("precious")
        for path in (place, place / "below", place / "below/file"):
            os.chown(path, owner, owner and alice.gid)
            path.chmod(0o755)
    before = _look(roots), _look(hers)
    attacker = alice.run(SWAP, str(helper.parent), str(roots), str(hers))
    try:
        assert attacker.stdout is not None and attacker.stdout.readline() == b"ready\n"
        for _ in range(150):
            with contextlib.suppress(OSError, AssertionError):
                helper.launch(alice).end()
    finally:
        attacker.kill()
        attacker.communicate()
    wait_for(lambda: not helper.runs(), "the end of all")
    assert (_look(roots), _look(hers)) == before


def _look(place: Path) -> dict[str, tuple[int, int, int, bytes]]:
    found = {}
    for path in (place, *place.rglob("*")):
        one = path.lstat()
        found[str(path)] = one.st_mode, one.st_uid, one.st_gid, path.read_bytes() if path.is_file() else b""
    return found
