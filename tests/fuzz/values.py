"""Odd values for the generators: texts, numbers, paths, queries, JSON. All from one `random.Random`.

Promises: the same state of the generator gives the same value. Nothing here knows a socket.
"""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any

MARKER = "zqxj-marker"
"""Stands in many texts: nothing of what is stored or asked may ever show up in a log."""

DOCUMENTS = (
    "MEMORY.md",
    "notes.md",
    "projects/web/decisions.md",
    "projects/web/auth.md",
    "a/b/c/d/e/f/g/h.md",
    "部署/步骤.md",
    "é.md",
    f"{MARKER}.md",
)
"""The only documents that the generators write: the memory of the Hub stays the same size, so its growth is ours."""

PLANTED = (
    "latin1",
    "nul",
    "too-large",
    "much-too-large",
    "e\u0301",
    "é",
    "ONE",
    "marks",
    "fences",
    "link",
    "hard",
    "fifo",
)
"""Names of `tests.fuzz.plant`, to be read and searched."""

CHARACTERS = (
    "a",
    "Z",
    "0",
    " ",
    "\t",
    "\n",
    "\r",
    "\r\n",
    "\0",
    "\x01",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\xa0",
    "é",
    "e\u0301",
    "ß",
    "ẞ",
    "İ",
    "ı",
    "ς",
    "ΐ",
    "ŉ",
    "\u0300\u0316",
    "\u0f73",
    "\u034f",
    "\u061c",
    "\u1100\u1161\u11a8",
    "각",
    "\u200b",
    "\u200d",
    "\u202e",
    "\u2028",
    "\u2066",
    "\u3000",
    "部",
    "署",
    "ＡＰＩ",
    "\ufeff",
    "\ufffd",
    "\ufffe",
    "\uffff",
    "😀",
    "👩\u200d👩\u200d👧",
    "🇩🇪",
    "🏽",
    "\U0001d165",
    "\U000e0067",
    "\U0010ffff",
    "/",
    "//",
    "\\",
    ".",
    "..",
    "~",
    "%2e",
    "%",
    ":",
    "-",
    "_",
    '"',
    "'",
    "`",
    "```",
    "~~~",
    "---",
    "# ",
    "title:",
    ".md",
    ".MD",
    ".md/",
    "MEMORY.md",
    "memory.md",
    "global",
    "principal:",
    MARKER,
)
"""Code points and short texts that some rule of the grammar, of Unicode or of JSON is about."""

KNOWN = (
    "",
    "a",
    f"# 部署 {MARKER}\n\ndeploy the web\n",
    "\ufefftitle: x\r\n---\r\nStraße ς é e\u0301\r\n" * 20,
    "deploy 部署 " * 4000,
    "👩\u200d👩\u200d👧" * 1500,
    "\x01" * 20_000,
    "a\r" * 30_000,
)
"""Contents that are written again and again, so that a revision of one is often the right one."""
_REVISIONS = ("absent", "absent", *(hashlib.sha256(one.encode()).hexdigest() for one in KNOWN))

SIZES = (0, 1, 2, 15, 16, 17, 31, 32, 64, 127, 240, 255, 256, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 4096, 8192)
NUMBERS = (
    0,
    1,
    -1,
    2,
    5,
    20,
    21,
    64,
    65,
    255,
    1024,
    8192,
    65536,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    -(2**63),
    2**63,
    10**30,
)


