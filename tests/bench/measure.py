"""Timing: contestants take turns, and what is compared was measured side by side.

A machine is never quiet: its clock, its caches and its other users change from second to second. So every
round runs each contestant on every case, in an order that rotates, and a ratio is taken within one round; what
is told is the median over the rounds and the quartiles around it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

Run = Callable[[str], object]
"""One contestant's way to do one case."""


@dataclass(frozen=True)
class Spread:
    """A median and its quartiles; of one number alone all three are that number."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, middle, high = quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)


class Timings:
    """Milliseconds by contestant, round and case."""

    def __init__(self) -> None:
        self.rounds: dict[str, list[dict[str, float]]] = {}

    def add(self, name: str, number: int, case: str, milliseconds: float) -> None:
        rounds = self.rounds.setdefault(name, [])
        while len(rounds) <= number:
            rounds.append({})
        rounds[number][case] = milliseconds

    def __contains__(self, name: object) -> bool:
        return name in self.rounds

    def of(self, name: str) -> Spread:
        """Over the rounds, of the median over the cases of a round."""
        return Spread.of([median(cases.values()) for cases in self.rounds[name] if cases])

    def ratio(self, ours: str, theirs: str) -> Spread:
        """Ours over theirs, taken within each round that both took part in, over the cases that both did."""
        found = []
        for mine, other in zip(self.rounds[ours], self.rounds[theirs], strict=False):
            cases = mine.keys() & other.keys()
            if cases:
                found.append(median(mine[case] for case in cases) / median(other[case] for case in cases))
        return Spread.of(found)

    def by_case(self) -> dict[str, dict[str, float]]:
        """Case → contestant → median over the rounds."""
        table: dict[str, dict[str, list[float]]] = {}
        for name, rounds in self.rounds.items():
            for cases in rounds:
                for case, taken in cases.items():
                    table.setdefault(case, {}).setdefault(name, []).append(taken)
        return {case: {name: median(taken) for name, taken in row.items()} for case, row in table.items()}


def take_turns(
    contestants: Mapping[str, Run],
    cases: Sequence[str],
    rounds: int,
    seldom: Mapping[str, int] | None = None,
    timings: Timings | None = None,
) -> Timings:
    """Run every contestant on every case, `rounds` times; one of `seldom` takes part in that many rounds only.

    The first run of each contestant is not counted: it is to be warm. `Skip` raised by a contestant leaves that
    one measurement out.
    """
    timings = timings or Timings()
    names = list(contestants)
    for name in names:
        once(contestants[name], cases[0])
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            turn = number % len(names)
            for case in cases:
                for name in names[turn:] + names[:turn]:
                    if seldom and number >= seldom.get(name, rounds):
                        continue
                    taken = once(contestants[name], case)
                    if taken is not None:
                        timings.add(name, number, case, taken)
    finally:
        gc.enable()
    return timings


class Skip(Exception):  # noqa: N818 - no error: this measurement does not count
    """Raised by a contestant whose answer does not count."""


def once(run: Run, case: str) -> float | None:
    """Milliseconds of one run, None if it does not count."""
    begin = time.perf_counter_ns()
    try:
        run(case)
    except Skip:
        return None
    return (time.perf_counter_ns() - begin) / 1e6
