"""What a clean-up meets: whatever its user planted goes, and nothing outside it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.materializer.kit import Account, Helper, being, wait_for

pytestmark = pytest.mark.root


def _grow(top: Path, depth: int) -> None:
    """So deep that no path of it is one that a call takes, path_resolution(7)."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 40, 0o700, dir_fd=fd)
        inner = os.open("d" * 40, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("bottom", os.O_CREAT, 0o600, dir_fd=fd))
    os.close(fd)


def test_m9_all_that_was_planted_goes_and_nothing_else(helper: Helper, alice: Account, bob: Account) -> None:
    hers = helper.base / "hers"
    hers.mkdir()
    os.chown(hers, alice.uid, alice.gid)
    launch = helper.launch(alice)
    run = launch.run
    with being(alice.uid, alice.gid):
        (hers / "file").write_text("stays")
        (hers / "shut").mkdir(0o500)
        for name, target in (("to-dir", hers), ("to-file", hers / "file"), ("to-root", "/etc"), ("to-nothing", "/x/y")):
            (run / name).symlink_to(target)
            (run / "agent-config" / name).symlink_to(target)
        os.link(hers / "file", run / "linked")
        os.mkfifo(run / "fifo")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(run / "socket"))
        (run / "many").mkdir()
        for number in range(20_000):
            os.close(os.open(run / "many" / str(number), os.O_CREAT | os.O_WRONLY, 0o400))
        _grow(run / "agent-config", 300)
        _grow(run, 50)
        for name in ("a\nb", "-rf", "…", "shut"):
            (run / name / "inside").mkdir(parents=True)
        (run / "shut/inside").chmod(0)
        (run / "shut").chmod(0)
        (run / "lock").chmod(0)
        run.chmod(0)
    launch.end()
    wait_for(lambda: not helper.runs(), "all of it to go")
    assert (hers / "file").read_text() == "stays" and (hers / "file").stat().st_nlink == 1
    assert (hers / "shut").stat().st_mode & 0o777 == 0o500
    assert len(helper.records("end")) == 1


@pytest.mark.parametrize("where", ["mounted", "agent-config/mounted"])
@pytest.mark.parametrize("anew", [False, True])
def test_m9_a_mount_is_not_crossed(helper: Helper, alice: Account, anew: bool, where: str) -> None:
    outside = helper.base / "outside"
    (outside / "below").mkdir(parents=True)
    (outside / "file").write_text("stays")
    (outside / "below/file").write_text("stays")
    for path in (outside, outside / "file", outside / "below", outside / "below/file"):
        os.chown(path, alice.uid, alice.gid)
    launch = helper.launch(alice)
    mount = launch.run / where
    mount.mkdir()
    os.chown(mount, alice.uid, alice.gid)
    subprocess.run(["mount", "--bind", outside, mount], check=True)
    try:
        if anew:
            (waiter,) = helper.waiters()
            os.kill(waiter, signal.SIGKILL)
        launch.end()
        wait_for(lambda: not (launch.run / "lock").exists(), "the rest to go")
        (waiter,) = helper.waiters() or [0]
        wait_for(lambda: helper.waiters() != [waiter], "the end of the walk")
        assert (outside / "file").read_text() == (outside / "below/file").read_text() == "stays"
        assert helper.runs() == [launch.run]
    finally:
        subprocess.run(["umount", mount], check=True)
    wait_for(lambda: not helper.runs(), "the next waiter to remove it")
    assert (outside / "file").read_text() == (outside / "below/file").read_text() == "stays"


def test_what_another_account_put_there_is_left_to_it(helper: Helper, alice: Account) -> None:
    """Root may; its clean-up runs as her, who cannot remove what is in a directory of somebody else's."""
    launch = helper.launch(alice)
    (launch.run / "roots").mkdir()
    (launch.run / "roots/file").write_text("of root")
    launch.end()
    wait_for(lambda: not (launch.run / "lock").exists(), "the rest to go")
    wait_for(lambda: helper.waiters(), "another waiter")
    (left,) = (path for path in launch.run.rglob("file"))
    assert left.read_text() == "of root" and not helper.records("end")
    left.unlink()
    wait_for(lambda: not helper.runs(), "the next waiter to remove it")
