"""How the agent is run: its place among processes, its end as ours, signals, terminals, and kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.harness import WAIT_SECONDS, until
from tests.launch.launching import Job, World, alive


def test_the_exit_status_comes_through(alone: World) -> None:
    for status in (0, 1, 7, 255):
        assert alone.run(do=(f"exit={status}",)).status == status


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV", "SIGINT", "SIGHUP"])
def test_an_agent_killed_by_a_signal_is_seen_as_such(alone: World, name: str) -> None:
    assert alone.run(do=(f"kill={name}",)).status == -getattr(signal, name)
    assert not list(alone.checkout.iterdir())  # no core of ours


def _ignored() -> int:
    """The signals that this process ignores: those of any Python, as the fake agent is one, and those it came with."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigIgn:"))


def test_the_agent_keeps_what_its_caller_has(alone: World) -> None:
    """umask, limits, working directory, signal mask and dispositions; docs/reference/launch.md."""

    def odd() -> None:
        os.umask(0o027)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    alone.run()
    plain = alone.started
    alone.run(preexec_fn=odd)
    started = alone.started
    assert started["umask"] == 0o027
    assert started["cwd"] == str(alone.checkout)
    assert int(started["signals"]["SigBlk"], 16) == _bit(signal.SIGUSR2)
    assert int(plain["signals"]["SigBlk"], 16) == 0
    assert int(started["signals"]["SigIgn"], 16) & _bit(signal.SIGHUP)
    assert int(plain["signals"]["SigIgn"], 16) == _ignored()  # what we ignore, and so did whoever started the tests


def _bit(number: int) -> int:
    """A signal in the masks of /proc/PID/status."""
    return 1 << (number - 1)


def test_the_agent_inherits_standard_descriptors_and_what_the_caller_passed_on(alone: World, tmp_path: Path) -> None:
    alone.run()
    assert set(alone.started["descriptors"]) == {"0", "1", "2"}
    with (tmp_path / "given").open("w") as given:
        alone.run(pass_fds=[given.fileno()])
        assert alone.started["descriptors"][str(given.fileno())] == given.name


def test_signals_reach_the_agent(alone: World) -> None:
    names = ["SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGTERM"]
    process = alone.start(do=("wait",))
    for count, name in enumerate(names, 1):
        process.send_signal(getattr(signal, name))
        until(lambda wanted=count: len(alone.signals) == wanted, f"{name} arrives")
    process.communicate(timeout=WAIT_SECONDS)
    assert alone.signals == names
    assert process.returncode == 0


def test_amux_is_the_parent_and_the_agent_has_a_group_of_its_own(alone: World) -> None:
    process = alone.start(do=("wait",))
    started = alone.started
    assert started["parent"] == process.pid
    assert started["group"] == started["pid"] != os.getpgid(process.pid)
    process.terminate()
    process.communicate(timeout=WAIT_SECONDS)


def _guard(launch: int, agent: int) -> int:
    children = Path(f"/proc/{launch}/task/{launch}/children").read_text().split()
    (guard,) = {int(pid) for pid in children} - {agent}
    return guard


def _held(pid: int) -> list[str]:
    """What the descriptors of a process are; one that is closed meanwhile is none."""
    held = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            held.append(os.readlink(fd))
    return held


def test_a_killed_launch_takes_the_agent_along(alone: World) -> None:
    process = alone.start(do=("wait",))
    agent = alone.started["pid"]
    process.kill()
    process.communicate(timeout=WAIT_SECONDS)
    until(lambda: not alive(agent), "the agent ends")
    assert alone.signals[0] == "SIGTERM"  # it was told first


def test_a_launch_and_a_wrapper_killed_together_leave_no_agent(alone: World) -> None:
    """npm's wrapper cannot tell its child any more, and that one does not listen."""
    process = alone.start(do=("wait", "child"))
    wrapper, agent = alone.started["pid"], int(alone.beside(".child").read_text())
    guard = _guard(process.pid, wrapper)
    process.kill()
    os.kill(wrapper, signal.SIGKILL)
    process.communicate(timeout=WAIT_SECONDS)
    until(lambda: not alive(agent), "the program behind the wrapper ends")
    assert alone.beside(".heard").read_text().split() == [str(int(signal.SIGTERM))]
    until(lambda: not alive(guard), "the guard ends")


def test_a_killed_guard_leaves_the_launch_as_it_is(alone: World) -> None:
    process = alone.start(do=("wait",))
    agent = alone.started["pid"]
    os.kill(_guard(process.pid, agent), signal.SIGKILL)
    process.send_signal(signal.SIGUSR1)
    until(lambda: alone.signals == ["SIGUSR1"], "the signal arrives")
    process.kill()
    process.communicate(timeout=WAIT_SECONDS)
    until(lambda: not alive(agent), "the agent ends")


