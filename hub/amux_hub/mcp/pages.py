"""Pages: an answer that is too long for one text block is cut, and `amux.result_continue` gets the rest.

Promises: no text block is longer than `limits.PAGE_BYTES` of UTF-8, JSON escaping included; the texts of all
pages joined in order are the answer; an id names one page, so asking again is safe. Ids are random and belong
to one connection. Must not know what an answer means.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import OrderedDict
from typing import Any

from amux import limits
from amux.errors import AmuxError

_ID_BYTES = 12
_DIGITS = 999
"""Pages of one answer are counted with at most three digits: 999 pages hold over 2 MiB."""


def compact(value: object) -> str:
    """JSON without spaces and without ASCII escapes: the form whose UTF-8 length the limits are about."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _size(text: str) -> int:
    return len(text.encode())


_ENVELOPE = _size(
    compact({"text": "", "continuation": secrets.token_urlsafe(_ID_BYTES), "page": _DIGITS, "pages": _DIGITS})
)


def split(text: str, room: int = limits.PAGE_BYTES - _ENVELOPE) -> list[str]:
    """Cut `text` into slices whose JSON escaped UTF-8 has at most `room` bytes each, never inside a code point.

    `room` must hold the longest escape of one code point, 6 bytes (RFC 8259, section 7).
    """
    slices: list[str] = []
    start = 0
    while start < len(text):
        # One code point has at least one byte: no slice is longer than `room` code points.
        low, high = start + 1, min(len(text), start + room)
        while low < high:
            middle = (low + high + 1) // 2
            if _size(compact(text[start:middle])) - 2 <= room:
                low = middle
            else:
                high = middle - 1
        slices.append(text[start:low])
        start = low
    return slices


class Pages:
    """The pages that one connection may still ask for: 64 at most, ten minutes each."""

    __slots__ = ("_pages", "_timer")

    def __init__(self) -> None:
        # In order of age, and so of expiry: id → (text block, when it expires on the loop's clock).
        self._pages: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def first(self, text: str) -> str:
        """`text` itself if it fits one block, else its first page; the others are kept."""
        # A code point has at most four bytes: the usual short answer is not encoded a second time.
        if len(text) * 4 <= limits.PAGE_BYTES or _size(text) <= limits.PAGE_BYTES:
            return text
        slices = split(text)
        count = len(slices)
        ids = [secrets.token_urlsafe(_ID_BYTES) for _ in slices[1:]]
        blocks = []
        for number, part in enumerate(slices, 1):
            page: dict[str, Any] = {"text": part}
            if number < count:
                page["continuation"] = ids[number - 1]
            blocks.append(compact({**page, "page": number, "pages": count}))
        expires = asyncio.get_running_loop().time() + limits.CONTINUATION_SECONDS
        for name, block in zip(ids, blocks[1:], strict=True):
            self._pages[name] = (block, expires)
        while len(self._pages) > limits.CONTINUATIONS:
            self._pages.popitem(last=False)
        self._expire()
        return blocks[0]

    def get(self, continuation: str) -> str:
        """The page that `continuation` names. Raises `continuation_expired`."""
        self._expire()
        found = self._pages.get(continuation)
        if found is None:
            raise AmuxError(
                "continuation_expired",
                f"there is no such page any more: pages are kept {limits.CONTINUATION_SECONDS // 60} minutes, "
                f"{limits.CONTINUATIONS} for each connection, and not across a restart; call the first tool "
                "again",
            )
        return found[0]

    def clear(self) -> None:
        """Forget everything: the connection ended."""
        self._pages.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        """Forget what is too old, and come back when the next page is: an idle agent holds no memory."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._pages:
            name, (_, expires) = next(iter(self._pages.items()))
            if expires > now:
                break
            del self._pages[name]
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pages:
            self._timer = loop.call_at(next(iter(self._pages.values()))[1], self._expire)
