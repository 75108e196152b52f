"""A Hub under strace(1): its system calls as objects in their order, and faults injected into them.

Knows the text that strace 6 writes with `-f -y`, and nothing of what the Hub does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# -D: the traced process keeps its place as our child. Not --seccomp-bpf: under it, strace 6.1 injects no signal
# into a thread.
STRACE = ("strace", "-D", "-f")

_LINE = re.compile(r"(\d+) +(.*)")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
_CALL = re.compile(r"(\w+)\((.*)")
_RESULT = re.compile(r"(.*)\) += (-?\d+|\?)(.*)")
_UNFINISHED = " <unfinished ...>"
_DESCRIPTOR = re.compile(r"(?:\d+|AT_FDCWD)<((?:[^<>]|->)*)>")
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


def python_under(out: Path, trace: str, inject: Sequence[str] = ()) -> tuple[str, ...]:
    """The words that start Python under strace: for the harness's `python`.

    `trace` and each of `inject` are expressions of strace's -e; counts of `when=` are per thread.
    """
    words = [*STRACE, "-y", "-s", "256", "-o", str(out), "-e", f"trace={trace}"]
    for expression in inject:
        words += ["-e", f"inject={expression}"]
    return (*words, sys.executable)


@dataclass
class Call:
    """One system call. `begun` and `ended` are positions in the trace; `ended` is None if it never returned."""

    name: str
    arguments: str
    begun: int
    ended: int | None = None
    result: int | None = None

    @property
    def descriptors(self) -> list[str]:
        """The paths behind the descriptors among the arguments."""
        return _DESCRIPTOR.findall(self.arguments)

    @property
    def texts(self) -> list[str]:
        """The string arguments, escaped as strace shows them."""
        return _TEXT.findall(self.arguments)


def read(out: Path, start: int = 0) -> list[Call]:
    """The calls in the trace from byte `start` on, in the order in which they began."""
    calls: list[Call] = []
    open_calls: dict[str, Call] = {}
    for position, line in enumerate(out.read_bytes()[start:].decode(errors="replace").splitlines()):
        matched = _LINE.fullmatch(line)
        if matched is None:
            continue
        pid, rest = matched.groups()
        if resumed := _RESUMED.fullmatch(rest):
            call = open_calls.pop(pid, None)
            if call is not None:
                call.arguments += resumed.group(2)
                _end(call, position)
        elif begun := _CALL.fullmatch(rest):
            call = Call(begun.group(1), begun.group(2), position)
            calls.append(call)
            if call.arguments.endswith(_UNFINISHED):
                call.arguments = call.arguments.removesuffix(_UNFINISHED)
                open_calls[pid] = call
            else:
                _end(call, position)
    return calls


def _end(call: Call, position: int) -> None:
    if matched := _RESULT.fullmatch(call.arguments):
        call.arguments, result, _ = matched.groups()
        if result != "?":
            call.result = int(result)
            call.ended = position
