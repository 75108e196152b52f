"""The two forms of a report: lines for people, one JSON object for programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from amux import __version__
from amux_hub.doctor.check import Result
from amux_hub.doctor.finding import LEVELS, OK, PROBLEM, SKIPPED, Finding
from amux_hub.doctor.host import Host

_COLOURS = {"ok": "32", "note": "36", "skipped": "2", "warning": "33", "problem": "31;1"}
_NAME_WIDTH = 18


def heading(host: Host) -> str:
    kind = "system" if host.system else "private"
    return f"amux-hub {__version__}, doctor of the {kind} Hub with its home {host.home}"


def lines(result: Result, *, coloured: bool) -> list[str]:
    """One line for the check, and its findings indented below it."""
    outcome = f"{result.outcome:<7}"
    if coloured:
        outcome = f"\x1b[{_COLOURS[result.outcome]}m{outcome}\x1b[0m"
    shown = [f"{outcome}  {result.name:<{_NAME_WIDTH}}  {result.summary}"]
    for finding in result.findings:
        shown += _finding(finding)
    shown += [f"         … and {one['count']:,} more of the kind {one['kind']} ({one['level']})" for one in result.more]
    return shown


def _finding(finding: Finding) -> list[str]:
    shown = [f"         {finding.level}: {finding.what}"]
    for word, text in (("found", finding.found), ("wanted", finding.wanted), ("fix", finding.fix)):
        if text:
            shown.append(f"           {word + ':':<8}{text}")
    return shown


def closing(counts: Counter[str]) -> str:
    """`21 checks: 2 problems, 1 warning, 3 notes, 4 skipped, 11 ok`."""
    plural = {level: (level if level in (OK, SKIPPED) else level + "s") for level in LEVELS}
    parts = [f"{counts[level]} {level if counts[level] == 1 else plural[level]}" for level in reversed(LEVELS)]
    return f"{sum(counts.values())} checks: {', '.join(parts)}"


def as_json(host: Host, results: Iterable[Result]) -> dict[str, object]:
    """`outcome` is the worst of all checks."""
    results = list(results)
    counts = Counter(result.outcome for result in results)
    return {
        "ok": not counts[PROBLEM],
        "version": __version__,
        "system": host.system,
        "home": host.home,
        "config_file": host.config.file,
        "counts": {level: counts[level] for level in LEVELS},
        "checks": [
            {
                "name": result.name,
                "outcome": result.outcome,
                "summary": result.summary,
                "findings": [vars(finding) for finding in result.findings],
                "more": result.more,
            }
            for result in results
        ],
    }


def encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n"
