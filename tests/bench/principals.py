"""A system Hub with 1, 10 and 10,000 principals, in a booted host: `make bench-host [ARGS=--docs]`, as root.

Writes the table of docs/explanation/performance.md with --docs. The measuring itself is principals_inside.py.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.table import number
from tests.booted.lab.machine import Machine

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "performance.md"
MARK = "<!-- measured by tests/bench/principals.py: {} -->"
SUITE, MOST = "bookworm", 10_000

COLUMNS = {
    "principals": "principals",
    "connected": "connected",
    "get_ms": "get, median",
    "get_p95_ms": "get, 95 %",
    "get_among_others_ms": "get between calls of others",
    "first_call_ms": "connect and first call",
    "start_ms": "start until ready",
    "resident_mib": "resident memory",
}


def measure() -> list[dict[str, float]]:
    build = [sys.executable, str(ROOT / "packaging" / "build_deb.py"), "--suite", SUITE]
    deb = Path(subprocess.run(build, check=True, capture_output=True, text=True).stdout.split()[-1])
    with Machine(SUITE, binds={ROOT / "tests" / "bench": "/mnt/bench"}) as machine:
        machine.install(deb)
        done = machine.run("python3", "/mnt/bench/principals_inside.py", str(MOST), seconds=600)
    rows: list[dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def table(rows: list[dict[str, float]]) -> str:
    lines = [f"| {' | '.join(COLUMNS.values())} |", f"|{' --- |' * len(COLUMNS)}"]
    for row in rows:
        cells = []
        for name in COLUMNS:
            unit = " ms" if name.endswith("_ms") else " MiB" if name.endswith("_mib") else ""
            cells.append(f"{number(row[name])}{unit}" if unit else f"{row[name]:,.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true", help="also write the table into docs/explanation/performance.md")
    options = parser.parse_args()
    shown = table(measure())
    print(shown)
    if options.docs:
        begin, end = MARK.format("begin"), MARK.format("end")
        text = PAGE.read_text(encoding="utf-8")
        pattern = re.compile(re.escape(begin) + ".*" + re.escape(end), re.DOTALL)
        PAGE.write_text(pattern.sub(lambda _: f"{begin}\n\n{shown}\n\n{end}", text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
