"""The inputs of corpus.txt: kept because they once meant something, or show what is tried."""

from __future__ import annotations

import re
from pathlib import Path

_REPEATED = re.compile(rb"<<(\d+)\*(.*?)>>", re.DOTALL)


def load() -> dict[str, list[bytes]]:
    """Target → inputs. A line is a target and the inside of a bytes literal; `<<N*text>>` is N times the text."""
    found: dict[str, list[bytes]] = {}
    for line in (Path(__file__).parent / "corpus.txt").read_text(encoding="ascii").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        target, _, written = line.partition(" ")
        data = written.encode("ascii").decode("unicode_escape").encode("latin-1")
        found.setdefault(target, []).append(_REPEATED.sub(lambda match: match[2] * int(match[1]), data))
    return found
