"""Reads unit files as the tests need them: sections, directives in order, and the comment above each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD = ROOT / "systemd"
SYSTEM_UNITS = sorted(path.name for path in SYSTEMD.iterdir() if path.is_file())
UNITS = [*SYSTEM_UNITS, *sorted(f"user/{path.name}" for path in (SYSTEMD / "user").iterdir())]


@dataclass(frozen=True)
class Directive:
    """One line of a unit: `comment` is what stands directly above it, empty if nothing does."""

    section: str
    name: str
    value: str
    comment: str


def directives(unit: str) -> list[Directive]:
    """All directives of systemd/<unit>, in order. Our units continue no lines."""
    found: list[Directive] = []
    section, comment = "", ""
    for line in (SYSTEMD / unit).read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            comment += line.removeprefix("#")
            continue
        if line.startswith("["):
            section = line.strip("[]")
        elif line:
            name, equals, value = line.partition("=")
            assert equals, f"{unit}: {line!r}"
            found.append(Directive(section, name, value, comment.strip()))
        comment = ""
    return found


def values(unit: str, name: str) -> list[str]:
    """What every line of this name says, in order."""
    return [one.value for one in directives(unit) if one.name == name]


def value(unit: str, name: str) -> str:
    """The one line of this name."""
    (only,) = values(unit, name)
    return only
