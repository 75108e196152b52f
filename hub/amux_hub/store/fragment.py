"""Cutting text so that a reply fits its budget, at a place where a reader would cut.

A cut prefers the last line end in the second half of what fits, else a code point. It is never inside UTF-8
or CRLF, and not inside a joined sequence (combining marks, joiners, variation selectors, flags, conjoining
Hangul) of up to 32 code points. Fragments concatenate to the original bytes.
"""

from __future__ import annotations

import json.encoder
import unicodedata

_JOINED_AT_MOST = 32
_JOINER = "\u200d"
# Characters that are no combining marks by category, yet extend the one before them (Unicode Standard Annex 29,
# GraphemeBreakProperty: Extend and SpacingMark).
_EXTENDING = frozenset("\u200c\u200d\uff9e\uff9f\u0e33\u0eb3")


def _quote(text: str) -> str:
    # The C function behind json.dumps(ensure_ascii=False), so that its answer is the length sent.
    return json.encoder.encode_basestring(text)


def escaped_size(text: str) -> int:
    """Bytes of `text` inside a JSON string, not ASCII-escaped."""
    return len(_quote(text).encode()) - 2


def fitting(text: str, budget: int) -> int:
    """How many code points of `text`, from its beginning, take at most `budget` bytes in a JSON string."""
    text = text[: max(budget, 0)]
    if escaped_size(text) <= budget:
        return len(text)
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if escaped_size(text[:middle]) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def _is_regional(c: str) -> bool:
    return "\U0001f1e6" <= c <= "\U0001f1ff"


def _extends(c: str) -> bool:
    """Whether `c` belongs to the character before it (after Unicode Standard Annex 29)."""
    return (
        c in _EXTENDING
        or "\u1160" <= c <= "\u11ff"  # Hangul vowels and final consonants
        or "\ud7b0" <= c <= "\ud7fb"
        or "\U0001f3fb" <= c <= "\U0001f3ff"  # emoji modifiers
        or "\U000e0020" <= c <= "\U000e007f"  # tags of subdivision flags
        or unicodedata.category(c) in ("Mn", "Mc", "Me")  # combining marks, variation selectors
    )


def joined(text: str, at: int) -> bool:
    """Whether a cut before `text[at]` would separate what belongs together."""
    if at <= 0 or at >= len(text):
        return False
    before, after = text[at - 1], text[at]
    if before == "\r" and after == "\n":
        return True
    if after.isascii() or before in "\r\n":
        return before == _JOINER
    if _extends(after) or before == _JOINER:
        return True
    if _is_regional(before) and _is_regional(after):
        run = 0
        while run < at and _is_regional(text[at - 1 - run]):
            run += 1
        return run % 2 == 1
    return False


def cut(text: str, fits: int) -> int:
    """Where to cut `text` if only its first `fits` code points fit. At least 1 unless `text` is empty."""
    fits = max(fits, 1)
    if fits >= len(text):
        return len(text)
    end = fits - 1 if text[fits - 1] == "\r" and text[fits] == "\n" else fits
    at = max(text.rfind("\n", 0, end), text.rfind("\r", 0, end)) + 1
    if at > 0 and 2 * len(text[:at].encode()) > len(text[:fits].encode()):
        return at
    at = fits
    for _ in range(_JOINED_AT_MOST):
        if not joined(text, at):
            return at if at > 0 else fits
        at -= 1
        if at <= 0:
            break
    # A longer chain is no character anybody reads: cut it, but keep CRLF whole.
    if text[fits - 1] == "\r" and text[fits] == "\n":
        return fits - 1 if fits > 1 else 2
    return fits


def clip(text: str, budget: int) -> str:
    """The longest beginning of `text` of at most `budget` UTF-8 bytes, cut at a code point."""
    raw = text.encode()
    return text if len(raw) <= budget else raw[:budget].decode(errors="ignore")