def test_a_tool_that_outlives_its_agent_lives_on(alone: World) -> None:
    """Only a killed launch ends what the agent started."""
    with alone.popen(alone.words(do=("child",)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        assert process.wait(WAIT_SECONDS) == 0
    child = int(alone.beside(".child").read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_the_guard_keeps_nothing_open(alone: World, tmp_path: Path) -> None:
    with (tmp_path / "given").open("w") as given:
        process = alone.start(do=("wait",), pass_fds=[given.fileno()])
    guard = _guard(process.pid, alone.started["pid"])
    until(lambda: len(list(Path(f"/proc/{guard}/fd").iterdir())) == 4, "the guard has closed what it does not need")
    assert {os.readlink(fd) for fd in Path(f"/proc/{guard}/fd").iterdir() if int(fd.name) < 3} == {"/dev/null"}
    process.terminate()
    process.communicate(timeout=WAIT_SECONDS)


class TestAtATerminal:
    def test_the_agent_is_in_the_foreground_and_the_terminal_is_left_as_it_was(self, alone: World) -> None:
        with Job(alone, alone.words(do=("raw", "exit=3"))) as job:
            assert job.next() == "ended 3 same"
        started = alone.started
        assert started["foreground"] == started["group"] == started["pid"]

    def test_a_killed_agent_leaves_the_terminal_as_it_was(self, alone: World) -> None:
        with Job(alone, alone.words(do=("raw", "kill=SIGKILL"))) as job:
            assert job.next() == f"ended {-signal.SIGKILL} same"
            assert "\x1b[?25h" in job.shown()

    def test_an_agent_that_ends_by_itself_is_followed_by_no_control_sequence(self, alone: World) -> None:
        with Job(alone, alone.words(do=("exit=3",))) as job:
            job.next()
            assert "\x1b" not in job.shown()

    def test_the_guard_lets_go_of_the_terminal(self, alone: World) -> None:
        """What holds it would keep the terminal's window from closing."""
        with Job(alone, alone.words(do=("wait",))) as job:
            until(alone.record.exists, "the agent starts")
            guard = _guard(job.pid, alone.started["pid"])
            until(lambda: not [path for path in _held(guard) if "tty" in path or "pts" in path], "the guard lets go")
            os.kill(job.pid, signal.SIGTERM)
            assert job.next() == "ended 0 same"

    def test_ctrl_c_is_for_the_agent_alone(self, alone: World) -> None:
        with Job(alone, alone.words(do=("wait",))) as job:
            until(alone.record.exists, "the agent starts")
            job.press(b"\x03")
            until(lambda: alone.signals == ["SIGINT"], "Ctrl-C arrives once")
            os.kill(job.pid, signal.SIGTERM)
            assert job.next() == "ended 0 same"

    def test_ctrl_z_stops_the_job_and_fg_goes_on_with_it(self, alone: World) -> None:
        with Job(alone, alone.words(do=("wait",))) as job:
            until(alone.record.exists, "the agent starts")
            agent = alone.started["pid"]
            for _ in range(2):
                job.press(b"\x1a")
                assert job.next() == f"stopped {signal.SIGSTOP}"
                job.tell("fg")
                until(lambda: os.tcgetpgrp(job.terminal) == agent, "the agent has the terminal again")
            job.press(b"\x03")
            until(lambda: alone.signals == ["SIGINT"], "the agent runs")
            os.kill(job.pid, signal.SIGTERM)
            assert job.next() == "ended 0 same"

    def test_bg_goes_on_without_the_terminal(self, alone: World) -> None:
        with Job(alone, alone.words(do=("stop", "exit=4"))) as job:
            assert job.next() == f"stopped {signal.SIGSTOP}"
            job.tell("bg")
            assert job.next() == "ended 4 same"
        assert int(alone.beside(".continued").read_text()) != alone.started["pid"]

    def test_a_terminal_that_goes_away_ends_the_agent(self, alone: World) -> None:
        with Job(alone, alone.words(do=("wait", "child"))) as job:
            until(alone.record.exists, "the agent starts")
            agent, child = alone.started["pid"], int(alone.beside(".child").read_text())
            os.kill(os.getsid(job.pid), signal.SIGKILL)  # the shell, the leader of the session
            until(lambda: not alive(job.pid) and not alive(agent), "launch and agent end")
            os.kill(child, signal.SIGKILL)


def test_an_agent_that_cannot_be_executed_is_an_error(alone: World, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/nonexistent/interpreter\n")
    broken.chmod(0o755)
    with alone.popen([*alone.words()[:3], "--program", str(broken)]) as process:
        _, err = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 3
    assert b"cannot be run" in err
