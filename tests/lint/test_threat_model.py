"""docs/explanation/threat-model.md: each attack that it lists has the test that it names, under the attack's number."""

from __future__ import annotations

import re

from tests.lint.sources import ROOT

PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z]\d+) \|.*\| `(\w+)` \|$", PAGE, re.MULTILINE)
ATTACKS = [f"S{n}" for n in range(1, 10)] + [f"D{n}" for n in range(1, 9)] + ["P2", "P4", "P6"]
ATTACKS += [f"M{n}" for n in range(1, 12)] + ["N3", "N4", "N6"]


def test_the_page_lists_every_attack_once_with_a_test() -> None:
    assert [attack for attack, _ in ROWS] == ATTACKS


def test_each_named_test_exists_and_bears_the_number() -> None:
    there = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    wrong = [(attack, name) for attack, name in ROWS if name not in there or attack.lower() not in name.split("_")]
    assert not wrong
