"""The line of a document that best shows why it was found."""

from __future__ import annotations

from amux import limits
from amux_hub.store.fragment import clip
from amux_hub.store.text import match_key


class Snippet:
    """At most 240 bytes of one line, cut at code points; `truncated` if the line is longer."""

    __slots__ = ("line", "text", "truncated")

    def __init__(self, line: int, text: str, truncated: bool) -> None:
        self.line = line
        self.text = text
        self.truncated = truncated


def _best_line(key: bytes, terms: list[bytes]) -> tuple[int, bytes]:
    """The number, from 0, and the key of the line with most distinct terms; the first on a tie."""
    present = [term for term in terms if term in key]
    if not present:
        # Found by its path alone: line 1.
        lines = key.splitlines()
        return 0, lines[0] if lines else b""
    if len(present) == 1:
        at = key.find(present[0])
        before = key[:at]
        number = before.count(b"\n") + before.count(b"\r") - before.count(b"\r\n")
        begin = max(before.rfind(b"\n"), before.rfind(b"\r")) + 1
        return number, key[begin:].splitlines()[0]
    # One pass a term, not a line: a common document has hundreds of lines, a query few terms.
    lines = key.splitlines()
    counts = [int(present[0] in line) for line in lines]
    for term in present[1:]:
        counts = [count + (term in line) for count, line in zip(counts, lines, strict=True)]
    best = counts.index(max(counts))
    return best, lines[best]


def _hit(line: str, key: bytes, terms: list[bytes]) -> int:
    """Where, in code points of `line`, its first hit begins."""
    hits = [at for at in (key.find(term) for term in terms) if at >= 0]
    if not hits:
        return 0
    at = len(key[: min(hits)].decode(errors="ignore"))
    if line.isascii() or len(match_key(line[:at])) == at:
        return at
    # Folding changed lengths before the hit: find the shortest beginning whose key reaches it.
    low, high = 0, len(line)
    while low < high:
        middle = (low + high) // 2
        if len(match_key(line[:middle])) <= at:
            low = middle + 1
        else:
            high = middle
    return max(low - 1, 0)


def snippet(raw: bytes, key: bytes, terms: list[bytes]) -> Snippet:
    """The snippet of a document: `raw` its bytes, `key` the match key of its content."""
    number, line_key = _best_line(key, terms)
    lines = raw.splitlines()
    if number >= len(lines):
        return Snippet(1, "", False)
    line = lines[number].decode()
    size = len(lines[number])
    if size <= limits.SNIPPET_BYTES:
        return Snippet(number + 1, line, False)
    hit = _hit(line, line_key, terms)
    # A third of the room shows what stands before the hit; what is left over behind it is used before it too.
    before = line[:hit].encode()
    after = line[hit:].encode()
    room = limits.SNIPPET_BYTES - min(len(after), limits.SNIPPET_BYTES * 2 // 3)
    lead = before[max(len(before) - room, 0) :].decode(errors="ignore")
    text = lead + clip(line[hit:], limits.SNIPPET_BYTES - len(lead.encode()))
    return Snippet(number + 1, text, True)
