"""The ids of requests: which are served, whose are unanswered, and finding one in a message that is refused.

The SDK takes 1 and "1" for one request, so each goes to it under a number of ours: an answer and a cancellation
reach the request that its client meant, of that type, and the oldest where a client used an id twice.
"""

from __future__ import annotations

import json
import re
from typing import Any

from amux import limits
from amux_hub.wire import strictjson

Id = str | int

_VALUE = rb'(-?\d{1,20}|"(?:[^"\\\x00-\x1f]|\\.){0,%d}+")' % (6 * limits.ID_BYTES)
_OTHER = rb'"(?:jsonrpc|method)"\s*+:\s*+"[^"\\]{0,255}+"\s*+'
_ID = rb'"id"\s*+:\s*+' + _VALUE + rb"\s*+"
_FIRST = re.compile(rb"\s*+\{\s*+(?:" + _OTHER + rb",\s*+){0,2}" + _ID + rb"[,}]")
_LAST = re.compile(rb",\s*+" + _ID + rb"(?:,\s*+" + _OTHER + rb"){0,2}\}\s*+$")


class Requests:
    """The requests of one connection that are not answered yet."""

    __slots__ = ("_last", "_open")

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, Id] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, name: Id) -> int:
        """The number of a new request that its client calls `name`."""
        self._last += 1
        self._open[self._last] = name
        return self._last

    def closed(self, number: object) -> None:
        """It is answered, or never will be. Safe to repeat."""
        if isinstance(number, int):
            self._open.pop(number, None)

    def name(self, number: object) -> Id | None:
        """What its client calls it; None if it is not open any more."""
        return self._open.get(number) if isinstance(number, int) else None

    def number(self, name: object) -> int | None:
        """The oldest open request of this very id."""
        for number, other in self._open.items():
            if type(other) is type(name) and other == name:
                return number
        return None


def served(value: object) -> bool:
    """Whether a request may have this id: a whole number, or a text of at most `limits.ID_BYTES` as UTF-8."""
    if isinstance(value, str):
        return len(value) <= limits.ID_BYTES and len(value.encode("utf-8", "surrogatepass")) <= limits.ID_BYTES
    return isinstance(value, int) and not isinstance(value, bool)


def id_in(value: Any) -> Id | None:
    """The id of a parsed message that can be told its sender."""
    found = value.get("id") if isinstance(value, dict) else None
    # Half of a surrogate pair, which only a refused message can hold, has no UTF-8.
    if not served(found) or (isinstance(found, str) and any("\ud800" <= letter <= "\udfff" for letter in found)):
        return None
    return found


def id_of(line: bytes) -> Id | None:
    """The id of a message that the strict parser refused, so that its sender need not wait for an answer.

    Of one that is too much to parse, only its ends are looked at: there clients write the id.
    """
    try:
        if strictjson.crowded(line):
            edge = 6 * limits.ID_BYTES + 1024  # \u0001 has 6 bytes for one
            found = _FIRST.match(line[:edge]) or _LAST.search(line[-edge:])
            return None if found is None else id_in({"id": json.loads(found[1])})
        return id_in(json.loads(line))
    except (ValueError, RecursionError):
        return None
