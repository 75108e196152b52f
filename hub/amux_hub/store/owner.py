"""The mark in a principal's directory that says whose it is: a hidden file, which goes where the directory goes.

The directory's name is a hash that root can put on any other directory, by a slip in a restore most of all; the mark
stays with the documents. A directory in `users` is served only with its own mark, and an empty one gets it with the
first write. `global` has none. No path of a document can reach the mark, since hidden names are refused.
"""

from __future__ import annotations

import contextlib
import os

from amux.errors import AmuxError
from amux_hub.store import tree, write

MARK = ".amux-owner"
PRINCIPAL = "principal:"
"""How the scopes begin that have a mark."""

MARK_BYTES = 1024
"""More than the longest scope takes."""


class OwnerError(AmuxError):
    """A directory does not say that it is this memory. `unsafe_file`; whose it is instead is for the doctor alone."""

    def __init__(self, scope: str, where: str, reason: str) -> None:
        what = f"the memory {scope} is not served: its directory {where} {reason}"
        what += "; nothing was read or changed: the administrator finds what to do with amux doctor"
        super().__init__("unsafe_file", what, path=where, reason=reason)


def text_of(scope: str) -> bytes:
    """What the mark of a scope holds."""
    return scope.encode() + b"\n"


def judge(root: int, scope: str, where: str) -> bool:
    """Whether the directory `root` is that of `scope`; False of one that has no mark and holds nothing.

    `where` is for messages. Raises OwnerError for another's mark, and for a missing one beside anything else.
    """
    data = _read(root, where)
    if not scope.startswith(PRINCIPAL):
        if data is not None:
            raise OwnerError(scope, where, f"is another memory's: it has a {MARK}")
        return True
    if data is None:
        if is_empty(root):
            return False
        data = _read(root, where)  # the first write may just have marked it: the mark is there before anything else
        if data is None:
            raise OwnerError(scope, where, f"has no {MARK} that says whose it is")
    if data != text_of(scope):
        raise OwnerError(scope, where, f"is another memory's, says its {MARK}")
    return True


def mark(root: int, scope: str, where: str) -> None:
    """Mark the directory `root`, durably. Raises storage errors, and then there is no mark."""
    try:
        write.replace(root, MARK, text_of(scope), f"{where}/{MARK}")
    except AmuxError as error:
        if error.code != "outcome_uncertain":
            raise
        with contextlib.suppress(OSError):
            os.unlink(MARK, dir_fd=root)  # or the next write would take it for one that is on the disk
        raise AmuxError("storage_io", f"marking {where} failed: the disk did not confirm it; retry") from error


def _read(root: int, where: str) -> bytes | None:
    fd = tree.open_file(MARK, root, f"{where}/{MARK}")
    if fd is None:
        return None
    try:
        return tree.read_file(fd, MARK_BYTES, f"{where}/{MARK}")[0]
    finally:
        os.close(fd)


def is_empty(root: int) -> bool:
    """Nothing is in it but what a write that was cut short left."""
    with os.scandir(root) as entries:
        return all(write.TEMPORARY.fullmatch(entry.name) for entry in entries)
