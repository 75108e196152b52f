"""Text as search sees it: match keys, terms and titles.

The match key is NFC(casefold(NFC(text))) on both sides: case and normal form never matter, nothing else is
folded. It maps line terminators to themselves and lines to lines, so line N of a key is line N of the text.
"""

from __future__ import annotations

import re
import unicodedata

from amux import limits
from amux.errors import AmuxError

# The property White_Space of Unicode's PropList.txt; str.split() would also split at U+001C to U+001F.
_WHITE_SPACE = re.compile("[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")
# An opening fence, CommonMark 0.31, 4.5: a backtick fence has no backtick after it. Possessive: a lookahead tried
# again at each shorter run would take quadratic time.
_FENCE = re.compile(rb" {0,3}(`{3,}+(?!.*`)|~{3,})")
_FRONT_MATTER_END = (b"---", b"...")
_BYTE_ORDER_MARK = "\ufeff".encode()


def _long_run(*blocks: tuple[int, int]) -> re.Pattern[str]:
    """30 marks in a row: all that do not begin a character, alone or decomposed (UAX 15, "non-starters")."""
    marks = [chr(code) for block in blocks for code in range(*block) if unicodedata.combining(chr(code))]
    one = f"[{''.join(marks)}\u0f73\u0f75\u0f81]"
    return re.compile(one + one + "{29}")  # the first one alone: a pattern that begins with a set is searched fast


_BMP = ((0x300, 0x3100), (0xA66F, 0xABEE), (0xFB1E, 0xFB1F), (0xFE20, 0xFE30))
_LONG_RUN = _long_run(*_BMP)
_BEYOND_BMP = re.compile("[\U000101fd-\U0001e94a]")
_LONG_RUN_BEYOND_BMP = _long_run(*_BMP, (0x101FD, 0x1E94B))


def match_key(text: str) -> str:
    """NFC(casefold(NFC(text))), in linear time.

    Normalizing sorts each run of combining marks, in quadratic time: 64 KiB of them would hold up everybody for
    seconds. So a run is broken after each 30, as the Stream-Safe Text Process of UAX 15 does; no writing has more.
    """
    if text.isascii():
        return text.lower()
    long_run = _LONG_RUN_BEYOND_BMP if _BEYOND_BMP.search(text) else _LONG_RUN
    text = long_run.sub("\\g<0>\u034f", text)
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
    terms = [term for term in _WHITE_SPACE.split(query) if term]
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


def title_of(raw: bytes) -> str:
    """`title:` of a front matter, else the first `# ` heading outside fences, else nothing; `raw` is UTF-8.

    A plain line scan: no YAML is parsed, so a malformed front matter costs nothing but its title.
    """
    lines = raw.removeprefix(_BYTE_ORDER_MARK).splitlines()  # of bytes: LF, CRLF and CR alone end a line
    body = _front_matter_end(lines)
    for line in lines[1 : max(body - 1, 1)]:
        if line.startswith(b"title:") and (title := line[6:].decode().strip().strip("\"'")):
            return title
    fence = b""
    for line in lines[body:]:
        if fence:
            if _closes(line, fence):
                fence = b""
        elif found := _FENCE.match(line):
            fence = found[1]
        elif line.startswith(b"# "):
            return line[2:].decode().strip()
    return ""


def _front_matter_end(lines: list[bytes]) -> int:
    """The number of lines that a front matter takes, its two markers included; 0 without one."""
    if lines and lines[0].rstrip() == b"---":
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() in _FRONT_MATTER_END:
                return number + 1
    return 0


def _closes(line: bytes, fence: bytes) -> bool:
    """Whether `line` ends the fenced block that `fence` opened: the same character, at least as often, alone."""
    bare = line.strip()
    return len(bare) >= len(fence) and not bare.strip(fence[:1])
