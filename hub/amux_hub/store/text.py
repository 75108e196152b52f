"""Text as search sees it: match keys, terms and titles.

The match key is NFC(casefold(NFC(text))) on both sides: case and normal form never matter, nothing else is
folded. It maps line terminators to themselves and lines to lines, so line N of a key is line N of the text.
"""

from __future__ import annotations

import unicodedata

from amux import limits
from amux.errors import AmuxError

_FENCES = ("```", "~~~")
_FRONT_MATTER_END = ("---", "...")


def match_key(text: str) -> str:
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def match_key_bytes(raw: bytes) -> bytes:
    """The match key of UTF-8 text. Raises UnicodeDecodeError."""
    if raw.isascii():
        return raw.lower()
    return match_key(raw.decode()).encode()


def parse_query(query: str) -> list[bytes]:
    """The distinct match keys of a query's terms, in order.

    Raises `limit_exceeded` over 512 bytes as given or 16 terms before folding, `invalid_argument` without any.
    """
    try:
        size = len(query.encode())
    except UnicodeEncodeError:
        raise AmuxError("invalid_argument", "query is not valid Unicode text", argument="query") from None
    if size > limits.QUERY_BYTES:
        raise AmuxError(
            "limit_exceeded",
            f"the query has {size} bytes; the limit is {limits.QUERY_BYTES}: use fewer or shorter keywords",
            limit="query_bytes",
            value=limits.QUERY_BYTES,
            found=size,
        )
    terms = query.split()
    if not terms:
        raise AmuxError("invalid_argument", "the query has no keyword: give 1 to 16", argument="query")
    if len(terms) > limits.QUERY_TERMS:
        raise AmuxError(
            "limit_exceeded",
            f"the query has {len(terms)} keywords; the limit is {limits.QUERY_TERMS}: use fewer",
            limit="query_terms",
            value=limits.QUERY_TERMS,
            found=len(terms),
        )
    return list(dict.fromkeys(match_key(term).encode() for term in terms))


def title_of(text: str) -> str:
    """`title:` of a front matter, else the first `# ` heading outside fences, else nothing.

    A plain line scan: no YAML is parsed, so a malformed front matter costs nothing but its title.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    start = 0
    if lines and lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() in _FRONT_MATTER_END:
                start = number + 1
                break
        for line in lines[1 : max(start - 1, 1)]:
            if line.startswith("title:"):
                return line[6:].strip().strip("\"'")
    fence = ""
    for line in lines[start:]:
        stripped = line.lstrip()
        if fence:
            if stripped.startswith(fence):
                fence = ""
        elif stripped.startswith(_FENCES):
            fence = stripped[:3]
        elif line.startswith("# "):
            return line[2:].strip()
    return ""
