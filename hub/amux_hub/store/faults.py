"""What the operating system refused, as typed errors."""

from __future__ import annotations

import errno
import os

from amux.errors import AmuxError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_READONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


def storage_error(error: OSError, doing: str) -> AmuxError:
    """The storage_* error for a failed write; the document is as it was before."""
    number = error.errno or 0
    name = errno.errorcode.get(number, "error")
    if number in _FULL:
        what = "the disk is full" if number == errno.ENOSPC else "the disk quota of the Hub's account is used up"
        return AmuxError("storage_full", f"{doing} refused: {what}; free some space and retry", errno=name)
    if number in _READONLY:
        return AmuxError(
            "storage_readonly",
            f"{doing} refused: the Hub may not write there ({os.strerror(number)}); mend the file system or the owner",
            errno=name,
        )
    return AmuxError("storage_io", f"{doing} failed: {os.strerror(number)}; see the system's log", errno=name)


def unsafe(path: str, why: str) -> AmuxError:
    """Something lies at `path` that the store does not touch."""
    return AmuxError(
        "unsafe_file", f"{path} refused: {why}; remove or replace it on the Hub's disk", path=path, reason=why
    )
