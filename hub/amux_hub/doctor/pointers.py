"""Lines of MEMORY.md that lead to documents which do not exist: Markdown links and bare paths.

Promises: of the text, nothing is told but such a path and its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

from amux import limits
from amux.errors import AmuxError
from amux_hub.doctor.finding import Findings
from amux_hub.store.paths import SUFFIX, check_document, twin_key

_ADVICE = "write that document, or correct the line"
# CommonMark 0.31, 6.3: a destination in angle brackets may hold spaces, another one may not. 4.7: definitions.
_LINKS = (
    re.compile(r"\]\(\s*<([^<>]*)>"),
    re.compile(r"\]\(\s*([^\s<)]+)"),
    re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?([^\s<>]+)"),
)
_BARE = re.compile(r"[^\s`\"'()\[\]<>|,;:*?#…“”‘’、。，；：（）「」《》]+\.md(?![\w/.-]|\.\w)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S*")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def judge(findings: Findings, label: str, data: bytes, documents: set[str]) -> None:
    """Tell each path that leads nowhere, with its line."""
    keys: dict[str, str] = {}
    for number, path in paths(data[: limits.DOCUMENT_BYTES].decode(errors="replace")):
        if path in documents:
            continue
        keys = keys or {twin_key(document): document for document in documents}
        other = keys.get(twin_key(path))
        found = f"{path}: no such document" if other is None else f"{path}: the document is {other}"
        findings.warning("dangling", f"{label}: {limits.ENTRY_NAME}, line {number}", found, "", _ADVICE)


def paths(text: str) -> Iterator[tuple[int, str]]:
    """The documents that a text names, once a line, in order. What stands in fenced code names none."""
    fence = ""
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if mark := _FENCE.match(line):
            fence = "" if mark[1] == fence else fence or mark[1]
            continue
        if fence:
            continue
        seen = set()
        for path in _named(line):
            if path not in seen:
                seen.add(path)
                yield number, path


def _named(line: str) -> Iterator[str]:
    rest = line
    for pattern in _LINKS:
        for found in pattern.finditer(line):
            if not _SCHEME.match(found[1]) and (path := _path(unquote(found[1].partition("#")[0]))):
                yield path
        rest = pattern.sub(" ", rest)
    for bare in _BARE.finditer(_URL.sub(" ", rest)):
        if path := _path(bare[0]):
            yield path


def _path(target: str) -> str | None:
    """The document's path, None for what is none: a page elsewhere, a file of the host, a pattern."""
    path = target.removeprefix("./")
    if not path.endswith(SUFFIX) or path == SUFFIX:
        return None
    try:
        check_document(path)
    except AmuxError:
        return None
    return path
