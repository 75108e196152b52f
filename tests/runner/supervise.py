"""Runs pytest as an account, ends what hangs, and finds processes that tests left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from tests.runner.env import TroubleError, say
from tests.runner.place import Place
from tests.runner.report import Result, read

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_GRACE = 5.0
"""Seconds in which the processes of a finished layer may still end by themselves."""


class Supervisor:
    """Adopts orphans of its descendants (PR_SET_CHILD_SUBREAPER), so that none can hide by forking twice."""

    def __init__(self) -> None:
        if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise TroubleError(f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(ctypes.get_errno())}")

    def pytest(self, place: Place, name: str, arguments: list[str], seconds: int) -> Result:
        """One run of pytest, its output shown as it comes; at most `seconds`."""
        say(f"\n━━ {name} (as {place.who}, {_version(place)})")
        result = Result(name, place.who)
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())
        junit = place.tmp / f"{slug}.xml"
        junit.unlink(missing_ok=True)
        base = place.tmp / "t"
        options = ["-p", "no:cacheprovider", f"--junitxml={junit}", f"--basetemp={base}"]
        command = [str(place.python), "-u", "-m", "pytest", *options, *arguments]
        began = time.monotonic()
        process = self._start(place, command)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            result.trouble.append(f"stopped after {seconds} s")
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        except KeyboardInterrupt:
            with contextlib.suppress(ProcessLookupError):  # it may just have ended
                os.killpg(process.pid, signal.SIGTERM)
            process.wait()
            raise
        result.seconds = time.monotonic() - began
        left = self.end_leftovers()
        if left and not result.trouble:
            result.trouble.append(f"tests left processes behind: {'; '.join(left)}")
        if process.returncode not in (0, 1, 5) and not result.trouble:
            result.trouble.append(f"pytest ended with status {process.returncode}")
        if process.returncode != 5:
            read(junit, result)
        return result

    def names(self, place: Place, arguments: list[str]) -> list[str]:
        """The node ids that `arguments` select, without running them."""
        command = [str(place.python), "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q"]
        process = self._start(place, [*command, *arguments], capture=True)
        output, _ = process.communicate()
        return [line for line in output.splitlines() if "::" in line]

    def end_leftovers(self) -> list[str]:
        """Wait for adopted processes, kill those that stay, and name them."""
        deadline = time.monotonic() + _GRACE
        while _reap() and time.monotonic() < deadline:
            time.sleep(0.05)
        named = []
        while children := _reap():
            for pid in children:
                named.append(_describe(pid))
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        return named

    @staticmethod
    def _start(place: Place, command: list[str], capture: bool = False) -> subprocess.Popen[str]:
        account = None if place.prefix else place.account
        return subprocess.Popen(
            [*place.prefix, *command],
            cwd=place.source,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if capture else None,
            text=True,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            umask=0o022,
            start_new_session=True,
        )


def _reap() -> list[int]:
    """Collect children that ended; the pids of those that live."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return []
        if pid == 0:
            break
    children = []
    for task in Path("/proc/self/task").iterdir():
        children += [int(pid) for pid in (task / "children").read_text().split()]
    return children


def _describe(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        words = []
    return f"{pid} {b' '.join(words).decode(errors='replace')[:120].strip()}"


def _version(place: Place) -> str:
    done = subprocess.run([place.interpreter, "-V"], capture_output=True, text=True, check=False)
    return done.stdout.strip()
