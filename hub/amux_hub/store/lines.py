"""Lines: they end at LF, CRLF or a lone CR, and at nothing else (`bytes.splitlines`, not `str.splitlines`)."""

from __future__ import annotations


def count_terminators(data: bytes) -> int:
    return data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def count_lines(data: bytes) -> int:
    """Terminators, plus one for a non-empty tail. An empty file has 0 lines."""
    return count_terminators(data) + (not data.endswith((b"\n", b"\r")) if data else 0)


def line_range(data: bytes, start: int, end: int) -> tuple[int, int]:
    """The byte range of lines `start` to `end`, 1-based and inclusive; 0 means from the first, to the last."""
    if start <= 1 and end == 0:
        return 0, len(data)
    position, begin = 0, 0 if start <= 1 else len(data)
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        if number == start:
            begin = position
        position += len(line)
        if number == end:
            return min(begin, position), position
    return begin, len(data)
