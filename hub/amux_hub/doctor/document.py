"""What a document's bytes say: UTF-8, size, lines. Nothing of them is ever told but positions and numbers."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from amux import limits
from amux_hub.doctor.finding import Findings
from amux_hub.store.lines import count_lines

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read(directory: int, name: str) -> bytes | None:
    """As much of a regular file as can be read through the Hub; None for any other kind. Raises OSError."""
    fd = os.open(name, _OPEN, dir_fd=directory)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = b""
        while len(data) <= limits.READABLE_BYTES and (part := os.pread(fd, limits.READABLE_BYTES, len(data))):
            data += part
        return data
    finally:
        os.close(fd)


def judge(findings: Mapping[str, Findings], what: str, path: str, data: bytes, size: int) -> None:
    """Tell the checks what is wrong with a document."""
    over = findings["store-limits"]
    if size > limits.READABLE_BYTES:
        fix = "split it"
        over.warning("unreadable", what, f"{size:,} bytes: not read through the Hub", f"{limits.READABLE_BYTES:,}", fix)
        return
    if size > limits.DOCUMENT_BYTES:
        fix = "split it"
        over.warning("document", what, f"{size:,} bytes: not searched", f"{limits.DOCUMENT_BYTES:,}", fix)
    if path == limits.ENTRY_NAME:
        advice = "keep a few pointers and move details into other documents"
        for found, limit, unit in (
            (len(data), limits.ENTRY_BYTES, "bytes"),
            (count_lines(data), limits.ENTRY_LINES, "lines"),
        ):
            if found > limit:
                over.warning("entry", what, f"{found:,} {unit}", f"at most {limit:,}", advice)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        advice = "save it as UTF-8, or replace it with amux memory upsert"
        findings["store-text"].warning("utf8", what, f"not UTF-8 at byte {error.start}: never found", "UTF-8", advice)
