"""The table: what was measured as ratios, beside what was promised and what was aimed at.

Promises and aims are those of docs/explanation/performance.md; a row without either is told for orientation.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from tests.bench.measure import Spread, Timings

KEPT, MISSED_AIM, BROKEN, NONE, UNKNOWN = "yes", "yes, aim missed", "NO", "", "not measured"


@dataclass(frozen=True)
class Row:
    """One line. `ours` and `peer` with their units; `ratio` ours over the peer's, with its quartiles."""

    what: str
    ours: str
    peer: str
    ratio: Spread | None
    promise: float | None = None
    aim: float | None = None
    unit: str = "×"
    needed: str = ""
    """Why a promise could not be checked: the peer that is missing."""

    @property
    def kept(self) -> str:
        if self.promise is None and self.aim is None:
            return NONE
        if self.ratio is None:
            return UNKNOWN
        if self.promise is not None and self.ratio.middle > self.promise:
            return BROKEN
        if self.aim is not None and self.ratio.middle > self.aim:
            return MISSED_AIM if self.promise is not None else "aim missed"
        return KEPT

    def cells(self) -> list[str]:
        shown = self.needed
        if self.ratio is not None and self.peer == "" and self.ratio.low == self.ratio.high:
            shown = ""
        elif self.ratio is not None:
            shown = f"{number(self.ratio.middle)} {self.unit}"
            if self.ratio.low != self.ratio.high:
                shown += f" ({number(self.ratio.low)} to {number(self.ratio.high)})"
        return [self.what, self.ours, self.peer, shown, self._bound(self.promise), self._bound(self.aim), self.kept]

    def _bound(self, bound: float | None) -> str:
        return "" if bound is None else f"{number(bound)} {self.unit}"

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "kept": self.kept}


HEAD = ["what", "ours", "beside", "ours / beside (quartiles)", "promise", "aim", "kept"]


def number(value: float) -> str:
    """Three significant digits, no exponent."""
    if value >= 100 or value == 0:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def milliseconds(spread: Spread) -> str:
    return f"{number(spread.middle)} ms"


def compare(
    what: str,
    timings: Timings,
    ours: str,
    theirs: str,
    promise: float | None = None,
    aim: float | None = None,
    missing: str = "",
) -> Row:
    """A row of two contestants of one contest; without the peer the row says that it is missing."""
    mine = milliseconds(timings.of(ours))
    if theirs not in timings:
        return Row(what, mine, theirs, None, promise, aim, needed=f"missing: {missing or theirs}")
    peer = f"{theirs}: {milliseconds(timings.of(theirs))}"
    return Row(what, mine, peer, timings.ratio(ours, theirs), promise, aim)


def absolute(what: str, value: Spread, unit: str, promise: float | None = None, aim: float | None = None) -> Row:
    """A row about one number of ours, with its own unit."""
    return Row(what, f"{number(value.middle)} {unit}", "", value, promise, aim, unit)


def plain(rows: list[Row]) -> str:
    """For a terminal."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    padded = ((cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def markdown(rows: list[Row]) -> str:
    lines = [HEAD, ["---"] * len(HEAD), *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
