"""`python -m tests.fuzz.run --inputs 1000000 --seed N [--target wire|mcp|grammar|all]`

Feeds a private Hub in a temporary home over its sockets, and the parsers in this process, with inputs made
from the seed. Prints progress, and at the end what it cost. Exit status 1 with the input and the seed at the
first crash, hang, `internal` answer, broken promise of the wire, leak or file out of place. `--first I
--inputs 1 --target T` runs one input again.

Resident memory must be flat: once a quarter of the inputs is through, it may grow by `GROWTH_BYTES` at most.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.fuzz import mcp, wire
from tests.fuzz.grammar import Grammar
from tests.fuzz.mcp import Mcp
from tests.fuzz.plant import plant
from tests.fuzz.watch import GROWTH_BYTES, Watch, descriptors, disconnected, mib
from tests.fuzz.wire import Wire
from tests.harness import Hub

SHARES = {"wire": 0.4, "mcp": 0.2, "grammar": 0.4}
"""How `all` divides the inputs."""
BATCHES = {"wire": wire.CONNECTIONS, "mcp": mcp.CONNECTIONS, "grammar": 200}
# The runner may be slow where it runs at low priority: no deadline of the Hub shall pass meanwhile.
CONFIG = {"timeouts": {"first_frame": 120, "frame": 120, "write": 120, "request_wait": 60}}


def planted(directory: Path) -> Hub:
    """A Hub, not yet started, whose memory holds what `plant` put there."""
    hub = Hub(directory, config=CONFIG)
    plant(hub.home)
    return hub


class Target(Protocol):
    violations: int

    def batch(self, first: int, count: int) -> None: ...
    def close(self) -> None: ...


def feed(name: str, target: Target, first: int, inputs: int, progress: Callable[[str, int], None]) -> None:
    """Run inputs `first` to `first + inputs - 1`; `progress` is told each quarter. Raises FoundError."""
    done = 0
    for quarter in range(1, 5):
        end = inputs * quarter // 4
        while done < end:
            count = min(BATCHES[name], end - done)
            target.batch(first + done, count)
            done += count
        progress(name, done)
    target.close()


def plan(target: str, inputs: int) -> dict[str, int]:
    """How many inputs each target gets."""
    if target != "all":
        return {target: inputs}
    shares = {name: int(inputs * share) for name, share in SHARES.items()}
    shares["grammar"] += inputs - sum(shares.values())
    return shares


class Report:
    """Prints what happens; keeps the Hub's memory at each quarter."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self._began = time.monotonic()
        self.resident: dict[str, list[int]] = {}

    def progress(self, name: str, done: int) -> None:
        line = f"{time.monotonic() - self._began:8.0f} s  {name:8} {done:9,} inputs"
        if self._watch is not None and name != "grammar":
            self.resident.setdefault(name, []).append(self._watch.sample())
            line += f"  Hub {mib(self.resident[name][-1])}"
        print(line, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="number of the first input of each target")
    parser.add_argument("--target", choices=("all", *SHARES), default="all")
    options = parser.parse_args(arguments)
    wanted = plan(options.target, options.inputs)
    print(f"seed {options.seed}: " + ", ".join(f"{number:,} {name}" for name, number in wanted.items()), flush=True)
    try:
        return run(wanted, options.seed, options.first)
    except Exception as error:
        print(
            f"FAILED with seed {options.seed}: {type(error).__name__}: {error}",
            *getattr(error, "__notes__", ()),
            sep="\n",
        )
        raise SystemExit(1) from error


def run(wanted: dict[str, int], seed: int, first: int) -> int:
    began = time.monotonic()
    if "grammar" in wanted:
        feed("grammar", Grammar(seed), first, wanted["grammar"], Report(None).progress)
    if wanted.keys() == {"grammar"}:
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="amux-fuzz-") as directory,
        planted(Path(directory) / "hub") as hub,
    ):
        watch = Watch(hub)
        report = Report(watch)
        targets: dict[str, Target] = {
            "wire": Wire(hub.sockets["hub"], hub.sockets["admin"], seed),
            "mcp": Mcp(hub.sockets["mcp"], seed),
        }
        for name, target in targets.items():
            if name in wanted:
                feed(name, target, first, wanted[name], report.progress)
        disconnected(hub, watch.sockets)
        print(f"{sum(wanted.values()):,} inputs in {time.monotonic() - began:.0f} s")
        print(f"violations answered: {sum(target.violations for target in targets.values()):,}")
        samples = [f"{name} {', '.join(map(mib, sizes))}" for name, sizes in report.resident.items()]
        print(f"resident memory of the Hub: {mib(watch.resident[0])} at the start; by quarters: {'; '.join(samples)}")
        print(f"descriptors of the Hub: {watch.descriptors} at the start, {descriptors(hub.pid)} at the end")
        faults = watch.faults()
        for name, sizes in report.resident.items():
            if max(sizes[1:]) - sizes[0] > GROWTH_BYTES:
                faults.append(f"memory is not flat: {name} {', '.join(map(mib, sizes))}")
        if hub.stop() != 0:
            faults.append("the Hub did not stop with status 0")
    for fault in faults:
        print(f"FAILED with seed {seed}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
