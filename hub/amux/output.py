"""What leaves the process: bytes for programs, readable text for people, one form for errors.

Promises that a terminal never sees a control character that came from memory or from the environment, and
that output is whole: written straight to the descriptor, nothing left in a buffer at exit. Must not import
click. docs/reference/commands.md describes both forms.
"""

from __future__ import annotations

import os
import sys

from amux.errors import EXIT_INTERNAL, AmuxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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
    table = {code: _escaped(code) for code in _unfit()}
    for character in keep:
        table.pop(ord(character), None)
    return text.translate(table)


def _unfit() -> tuple[int, ...]:
    """The code points that no terminal gets."""
    # Tag characters show nothing and spell ASCII: a way to hide text from people but not from a model.
    tags = range(0xE0000, 0xE0080)
    return (*range(0x20), *range(0x7F, 0xA0), *_BIDI, *_SEPARATORS, *range(0xD800, 0xE000), *tags)


def _escaped(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def text(fd: int, content: str) -> None:
    """Write readable text, already escaped, in the encoding of the terminal; what it lacks is escaped.

    Raises OSError where it is the answer; what stands beside it on standard error need not be heard.
    """
    stream = sys.stdout if fd == 1 else sys.stderr
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        write(fd, content.encode(encoding, "backslashreplace"))
    except OSError:
        if fd == 1:
            raise


def line(fd: int, content: str) -> None:
    """Write one readable line, escaped."""
    text(fd, escape(content) + "\n")


def as_json(value: object) -> bytes:
    """Compact UTF-8 JSON with a newline, not ASCII-escaped but for what a terminal would obey or hide.

    JSON itself escapes but the oldest control characters, and --json may stand at a terminal.
    """
    import json

    encoded = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not encoded.isprintable():
        unfit = {ord(one) for one in set(encoded) if ord(one) >= 0x7F}.intersection(_unfit())
        encoded = encoded.translate({code: json.dumps(chr(code))[1:-1] for code in unfit})
    return encoded.encode("utf-8", "backslashreplace") + b"\n"


def error(problem: AmuxError, json_wanted: bool) -> None:
    """Say what went wrong on standard error: JSON for programs, one line for a person at a terminal."""
    if not json_wanted and is_terminal(2):
        line(2, f"amux: {problem.message}")
        return
    try:
        write(2, as_json(problem.to_json()))
    except OSError:
        return  # nobody listens; the exit status still tells


def guarded(command: Callable[[], int], json_wanted: bool) -> int:
    """Run a command; answer its exit status, having said what went wrong. Nothing escapes but SystemExit."""
    try:
        return command()
    except AmuxError as problem:
        error(problem, json_wanted)
        return problem.exit_status
    except BrokenPipeError:
        # What click left in the buffer of sys.stdout must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_PIPE
    except KeyboardInterrupt as interrupt:
        if interrupt.args:
            line(2, f"amux: {interrupt.args[0]}")
        return EXIT_INTERRUPTED
    except OSError as problem:
        error(AmuxError("internal", f"cannot write the answer: {problem.strerror}"), json_wanted)
        return EXIT_INTERNAL
    except Exception as problem:  # noqa: BLE001 - the contract of standard error holds for our own mistakes too
        trace = problem.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace is not None else None
        error(AmuxError("internal", f"{type(problem).__name__}: {problem}; please report it", place=place), json_wanted)
        return EXIT_INTERNAL


def fragment(reply: dict[str, Any]) -> None:
    """A Get for people: the text itself, and on standard error what part of what it is."""
    if not reply.get("exists"):
        line(2, f"amux: there is no {reply.get('path')} (revision absent)")
        return
    content = reply.get("content", "")
    text(1, escape(content.replace("\r\n", "\n"), "\n\t"))
    if content and not content.endswith(("\n", "\r")):
        text(1, "\n")
    lines = f"lines {reply.get('start_line')} to {reply.get('end_line')} of {reply.get('total_lines')}"
    if reply.get("start_line") == 0:  # it is empty, or ends before the line that was asked for
        lines = f"no such line ({reply.get('total_lines')} in all)" if reply.get("total_lines") else "empty"
    line(2, f"-- {reply.get('path')}: {lines}, {reply.get('size_bytes')} bytes, revision {reply.get('revision')}")
    if reply.get("truncated"):
        line(2, f"-- cut: go on with --offset {reply.get('next_offset')}")


def matches(reply: dict[str, Any], query: str) -> None:
    """A Search for people: `path:line: snippet` with the hits marked, and on standard error what was scanned."""
    found = reply.get("matches", [])
    marked = _colours()
    for match in found:
        snippet = escape(match.get("snippet", "").rstrip("\r\n"), "\t")
        if marked:
            snippet = _mark(snippet, [escape(term) for term in query.split()])
        place = escape(f"{match.get('path')}:{match.get('line')}: ")
        text(1, f"{place}{snippet}\n")
    documents = "document" if reply.get("scanned_files") == 1 else "documents"
    line(2, f"-- {len(found)} found, {reply.get('scanned_files')} {documents} scanned")
    if reply.get("incomplete"):
        line(2, f"-- incomplete ({reply.get('incomplete_reason')}): narrow --path-prefix")
    if reply.get("truncated"):
        line(2, "-- more was found than one answer holds: use more keywords or --path-prefix")
    for skipped in reply.get("skipped", []):
        line(2, f"-- skipped {skipped.get('path')}: {skipped.get('reason')}")
    unnamed = reply.get("skipped_files", 0) - len(reply.get("skipped", []))
    if unnamed > 0:
        line(2, f"-- skipped {unnamed} more")


def _colours() -> bool:
    """Whether hits may be marked, https://no-color.org and terminfo's dumb terminal."""
    return is_terminal(1) and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def _mark(snippet: str, terms: list[str]) -> str:
    """The snippet with each term in bold. Only shows: what matched was decided by the Hub's match key."""
    folded = snippet.lower()
    if len(folded) != len(snippet):
        return snippet
    bold = [False] * len(snippet)
    for term in terms:
        start = folded.find(term.lower())
        while term and start >= 0:
            bold[start : start + len(term)] = [True] * len(term)
            start = folded.find(term.lower(), start + len(term))
    marked, before = [], False
    for character, now in zip(snippet, bold, strict=True):
        if now != before:
            marked.append("\x1b[1m" if now else "\x1b[0m")
            before = now
        marked.append(character)
    return "".join(marked) + ("\x1b[0m" if before else "")
