"""SIGKILL while clients write: what was acknowledged is there, no file is torn, and nothing is left behind.

200 moments: 180 of a Hub with wire and store, 20 of the whole Hub. AMUX_TESTS_KILLS sets another number in all.
A third of the moments are a time after the first write, a fifth an event in the directory, and the others a
system call that strace replaces by the signal, so that each step of a write is met for certain.
"""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from tests.faults.conftest import MakeHub
from tests.faults.ledger import Ledger, temporary_files
from tests.faults.moments import IN_CREATE, IN_DELETE, IN_MODIFY, IN_MOVED_TO, Watched
from tests.faults.trace import python_under
from tests.faults.writing import Load, Writer
from tests.harness import WAIT_SECONDS, Hub

_KILLS = int(os.environ.get("AMUX_TESTS_KILLS", "200"))
_BATCH = 20
"""Kills of one test when there are 200 in all: a run shows progress after each."""

# Steps of a write, and how often at most the main thread takes them before it serves.
_STEPS = {"write": 0, "fsync": 0, "/^rename": 0, "unlinkat": 8, "mkdirat": 10, "sendto": 8}


def _kills() -> int:
    return max(_BATCH * _KILLS // 200, 1)


class Life:
    """One home, killed and started again; `hub` gives the Hub of the next life."""

    def __init__(self, make_hub: MakeHub, directory: Path, *, mcp: bool, clients: int, seed: str) -> None:
        self._make, self._directory, self._mcp = make_hub, directory, mcp
        self.ledger = Ledger()
        self.random = random.Random(seed)
        self.writers = [Writer(self.ledger, f"w{number}", f"{seed}-{number}") for number in range(clients)]
        self.left = 0
        """Temporary files that kills left, in all."""

    @property
    def scope(self) -> Path:
        return self._directory / "home" / "memory" / "global"

    def start(self, **arguments: object) -> Hub:
        """The next life: the kill before it left nothing that it does not clear away, and nobody holds it up."""
        memory = self.scope.parent
        self.left += len(temporary_files(memory))
        # Errors alone: a line of log is a system call that is no step of a write.
        config = {"log": {"level": "error"}}
        hub: Hub = self._make(self._directory, mcp=self._mcp, config=config, **arguments)
        hub.start()
        assert temporary_files(memory) == []
        assert (memory / ".amux-lock").read_text() == f"{hub.pid}\n"
        self.check(hub)
        return hub

    def check(self, hub: Hub) -> None:
        uncertain = list(self.ledger.pending)
        self.ledger.settle(self.scope)
        for path in uncertain:
            answer = hub.call("io.amux.Memory.Get", path=path)["parameters"]
            assert answer["exists"] is (path in self.ledger.documents)

    def load(self, hub: Hub) -> Load:
        load = Load(hub, self.writers, mcp=len(self.writers) // 2 if self._mcp else 0)
        load.start()
        return load

    def end(self, kills: int) -> None:
        """The last life, and what shows that there was something to lose."""
        self.start().stop()
        assert self.ledger.acknowledged > kills
        print(
            f"\n{kills} kills: {self.ledger.acknowledged} writes acknowledged and there; without an answer "
            f"{self.ledger.happened} whole, {self.ledger.vanished} not begun; {self.left} temporary files swept"
        )


def _random_moments(life: Life, kills: int, longest: float) -> None:
    done = 0
    while done < kills or life.ledger.acknowledged <= kills:  # a busy machine does less in one life: more of them
        assert done < 10 * kills
        hub = life.start()
        load = life.load(hub)
        time.sleep(life.random.uniform(0, longest))  # the moment itself, nothing is waited for
        hub.kill()
        load.join()
        hub.close()
        done += 1
    life.end(kills)


def _steps(life: Life, kills: int, out: Path) -> None:
    """Kill at one system call after the other, each a few times."""
    life.start().stop()  # the first start makes directories, which are steps too
    steps = list(_STEPS)
    for number in range(kills):
        step = steps[number % len(steps)]
        when = _STEPS[step] + 1 + number // len(steps) + life.random.randrange(3)
        words = python_under(out, f"{step},execve", [f"{step}:signal=KILL:when={when}"])
        hub = life.start(python=words)
        load = life.load(hub)
        assert hub.process is not None
        assert hub.process.wait(WAIT_SECONDS) == -9
        load.join()
        hub.close()
    life.end(kills)


@pytest.mark.parametrize("batch", range(3))
def test_c5_c49_killed_at_any_time(make_hub: MakeHub, tmp_path: Path, batch: int) -> None:
    life = Life(make_hub, tmp_path / "hub", mcp=False, clients=3, seed=f"time {batch}")
    _random_moments(life, _kills(), 0.06)


@pytest.mark.parametrize("batch", range(2))
def test_c5_c49_killed_when_the_directory_changes(make_hub: MakeHub, tmp_path: Path, batch: int) -> None:
    """A temporary file appears, is written, is renamed; a document disappears; a directory is made."""
    life = Life(make_hub, tmp_path / "hub", mcp=False, clients=2, seed=f"event {batch}")
    life.start().stop()
    directory = life.scope / "w0"
    directory.mkdir(mode=0o700, parents=True)
    (directory / ".anchor").touch()  # the directory stays when it holds no document
    life.ledger.documents["w0/.anchor"] = b""
    for number in range(_kills()):
        hub = life.start()
        kind = (IN_CREATE, IN_MODIFY, IN_MOVED_TO, IN_DELETE)[number % 4]
        with Watched(directory) as watched:
            load = life.load(hub)
            watched.wait(kind, 1 + life.random.randrange(3))
            hub.kill()
        load.join()
        hub.close()
    life.end(_kills())


@pytest.mark.usefixtures("strace")
@pytest.mark.parametrize("batch", range(4))
def test_c5_d4_c49_killed_at_a_system_call(make_hub: MakeHub, tmp_path: Path, batch: int) -> None:
    life = Life(make_hub, tmp_path / "hub", mcp=False, clients=1 + batch % 2, seed=f"step {batch}")
    _steps(life, _kills(), tmp_path / "trace")
    if _kills() == _BATCH:
        assert life.left > 0, "no kill met a temporary file"
        assert life.ledger.happened > 0 and life.ledger.vanished > 0


def test_c5_c49_the_whole_hub_killed_at_any_time(make_hub: MakeHub, tmp_path: Path) -> None:
    life = Life(make_hub, tmp_path / "hub", mcp=True, clients=4, seed="whole, time")
    _random_moments(life, (_kills() + 1) // 2, 0.1)


@pytest.mark.usefixtures("strace")
def test_c5_d4_c49_the_whole_hub_killed_at_a_system_call(make_hub: MakeHub, tmp_path: Path) -> None:
    life = Life(make_hub, tmp_path / "hub", mcp=True, clients=2, seed="whole, step")
    _steps(life, (_kills() + 1) // 2, tmp_path / "trace")