def text(rng: Random, pieces: int = 12) -> str:
    """A short text of odd pieces; now and then one piece many times over."""
    if rng.random() < 0.08:
        piece = rng.choice(CHARACTERS)
        return piece * (rng.choice(SIZES) // len(piece.encode()) + rng.randrange(2))
    return "".join(rng.choices(CHARACTERS, k=rng.randrange(pieces)))


def path(rng: Random) -> str:
    """A document's path, right in about half of the cases."""
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(DOCUMENTS)
    if kind < 0.35:
        return f"odd/{rng.choice(PLANTED) if rng.random() < 0.5 else rng.randrange(42)}.md"
    if kind < 0.6:  # one that is right, with something put in
        good = rng.choice(DOCUMENTS)
        at = rng.randrange(len(good) + 1)
        return good[:at] + rng.choice(CHARACTERS) + good[at + rng.randrange(2) :]
    components = [_component(rng) for _ in range(rng.choice((1, 1, 2, 3, 15, 16, 17)))]
    return "/".join(components) + rng.choice((".md", ".md", ".md", "", ".MD", ".md/", ".md ", ".md."))


def _component(rng: Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(("a", "b", "notes", "部署", "é", "e\u0301", "A", "ß", "ss"))
    if rng.random() < 0.2:
        return rng.choice("aé部") * rng.choice((84, 85, 86, 127, 128, 252, 255, 256))
    return text(rng, 4)


def prefix(rng: Random) -> str:
    """A search's path_prefix."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(("", "projects", "projects/web", "部署", "nowhere", "odd", "odd/link.md"))
    return path(rng).removesuffix(".md") + rng.choice(("", "/"))


def query(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        words = ("deploy", "部署", "the", MARKER, "STRASSE", "Straße", "é", "e\u0301", "a", ".md", "# ")
        return rng.choice((" ", "\u3000", "\n", "\xa0")).join(rng.choices(words, k=rng.randrange(1, 18)))
    if kind < 0.5:
        return text(rng) * rng.choice((1, 2, 50))
    return text(rng, 24)


def revision(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.8:
        return rng.choice(_REVISIONS)
    digits = "".join(rng.choices("0123456789abcdef", k=rng.choice((0, 1, 63, 64, 64, 64, 65))))
    return rng.choice((digits, digits, digits.upper(), digits + "\n", " absent", "Absent", "absent\0", text(rng, 4)))


def binding(rng: Random) -> str:
    names = ("", "global", "principal:root", "principal:", "principal::", "principal:a/b", "GLOBAL", "global\n")
    return rng.choice(names) if rng.random() < 0.8 else "principal:" + text(rng)


def session(rng: Random) -> str:
    return rng.choice(("", "s-1", "a" * 128, "a" * 129, "../x", ".s", "s\n")) if rng.random() < 0.8 else text(rng)


def content(rng: Random) -> str:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(KNOWN)
    if kind < 0.7:
        lines = (f"# 部署 {MARKER}", "deploy the web", "", "---", "title: x", "```", "Straße ς é e\u0301", "\tend")
        return rng.choice(("\n", "\r\n", "\r")).join(rng.choices(lines, k=rng.randrange(40)))
    if kind < 0.8:
        piece = rng.choice(CHARACTERS)
        return piece * (rng.choice((2048, 8192, 65536)) // len(piece.encode()) + rng.randrange(2))
    return text(rng, 200)


def json_value(rng: Random, depth: int = 0) -> Any:
    """Any JSON value; its texts may hold what strict JSON refuses once it is encoded."""
    kind = rng.randrange(10 if depth < 4 else 7)
    if kind < 2:
        return text(rng, 6)
    if kind == 2:
        return rng.choice(NUMBERS)
    if kind == 3:
        return rng.choice((True, False, None))
    if kind == 4:
        return rng.choice((0.0, -0.0, 0.5, 1e308, 5e-324, -1.5, 3.0))
    if kind == 5:
        return path(rng)
    if kind == 6:
        return rng.choice(([], {}, "", [None], {"": ""}))
    if kind == 7:
        return [json_value(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {text(rng, 3): json_value(rng, depth + 1) for _ in range(rng.randrange(5))}


def encoded(value: Any, rng: Random) -> bytes:
    """`value` as JSON in one of the forms that a client might send it in."""
    ascii_only = rng.random() < 0.3
    separators = rng.choice(((",", ":"), (", ", ": "), (" ,\n", "\t: ")))
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")
