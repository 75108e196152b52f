"""What a check found: findings, bounded in number, and every text safe for a terminal."""

from __future__ import annotations

import shlex
import unicodedata
from collections import Counter
from dataclasses import dataclass, field

OK, NOTE, SKIPPED, WARNING, PROBLEM = "ok", "note", "skipped", "warning", "problem"
LEVELS = (OK, NOTE, SKIPPED, WARNING, PROBLEM)
"""Outcomes of a check, each worse than the one before. Only a problem changes the exit status."""

SHOWN = 5
"""Findings of one kind that are shown; further ones are counted."""

_TEXT = 300


class SkippedError(Exception):
    """A check that says nothing here; the text is the reason."""


@dataclass(frozen=True)
class Finding:
    """One thing that a person should know. `fix` is a command to paste, or a sentence where no command does it."""

    level: str
    kind: str
    what: str
    found: str
    wanted: str = ""
    fix: str = ""


@dataclass
class Findings:
    """What one check found so far: the first few of each kind, and how many more."""

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def _add(self, level: str, kind: str, what: str, found: str, wanted: str, fix: str) -> None:
        self.counts[level, kind] += 1
        if self.counts[level, kind] <= SHOWN:
            what, found, wanted = (plain(text, _TEXT) for text in (what, found, wanted))
            self.kept.append(Finding(level, kind, what, found, wanted, plain(fix)))

    def problem(self, kind: str, what: str, found: str, wanted: str = "", fix: str = "") -> None:
        self._add(PROBLEM, kind, what, found, wanted, fix)

    def warning(self, kind: str, what: str, found: str, wanted: str = "", fix: str = "") -> None:
        self._add(WARNING, kind, what, found, wanted, fix)

    def note(self, kind: str, what: str, found: str, wanted: str = "", fix: str = "") -> None:
        self._add(NOTE, kind, what, found, wanted, fix)

    def unseen(self, what: str, why: str, fix: str = "") -> None:
        """Something that could not be looked at: no fault, but no proof either."""
        self._add(SKIPPED, "unseen", what, why, "", fix)

    @property
    def outcome(self) -> str:
        return max((level for level, _ in self.counts), key=LEVELS.index, default=OK)

    @property
    def more(self) -> list[dict[str, object]]:
        """Of each kind that has more than are shown: how many more."""
        return [
            {"level": level, "kind": kind, "count": count - SHOWN}
            for (level, kind), count in self.counts.items()
            if count > SHOWN
        ]


def plain(text: str, longest: int = 0) -> str:
    r"""`text` on one line with everything that does not print as `\x1b` or `\u202e`, cut to `longest` characters."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return text if not longest or len(text) <= longest else text[: longest - 1] + "…"


def shell(path: str) -> str:
    """`path` as a word for a shell, byte for byte: what does not print, or prints like another, as `$'\\x..'`."""
    if path.isprintable() and unicodedata.is_normalized("NFC", path):
        return shlex.quote(path)
    codes = path.encode(errors="surrogateescape")
    plainly = (chr(c) if 0x20 <= c < 0x7F and c not in b"'\\" else f"\\x{c:02x}" for c in codes)
    return "$'" + "".join(plainly) + "'"


def forms(name: str) -> str:
    """A name so that its form shows: other than ASCII as code points."""
    return '"' + name.encode("unicode_escape").decode("ascii") + '"'


def count(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
