"""A booted host with the package: many principals, and what a launch costs: `make bench-host [ARGS=--docs]`, as root.

Writes the tables of docs/explanation/performance.md with --docs. The measuring itself is principals_inside.py and
launches_inside.py, each in a host of its own.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.table import number
from tests.booted.lab.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "performance.md"
MARK = "<!-- measured by tests/bench/host.py, {}: {} -->"
SUITE, MOST = "bookworm", 10_000

PRINCIPALS = {
    "principals": "principals",
    "connected": "connected",
    "get_ms": "get, median",
    "get_p95_ms": "get, 95 %",
    "get_among_others_ms": "get between calls of others",
    "first_call_ms": "connect and first call",
    "start_ms": "start until ready",
    "resident_mib": "resident memory",
}


def inside(deb: Path, script: str, *arguments: str) -> Any:
    """What a script printed in a new host with the package."""
    with Machine(SUITE, binds={ROOT / "tests" / "bench": "/mnt/bench"}) as machine:
        machine.install(deb)
        done = machine.run("python3", f"/mnt/bench/{script}", *arguments, seconds=600)
    return json.loads(done.stdout.splitlines()[-1])


def package() -> Path:
    build = [sys.executable, str(ROOT / "packaging" / "build_deb.py"), "--suite", SUITE]
    return Path(subprocess.run(build, check=True, capture_output=True, text=True).stdout.split()[-1])


def principals(rows: list[dict[str, float]]) -> str:
    lines = [f"| {' | '.join(PRINCIPALS.values())} |", f"|{' --- |' * len(PRINCIPALS)}"]
    for row in rows:
        cells = []
        for name in PRINCIPALS:
            unit = " ms" if name.endswith("_ms") else " MiB" if name.endswith("_mib") else ""
            cells.append(f"{number(row[name])}{unit}" if unit else f"{row[name]:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def launches(found: dict[str, Any]) -> str:
    bare = found["starts"].pop("bare")["middle"]
    rows = [("the agent started bare, from start to end", f"{number(bare)} ms")]
    for mode, took in found["starts"].items():
        spread = f"{number(took['low'] - bare)} to {number(took['high'] - bare)}"
        rows.append((f"`amux launch --isolation {mode}` adds", f"{number(took['middle'] - bare)} ms ({spread})"))
    rows += [
        ("of that the materializer, until the copy is there", f"{number(found['copy_ms'])} ms"),
        ("and until it took note of the lock", f"{number(found['launch_ms'])} ms"),
        ("a run directory holds", f"{found['bytes']:,} bytes"),
        ("`amux launch`, while the agent runs (PSS)", f"{number(found['launch_mib'])} MiB"),
        ("the materializer's waiter of one launch (PSS)", f"{number(found['waiter_mib'])} MiB"),
    ]
    return "\n".join(["| what | cost |", "| --- | --- |", *(f"| {what} | {cost} |" for what, cost in rows)])


def write(name: str, shown: str) -> None:
    begin, end = MARK.format(name, "begin"), MARK.format(name, "end")
    text = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(re.escape(begin) + ".*" + re.escape(end), re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: f"{begin}\n\n{shown}\n\n{end}", text), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--docs", action="store_true", help="also write the tables into docs/explanation/performance.md"
    )
    options = parser.parse_args()
    deb = package()
    tables = {
        "launches": launches(inside(deb, "launches_inside.py")),
        "principals": principals(inside(deb, "principals_inside.py", str(MOST))),
    }
    for name, shown in tables.items():
        print(f"\n{name}\n{shown}")
        if options.docs:
            write(name, shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
