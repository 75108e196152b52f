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
# What no bare path holds, a colon included: so that of an address remains what is absolute, which is no path here.
_BETWEEN = re.compile(r"[\s`\"'()\[\]<>|,;:*?#…“”‘’、。，；：（）「」《》]+")
_END = re.compile(r"\.md(?![A-Za-z0-9_/-]|\.\w)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_RUN = re.compile(r"[^\x00-\x7f]*")
_READINGS = 64
_FENCE = re.compile(r" {0,3}(```|~~~)")


def judge(findings: Findings, label: str, data: bytes, documents: set[str]) -> None:
    """Tell each path that leads nowhere, with its line."""
    keys: dict[str, str] = {}
    for number, readings in paths(data[: limits.DOCUMENT_BYTES].decode(errors="replace")):
        if not documents.isdisjoint(readings):
            continue
        path = readings[-1]
        keys = keys or {twin_key(document): document for document in documents}
        other = keys.get(twin_key(path))
        found = f"{path}: no such document" if other is None else f"{path}: the document is {other}"
        findings.warning("dangling", f"{label}: {limits.ENTRY_NAME}, line {number}", found, "", _ADVICE)


def paths(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """What a text names, once a line, in order: each with all its readings, of which one is meant.

    In a language without spaces a path may begin anywhere in a run of its letters: so the readings. The last one is
    for messages: from the first Latin letter on, where one follows, so that it holds no other text. What stands in
    fenced code names nothing. Takes time linear in the text.
    """
    fence = ""
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        if mark := _FENCE.match(line):
            fence = "" if mark[1] == fence else fence or mark[1]
            continue
        if fence:
            continue
        for readings in dict.fromkeys(_named(line)):
            yield number, readings


def _named(line: str) -> Iterator[tuple[str, ...]]:
    rest = line
    for pattern in _LINKS:
        for found in pattern.finditer(line):
            if not _SCHEME.match(found[1]) and (path := _path(unquote(found[1].partition("#")[0]))):
                yield (path,)
        rest = pattern.sub(" ", rest)
    for token in _BETWEEN.split(rest):
        begin = 0
        for end in _END.finditer(token):
            if readings := _readings(token[begin : end.end()]):
                yield readings
            begin = end.end()


def _readings(bare: str) -> tuple[str, ...]:
    if len(bare) > limits.PATH_BYTES:
        return ()
    found = _RUN.match(bare)
    run = 0 if found is None else found.end()
    starts = (*range(min(run, _READINGS)), run if bare[run].isalnum() else 0)
    return tuple(path for start in starts if (path := _path(bare[start:])))


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
