"""Measure the table of docs/explanation/performance.md: `python tests/bench/run.py [--quick] [--out FILE] [--docs]`.

Prints the table, writes everything measured as JSON, and exits 1 if a promise is broken or could not be checked.
Peers are installed once into the user's cache; the first run takes some minutes more for that. What it measures
with lies in a directory of its own in that cache, on a disk, and is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # run as a file
    sys.path.insert(0, str(ROOT))

from tests.bench import calls, corpus, machine, ours, peers, rows, searching, sessions, starts  # noqa: E402
from tests.bench.processes import say  # noqa: E402
from tests.bench.table import BROKEN, UNKNOWN, Row, markdown, plain  # noqa: E402

PAGE = ROOT / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- measured by tests/bench/run.py: begin -->", "<!-- measured by tests/bench/run.py: end -->"
DESCRIPTORS = 4096
FULL, QUICK = 25, 5
"""Rounds of the cheap contests. --quick is for trying the bench, not for numbers."""


def main(argv: list[str]) -> int:
    options = _options(argv)
    sessions.allow_descriptors(DESCRIPTORS)
    directory = Path(tempfile.mkdtemp(prefix="run-", dir=peers.cache()))
    try:
        facts = machine.facts(directory)
        measured, details = measure(directory, QUICK if options.quick else FULL)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report = {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": options.quick,
        "machine": facts,
        **details,
        "rows": [row.to_json() for row in measured],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if options.docs:
        write_page(measured, report)
    print("\n".join(f"{name}: {value}" for name, value in {**facts, **_versions(details)}.items()))
    print(f"\n{plain(measured)}\n\neverything measured: {options.out}")
    bad = [row for row in measured if row.promise is not None and row.kept in (BROKEN, UNKNOWN)]
    for row in bad:
        verdict = "broken" if row.kept == BROKEN else "not checked"
        print(f"promise {verdict}: {row.what} {row.peer}")
    return 1 if bad else 0


def _options(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run.py", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds: to try the bench, not for numbers")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench.json", help="the JSON file to write")
    parser.add_argument("--docs", action="store_true", help="also write the table into docs/explanation/performance.md")
    return parser.parse_args(argv)


def measure(directory: Path, rounds: int) -> tuple[list[Row], dict[str, object]]:
    """All contests, one after another: the rows, and what a reader of the JSON may want besides."""
    pyz = ours.build_pyz(directory)
    table: list[Row] = []
    details: dict[str, object] = {"queries": corpus.QUERIES}

    large = corpus.make(corpus.LARGE)
    missing: dict[str, str] = {}
    others = searching.servers(large, missing)
    hub = ours.hub(directory / "large", large)
    try:
        cold = starts.cold(hub, max(3, rounds // 4))
        searched = searching.measure(large, hub, directory / "large", pyz, others, rounds)
        got = calls.get(hub, directory / "large", large, rounds * 2)
        relays = starts.relays(hub, pyz, others, rounds * 2)
        shows = starts.shows(hub, pyz, "MEMORY.md", rounds * 2)
        idle = sessions.measure(hub)
        written = calls.upsert(hub, directory / "large", large, pyz, others, rounds * 2)
    finally:
        hub.close()
    searched.missing.update(missing)
    details["large"] = _corpus(large, searched)
    table += rows.searches(searched, len(large), contract=True)
    table += rows.single_calls(got, written) + rows.processes(relays, shows) + rows.hub(cold, idle)

    small = corpus.make(corpus.SMALL)
    missing = {}
    others = searching.servers(small, missing)
    with ours.hub(directory / "small", small) as hub:
        searched = searching.measure(small, hub, directory / "small", pyz, others, rounds)
    searched.missing.update(missing)
    details["small"] = _corpus(small, searched)
    table += rows.searches(searched, len(small), contract=False)
    details["versions"] = searched.versions
    return table, details


def _corpus(documents: dict[str, bytes], searched: searching.Result) -> dict[str, object]:
    return {
        "documents": len(documents),
        "bytes": sum(map(len, documents.values())),
        "sha256": corpus.digest(documents),
        "missing": searched.missing,
        "milliseconds_by_query": searched.timings.by_case(),
    }


def _versions(details: dict[str, object]) -> dict[str, str]:
    found = details["versions"]
    assert isinstance(found, dict)
    return {name: str(value) for name, value in found.items()}


def write_page(measured: list[Row], report: dict[str, object]) -> None:
    """Replace what stands between the markers."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    facts = report["machine"]
    assert isinstance(facts, dict)
    facts = {"measured": report["measured_at"], **facts, **_versions(report)}
    facts.pop("command")
    lines = "".join(f"| {name} | {value} |\n" for name, value in facts.items())
    block = f"{BEGIN}\n\n{markdown(measured)}\n| where and with what | |\n| --- | --- |\n{lines}\n{END}"
    PAGE.write_text(before + block + after, encoding="utf-8")
    say(f"wrote {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
