"""What may be written: the limits of new content. What already lies on disk is not judged by them."""

from __future__ import annotations

from amux import limits
from amux.errors import AmuxError
from amux_hub.store.lines import count_lines


def check(path: str, text: str) -> bytes:
    """The bytes to store. Raises `invalid_content` or `limit_exceeded` with the limit and what was found."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise AmuxError(
            "invalid_content", f"content for {path} is not valid Unicode at character {error.start}", path=path
        ) from None
    if (position := data.find(b"\0")) >= 0:
        raise AmuxError(
            "invalid_content",
            f"content for {path} has a NUL at byte {position}; Markdown text has none",
            path=path,
            position=position,
        )
    if path == limits.ENTRY_NAME:
        advice = "keep a few pointers and move details into topic documents"
        _bound(path, "entry_bytes", limits.ENTRY_BYTES, len(data), "bytes", advice)
        _bound(path, "entry_lines", limits.ENTRY_LINES, count_lines(data), "lines", advice)
    _bound(path, "document_bytes", limits.DOCUMENT_BYTES, len(data), "bytes", "split it into several documents")
    return data


def _bound(path: str, limit: str, value: int, found: int, unit: str, advice: str) -> None:
    if found > value:
        raise AmuxError(
            "limit_exceeded",
            f"content for {path} has {found} {unit}; the limit is {value}: {advice}",
            limit=limit,
            value=value,
            found=found,
            path=path,
        )
