"""The lab leaves nothing behind however it ends, and finds its archive as apt does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.booted.lab import archive, cgroups, image, state
from tests.booted.lab.machine import ROOT, Machine
from tests.booted.lab.recipe import Recipe, recipe
from tests.booted.lab.trouble import LabError


def _network(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/net")


def _in(namespace: str) -> list[int]:
    """Processes in a network namespace; zombies have none."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if _network(int(entry)) == namespace:
                    found.append(int(entry))
            except OSError:
                continue
    return found


def _mounts() -> set[str]:
    """Mounts of the host at places of the lab; other tests may mount elsewhere meanwhile."""
    places = (str(image.directory()), str(state.STATE), "/run/systemd/nspawn", "/tmp/nspawn", "/sys/fs/cgroup")
    return {
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if any(one in line for one in places)
    }


def _gone(name: str, namespaces: set[str]) -> bool:
    processes = [pid for namespace in namespaces for pid in _in(namespace)]
    return not processes and name not in cgroups.names() and not list(state.STATE.glob(f"{name}*"))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, None], ids=["SIGKILL", "SIGTERM", "close"])
def test_nothing_is_left(boot: Callable[..., Machine], number: signal.Signals | None) -> None:
    mounts = _mounts()
    machine = boot("bookworm")
    namespaces = {_network(machine.supervisor.pid), _network(machine.leader)}
    assert _network(os.getpid()) not in namespaces and not _gone(machine.name, namespaces)
    if number is None:
        machine.close()
    else:
        machine.supervisor.send_signal(number)
        machine.supervisor.wait()
    deadline = time.monotonic() + 30
    while not _gone(machine.name, namespaces):
        assert time.monotonic() < deadline, f"left: {[_in(namespace) for namespace in namespaces]}"
        time.sleep(0.05)
    assert _mounts() == mounts


def test_a_name_is_taken_once(boot: Callable[..., Machine]) -> None:
    name = boot("bookworm").name
    with pytest.raises(LabError, match="already running"):
        Machine("bookworm", name)


def test_make_lab_gives_the_status_of_its_command() -> None:
    def lab(*command: str) -> subprocess.CompletedProcess[str]:
        full = [sys.executable, "-m", "tests.booted.lab", "--", *command]
        return subprocess.run(full, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    done = lab("systemctl", "is-system-running")
    assert (done.returncode, done.stdout) == (0, "running\n"), done.stderr
    assert lab("sh", "-c", "test -r /mnt/src/Makefile && exit 5").returncode == 5


def test_an_image_is_named_by_its_whole_recipe() -> None:
    one = recipe("bookworm")
    more = Recipe("bookworm", (*one.packages, "more"))
    others = [recipe("trixie"), more, Recipe("bookworm", one.packages, finish=())]
    assert len({one.name, *(other.name for other in others)}) == 4
    assert recipe("bookworm").name == one.name


# The host is in a variable: no archive is named in this repository.
HOST = "http://mirror.example"
DEB822 = f"Types: deb\nURIs: {HOST}/debian\nSuites: bookworm\nComponents: main\n"
SECURITY = f"\nTypes: deb\nURIs: {HOST}/debian-security/\nSuites: bookworm-security\nComponents: main\n"
ONE_LINE = f"# deb {HOST}/other bookworm main\ndeb [arch=amd64] {HOST}/debian/ bookworm main\n"


@pytest.mark.parametrize(
    ("name", "text", "secure"),
    [("a.sources", DEB822, False), ("a.sources", DEB822 + SECURITY, True), ("a.list", ONE_LINE, False)],
    ids=["deb822", "deb822-security", "one-line"],
)
def test_the_archive_is_apt_s(tmp_path: Path, name: str, text: str, secure: bool) -> None:
    (tmp_path / name).write_text(text)
    options = ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={tmp_path}"]
    found = archive.sources("trixie", options)
    assert all(line.startswith("deb [signed-by=") and f" {HOST}/debian" in line for line in found)
    assert any(" trixie main" in line for line in found)
    assert any("/debian-security trixie-security main" in line for line in found) == secure


def test_no_archive_is_a_refusal_that_says_so(tmp_path: Path) -> None:
    options = ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={tmp_path}"]
    with pytest.raises(LabError, match="no Debian archive"):
        archive.sources("trixie", options)
