"""Counts and durations: what pytest wrote of each layer, and the table at the end."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Result:
    """One run of pytest. `trouble` says what went wrong beside failed tests: a time-out, processes left."""

    name: str
    who: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    trouble: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    """Why tests were skipped, each with how many."""

    @property
    def empty(self) -> bool:
        return self.passed + self.failed + self.skipped == 0 and not self.trouble

    @property
    def bad(self) -> bool:
        return bool(self.failed or self.trouble) or self.empty


def read(junit: Path, result: Result) -> None:
    """Fill the counts from pytest's JUnit file; without one the run did not come to its end."""
    try:
        suites = ElementTree.parse(junit).getroot().iter("testsuite")
    except (FileNotFoundError, ElementTree.ParseError):
        result.trouble.append("pytest did not finish")
        return
    for suite in suites:
        failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped = int(suite.get("skipped", 0))
        result.failed += failed
        result.skipped += skipped
        result.passed += int(suite.get("tests", 0)) - failed - skipped
        result.reasons.update(str(skip.get("message")) for skip in suite.iter("skipped"))


def summary(results: list[Result], not_run: list[str], caches: list[str]) -> str:
    """The table of layers, what did not run, and what stays on the machine."""
    width = max([len(result.name) for result in results] + [5])
    lines = ["", f"{'layer':<{width}}  {'as':<8} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for result in results:
        numbers = f"{result.passed:>7} {result.failed:>7} {result.skipped:>8} {result.seconds:>8.1f}"
        lines.append(f"{result.name:<{width}}  {result.who:<8} {numbers}")
        lines += [f"{'':<{width}}  ! {trouble}" for trouble in result.trouble]
        if result.empty:
            lines.append(f"{'':<{width}}  ! no test ran")
    skipped = [f"{result.name}: {count} × {why}" for result in results for why, count in result.reasons.items()]
    if not_run or skipped:
        lines += ["", "not run:", *(f"  {line}" for line in [*not_run, *skipped])]
    lines += ["", f"caches kept: {', '.join(caches)}"]
    return "\n".join(lines)


def closing(results: list[Result]) -> str:
    """The last line: totals in the form that CI readers look for."""
    passed, skipped = sum(r.passed for r in results), sum(r.skipped for r in results)
    failed = sum(max(r.failed, 1 if r.bad else 0) for r in results)
    return f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "")
