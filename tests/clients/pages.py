"""The how-to pages as data: what they tell people to type is what the client tests run."""

from __future__ import annotations

import re
from pathlib import Path

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"


def fences(page: str, language: str) -> list[str]:
    """The code blocks of one language on a page, in order."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
