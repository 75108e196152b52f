"""What leaves the process: bytes for programs, readable text for people, one form for errors.

Promises that a terminal never sees a control character that came from memory or from the environment, and
that output is whole: written straight to the descriptor, nothing left in a buffer at exit. Must not import
click.
"""

from __future__ import annotations

import os
import sys

from amux.errors import AmuxError

EXIT_PIPE = 141
"""128 + SIGPIPE: whoever read our output stopped; said in silence, as other tools do."""
EXIT_INTERRUPTED = 130
"""128 + SIGINT."""

_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_SEPARATORS = (0x2028, 0x2029)


def is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


def write(fd: int, data: bytes) -> None:
    """Write all of it. Raises OSError, BrokenPipeError among them."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def escape(text: str, keep: str = "") -> str:
    r"""`text` with every control and bidirectional control character as `\x1b` or `\u202e`.

    So no document, path or message can move the cursor, change colours or reorder what stands beside it.
    Characters of `keep` stay.
    """
    if text.isprintable():
        return text
    codes = (*range(0x20), *range(0x7F, 0xA0), *_BIDI, *_SEPARATORS, *range(0xD800, 0xE000))
    table = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in codes}
    # Tag characters show nothing and spell ASCII: a way to hide text from people but not from a model.
    table.update({code: f"\\U{code:08x}" for code in range(0xE0000, 0xE0080)})
    for character in keep:
        table.pop(ord(character), None)
    return text.translate(table)


def text(fd: int, content: str) -> None:
    """Write readable text, already escaped, in the encoding of the terminal; what it lacks is escaped."""
    stream = sys.stdout if fd == 1 else sys.stderr
    encoding = getattr(stream, "encoding", None) or "utf-8"
    write(fd, content.encode(encoding, "backslashreplace"))


def line(fd: int, content: str) -> None:
    """Write one readable line, escaped."""
    text(fd, escape(content) + "\n")


def as_json(value: object) -> bytes:
    """Compact UTF-8 JSON with a newline, not ASCII-escaped; a lone surrogate becomes an escape."""
    import json

    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encoded.encode("utf-8", "backslashreplace") + b"\n"


def error(problem: AmuxError, json_wanted: bool) -> None:
    """Say what went wrong on standard error: JSON for programs, one line for a person at a terminal."""
    try:
        if json_wanted or not is_terminal(2):
            write(2, as_json(problem.to_json()))
        else:
            line(2, f"amux: {problem.message}")
    except OSError:
        return  # nobody listens; the exit status still tells
