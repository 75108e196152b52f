"""docs/reference/doctor.md lists every check, in the order of the report."""

from __future__ import annotations

import re

from tests.lint.sources import ROOT

from amux_hub.doctor.checks import CHECKS

PAGE = ROOT / "docs" / "reference" / "doctor.md"


def test_the_page_lists_every_check_in_order() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## The checks", 1)[1]
    assert re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE) == [check.name for check in CHECKS]


def test_names_are_unique() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names)
