"""Reading one document: bounded fragments with a whole-file revision."""

from __future__ import annotations

import hashlib

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import fragment, lines, reply

ABSENT = "absent"

_ESCAPED = bytes(range(0x20)) + b'"\\'
_FIELDS_BYTES = 512
"""More than the names and numbers of the answer to a get take."""


def missing(path: str) -> reply.Reply:
    """What a get answers where nothing is: no error."""
    return _answer(path, False, ABSENT, "", 0, (0, 0), 0, 0)


def _answer(
    path: str,
    exists: bool,
    revision: str,
    content: str,
    offset: int,
    covered: tuple[int, int],
    total_lines: int,
    size: int,
) -> reply.Reply:
    return {
        "path": path,
        "exists": exists,
        "revision": revision,
        "content": content,
        "offset": offset,
        "start_line": covered[0],
        "end_line": covered[1],
        "total_lines": total_lines,
        "size_bytes": size,
        "truncated": False,
    }


def check_range(start_line: int, end_line: int, offset: int) -> None:
    """Raises `invalid_argument` for ranges that no file can have."""
    for name, value in (("start_line", start_line), ("end_line", end_line), ("offset", offset)):
        if value < 0:
            raise AmuxError("invalid_argument", f"{name} is {value}; it must be 0 or more", argument=name)
    if start_line and offset:
        raise AmuxError(
            "invalid_argument",
            f"start_line {start_line} and offset {offset} were both given; use one of them",
            argument="offset",
        )
    if end_line and start_line > end_line:
        raise AmuxError(
            "invalid_argument", f"end_line {end_line} is before start_line {start_line}", argument="end_line"
        )


def revision_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def decode(data: bytes, path: str) -> str:
    """The text of a document. Raises `not_utf8` with the byte position, from 0, and the revision."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise AmuxError(
            "not_utf8",
            f"{path} is not UTF-8 at byte {error.start}; replace it with upsert, or remove it with forget, "
            "by its revision",
            path=path,
            position=error.start,
            observed_revision=revision_of(data),
        ) from None


def check_readable(size: int, path: str) -> None:
    """Raises `limit_exceeded` for a file too large to be read through the Hub."""
    if size > limits.READABLE_BYTES:
        raise AmuxError(
            "limit_exceeded",
            f"{path} has {size} bytes; a file of over {limits.READABLE_BYTES} is not read: split it on the Hub's disk",
            limit="readable_bytes",
            value=limits.READABLE_BYTES,
            found=size,
            path=path,
        )


def _surely_fits(path: str, data: bytes) -> bool:
    """Whether a reply with all of `data` is within its budget at the cost of counting, not encoding, it.

    JSON makes at most six bytes of one that it escapes (RFC 8259, section 7).
    """
    escaped = len(data) - len(data.translate(None, _ESCAPED))
    return len(data) + 5 * escaped + 6 * len(path.encode()) + _FIELDS_BYTES <= reply.PARAMETERS_BYTES


def get(path: str, data: bytes, start_line: int, end_line: int, offset: int) -> reply.Reply:
    """The fragment of `data` that a get asks for, cut to the budget of one reply.

    Raises `not_utf8`; `invalid_argument` for an offset beyond the end or inside a code point.
    """
    text = decode(data, path)
    if offset > len(data):
        raise AmuxError(
            "invalid_argument", f"offset {offset} is beyond the size of {path}, {len(data)} bytes", argument="offset"
        )
    if offset < len(data) and data[offset] & 0xC0 == 0x80:
        raise AmuxError(
            "invalid_argument",
            f"offset {offset} of {path} is inside a character; continue at next_offset of the answer before",
            argument="offset",
        )
    begin, end = lines.line_range(data, start_line, end_line)
    begin = max(begin, offset)
    end = max(begin, end)
    total = lines.count_lines(data)
    if begin == 0 and end == len(data) and _surely_fits(path, data):
        return _answer(path, True, revision_of(data), text, 0, (min(1, total), total), total, len(data))
    answer = _answer(path, True, revision_of(data), "", begin, (total, total), total, len(data))
    answer["next_offset"] = len(data)  # the widest number it can be
    budget = reply.PARAMETERS_BYTES - reply.size(answer)
    del answer["next_offset"]
    # One code point more than can fit tells a cut from an end. 4 bytes is the longest code point.
    text = data[begin : min(end, begin + budget + 8)].decode(errors="ignore")
    taken = text[: fragment.cut(text, fragment.fitting(text, budget))]
    stop = begin + len(taken.encode())
    answer["content"] = taken
    if taken:
        first = lines.count_terminators(data[:begin]) + 1
        if data[begin - 1 : begin + 1] == b"\r\n":
            first -= 1  # an offset between CR and LF: still the line that they end
        answer["start_line"] = first
        answer["end_line"] = first + lines.count_lines(data[begin:stop]) - 1
    else:
        answer["start_line"] = answer["end_line"] = 0
    if stop < end:
        answer["truncated"] = True
        answer["next_offset"] = stop
    return answer
