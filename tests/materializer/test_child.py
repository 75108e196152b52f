"""What a launch's process is, seen from outside while it waits: golden lists, whatever the service manager passed."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from tests.materializer.kit import Account, Helper, Launch, status, wait_for

pytestmark = pytest.mark.root

THREE = (1 << 0) | (1 << 6) | (1 << 7)
"""CAP_CHOWN, CAP_SETGID, CAP_SETUID."""


def _messy() -> None:
    """What a start may leave set, and a child must not have."""
    os.umask(0)
    os.nice(-5)
    os.setgroups([0, 4, 27])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM])
    resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
    Path("/proc/self/oom_score_adj").write_text("300")


@pytest.fixture(params=["first", "made anew"])
def waiter(helper: Helper, alice: Account, request: pytest.FixtureRequest) -> tuple[int, bool]:
    """The process of a launch of hers by a server that was started in a mess; whether it is the launch's first one."""
    helper.stop()
    env = {**os.environ, "SECRET": "of the service", "LD_LIBRARY_PATH": "/nowhere"}
    helper.start(preexec_fn=_messy, env=env)
    launch = Launch(helper, alice, {"amux": 1, "session": "s-" + "b" * 26, "binding": "global"})
    (pid,) = helper.waiters()
    wait_for(lambda: _waits(pid), "it to wait for the lock")
    if request.param == "first":
        return pid, True
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: helper.waiters() not in ([], [pid]), "a new waiter")
    (pid,) = helper.waiters()
    wait_for(lambda: _waits(pid), "it to wait for the lock")
    assert launch.run.exists()
    return pid, False


def _waits(pid: int) -> bool:
    """Whether the process waits for a lock, proc_locks(5)."""
    return any("->" in row and f" {pid} " in row for row in Path("/proc/locks").read_text().splitlines())


def test_m3_it_is_the_caller_and_nothing_more(waiter: tuple[int, bool], alice: Account) -> None:
    pid, first = waiter
    now = status(pid)
    assert now["Uid"] == " ".join([str(alice.uid)] * 4)
    assert now["Gid"] == " ".join([str(alice.gid)] * 4)
    assert set(map(int, now["Groups"].split())) == (set(alice.groups) if first else set())
    assert {kind: int(now[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd")} == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapAmb"), 0),
        "CapBnd": THREE,
    }
    assert now["NoNewPrivs"] == "1"
    assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""


def test_m4_it_holds_the_directory_and_the_lock_alone(waiter: tuple[int, bool], helper: Helper) -> None:
    pid, _ = waiter
    (run,) = helper.runs()
    found = {path.name: os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert [found.pop(fd) for fd in "012"] == ["/dev/null"] * 3
    assert sorted(found.values()) == [str(run), str(run / "lock")]


def test_m5_its_environment_is_empty(waiter: tuple[int, bool]) -> None:
    assert Path(f"/proc/{waiter[0]}/environ").read_bytes().strip(b"\0") == b""


def test_m6_mask_place_limits_priority_and_signals_are_its_own(waiter: tuple[int, bool]) -> None:
    pid, _ = waiter
    now = status(pid)
    assert now["Umask"] == "0077"
    assert int(now["SigBlk"], 16) == 0
    assert int(now["SigCgt"], 16) & ~(1 << signal.SIGINT - 1) == 0
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "0\n"
    assert os.getpriority(os.PRIO_PROCESS, pid) == 0
    rows = Path(f"/proc/{pid}/limits").read_text().splitlines()
    limits = {row[:26].strip(): row[26:].split()[:2] for row in rows}
    assert limits["Max core file size"] == ["0", "0"]
    assert limits["Max open files"] == ["32", "32"]
    assert limits["Max processes"] == ["0", "0"]
    assert limits["Max cpu time"] == ["300", "300"]
    assert limits["Max file size"] == [str(16 << 20)] * 2
    assert limits["Max address space"] == [str(1 << 30)] * 2


def test_m7_others_of_its_uid_cannot_look_into_it(waiter: tuple[int, bool], alice: Account) -> None:
    pid, _ = waiter
    code = """
import os, sys
pid, opened = sys.argv[1], []
for name in ("mem", "environ", "maps", "auxv"):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            file.read(1)
            opened.append(name)
    except OSError as error:
        assert error.errno != 2, name
try:
    os.listdir(f"/proc/{pid}/fd")
    opened.append("fd")
except PermissionError:
    pass
print(opened)
"""
    process = alice.run(code, str(pid))
    said, _ = process.communicate()
    assert process.returncode == 0 and said == b"[]\n"
