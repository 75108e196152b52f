"""One Hub for one home: several that start at once, what a killed one left, and what a child of one inherits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import tool
from tests.faults.conftest import MakeHub
from tests.faults.ledger import revision_of
from tests.harness import WAIT_SECONDS, Hub, until
from tests.mcp.peers import Direct

_O_CLOEXEC = 0o2000000


def _lock(hub: Hub) -> Path:
    return hub.home / "memory" / ".amux-lock"


def _answers(hub: Hub) -> bool:
    return bool(hub.call("io.amux.Hub.GetStatus")["parameters"]["pid"] == hub.pid)


def test_c49_of_many_hubs_that_start_at_once_one_serves_and_the_others_name_it(make_hub: MakeHub) -> None:
    first = make_hub()
    hubs = [first, *(make_hub(env={"AMUX_HOME": str(first.home)}) for _ in range(5))]
    for hub in hubs:
        hub.spawn()
    running = [hub.process for hub in hubs if hub.process is not None]
    until(lambda: sum(process.poll() is None for process in running) == 1, "all but one end")
    winner = next(hub for hub in hubs if hub.process is not None and hub.process.poll() is None)
    winner.wait_notification("READY=1")
    assert _answers(winner)
    assert _lock(first).read_text() == f"{winner.pid}\n"
    for hub in hubs:
        if hub is not winner:
            assert hub.wait() == 1
            lines = hub.stderr.splitlines()
            assert len(lines) == 1 and str(first.home) in lines[0]
            # The pid, unless it had not written it yet.
            assert f"pid {winner.pid}" in lines[0] or "pid unknown" in lines[0], lines


@pytest.mark.parametrize("pid", ["1", "other"])
def test_c49_a_killed_hubs_pid_that_somebody_else_has_now_holds_nobody_up(make_hub: MakeHub, pid: str) -> None:
    hub = make_hub().start()
    hub.kill()
    lock = _lock(hub)
    lock.write_text("1\n" if pid == "1" else f"{os.getpid()}\n")
    hub.start()
    assert _answers(hub)
    assert lock.read_text() == f"{hub.pid}\n"
    assert lock.stat().st_mode & 0o7777 == 0o600


def test_c49_killed_in_the_middle_of_a_write_the_next_start_proceeds(make_hub: MakeHub) -> None:
    hub = make_hub().start()
    revision = tool.upsert(hub, "a.md", "one\n", "absent").json["revision"]
    temporary = hub.home / "memory" / "global" / (".amux-tmp-" + "a" * 32)
    temporary.write_text("half of tw")  # what a write leaves that was killed before its rename
    hub.kill()
    hub.start()
    assert not temporary.exists()
    assert tool.show(hub, "a.md").json["revision"] == revision
    assert tool.upsert(hub, "a.md", "two\n", revision).json["revision"] == revision_of(b"two\n")


def test_c49_a_stopped_hub_keeps_the_lock_and_an_ended_one_does_not(make_hub: MakeHub) -> None:
    """A Hub that hangs is still the owner: its writes may yet happen."""
    first = make_hub().start()
    first.signal(signal.SIGSTOP)
    second = make_hub(env={"AMUX_HOME": str(first.home)})
    process = second.spawn()
    assert process.wait(WAIT_SECONDS) == 1
    assert f"pid {first.pid}" in second.stderr
    first.signal(signal.SIGCONT)
    assert first.stop() == 0
    second.start()
    assert _answers(second)


@pytest.mark.parametrize("held", [False, True])
def test_c49_a_child_of_the_hub_inherits_no_descriptor(make_hub: MakeHub, held: bool) -> None:
    """Every descriptor but the standard ones is closed on exec: no child can keep lock, socket or document."""
    hub = make_hub(mcp=True, held=held)
    hub.start()
    with hub.connect() as one, hub.connect("admin") as two, Direct(hub.sockets["mcp"]) as peer:
        peer.open()
        for channel in (one, two):
            channel.call("io.amux.Hub.WhoAmI")
        for number in range(20):
            peer.tool("memory_upsert", path=f"d{number}/a.md", content="text", expected_revision="absent")
            one.call("io.amux.Memory.Get", path=f"d{number}/a.md")
        peer.tool("memory_search", query="text")
        directory = Path(f"/proc/{hub.pid}/fdinfo")
        seen = 0
        for entry in directory.iterdir():
            if int(entry.name) > 2:
                flags = next(line for line in entry.read_text().splitlines() if line.startswith("flags:"))
                target = os.readlink(f"/proc/{hub.pid}/fd/{entry.name}")
                assert int(flags.split()[1], 8) & _O_CLOEXEC, f"{target} would be inherited"
                seen += 1
        assert seen >= 8


def test_c49_a_process_that_outlives_its_store_holds_nothing(tmp_path: Path) -> None:
    """The same with a real child: it lives on after kill -9 of its parent, and the root is free."""
    program = (
        "import os, subprocess, sys; from amux_hub.store import Store\n"
        f"store = Store({str(tmp_path)!r}, 1 << 20, 0)\n"
        "store.scope('global').upsert('a.md', 'text', 'absent')\n"
        "child = subprocess.Popen(['sleep', 'infinity'], close_fds=False, stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True); os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    child = int(done.stdout)
    try:
        links = [os.readlink(f"/proc/{child}/fd/{name}") for name in os.listdir(f"/proc/{child}/fd")]
        assert not [link for link in links if link.startswith(str(tmp_path))]
        program = f"from amux_hub.store import Store; Store({str(tmp_path)!r}, 1 << 20, 0).close()"
        subprocess.run([sys.executable, "-c", program], check=True)
        assert Path(f"/proc/{child}").exists()
    finally:
        os.kill(child, signal.SIGKILL)
