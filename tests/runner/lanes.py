"""Runs of pytest in lanes, side by side: within a lane one after the other.

Each lane is a process of its own, since a supervisor takes every orphan below it for one of its last run.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from tests.runner.place import Place
from tests.runner.report import Result
from tests.runner.supervise import Supervisor

_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Job:
    """One run of pytest, ended after `seconds`."""

    place: Place
    name: str
    arguments: list[str]
    seconds: int


def run(lanes: list[list[Job]], directory: Path) -> list[Result]:
    """Every job of every lane. The first lane's output is shown as it comes, that of each other one after it."""
    directory.mkdir()
    sys.stdout.flush()
    started = [_Lane(jobs, directory / str(number), shown=number == 0) for number, jobs in enumerate(lanes) if jobs]
    try:
        return [result for lane in started for result in lane.results()]
    except KeyboardInterrupt:
        for lane in started:
            lane.interrupt()
        raise


class _Lane:
    def __init__(self, jobs: list[Job], base: Path, shown: bool) -> None:
        self._jobs = jobs
        self._output = base.with_suffix(".output")
        self._answer = base.with_suffix(".results")
        self._shown = shown
        self._output.touch()
        self._pid = os.fork()
        if self._pid == 0:
            self._child()

    def results(self) -> list[Result]:
        """Wait for the lane's end, showing what it prints if nobody has seen it."""
        with self._output.open("rb") as output:
            ended = False
            while not ended:
                ended = os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
                while data := output.read(1 << 16):
                    sys.stdout.buffer.write(data)
                sys.stdout.flush()
                time.sleep(0 if ended else _LOOK_SECONDS)
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        found: list[Result] = pickle.loads(self._answer.read_bytes()) if self._answer.exists() else []
        for job in self._jobs[len(found) :]:
            end = f"the lane ended with status {os.waitstatus_to_exitcode(status)}"
            found.append(Result(job.name, job.place.who, trouble=[end]))
        return found

    def interrupt(self) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGTERM)
            os.waitpid(self._pid, 0)

    def _child(self) -> None:
        status = 1
        try:
            if not self._shown:
                with self._output.open("ab") as output:
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
            supervisor = Supervisor()
            found = []
            try:
                for job in self._jobs:
                    found.append(supervisor.pytest(job.place, job.name, job.arguments, job.seconds))
            finally:
                supervisor.end_leftovers()
                self._answer.write_bytes(pickle.dumps(found))
            status = 0
        except KeyboardInterrupt:
            status = 130
        except BaseException:  # whatever it is, it must not go on in the parent's place
            traceback.print_exc()
        finally:
            os._exit(status)
