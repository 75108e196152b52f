"""How much a scope may hold, and how much the disk keeps free."""

from __future__ import annotations

import os

from amux import limits
from amux.errors import AmuxError
from amux_hub.store.faults import storage_error
from amux_hub.store.index import Index


def _over(path: str, limit: str, value: int, found: int, what: str) -> AmuxError:
    return AmuxError(
        "limit_exceeded",
        f"{path} refused: the scope would hold {found} {what}; the limit is {value}: forget or shorten documents",
        limit=limit,
        value=value,
        found=found,
        path=path,
    )


def check_quota(index: Index, path: str, old_size: int | None, new_size: int) -> None:
    """Refuse a write that leaves a measure over its limit and grew it: a scope over quota may shrink.

    `old_size` is None for a new document. Called with the scope's lock held and the index fresh. Raises
    `limit_exceeded`.
    """
    if old_size is not None and new_size <= old_size:
        return
    census = index.census
    if not census.complete:
        raise _over(path, "scan_entries", limits.SCAN_ENTRIES, census.entries, "directory entries or more")
    documents, size = index.usage()
    if old_size is None and documents + 1 > limits.SCOPE_DOCUMENTS:
        raise _over(path, "scope_documents", limits.SCOPE_DOCUMENTS, documents + 1, "documents")
    grown = new_size - (old_size or 0)
    total = size + grown
    if total > limits.SCOPE_BYTES and grown > 0:
        raise _over(path, "scope_bytes", limits.SCOPE_BYTES, total, "bytes")


def check_free_space(root: int, reserve: int, size: int) -> None:
    """Raises `storage_full` if `size` bytes more would leave less than `reserve` free on the disk."""
    try:
        status = os.fstatvfs(root)
    except OSError as error:
        raise storage_error(error, "asking for the free space") from error
    free = status.f_bavail * status.f_frsize
    if free - size < reserve:
        raise AmuxError(
            "storage_full",
            f"the disk has {free} bytes free; {reserve} are kept: free some space; reading and forgetting work",
            limit="free_bytes",
            value=reserve,
            found=free,
        )
