"""The list of documents: path, size, revision, a page at a time."""

from __future__ import annotations

import os
from bisect import bisect_right

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import census as census_module
from amux_hub.store import reply, tree
from amux_hub.store.census import Document
from amux_hub.store.index import Index

_COMMA = 1


def _revision(root: int, document: Document) -> str | None:
    """The revision of the bytes on disk; None for what cannot be read or is larger than a whole scope."""
    if document.size > limits.SCOPE_BYTES:
        return None
    try:
        with tree.directory(root, document.components[:-1], document.path) as (parent, depth):
            if depth < len(document.components) - 1:
                return None
            fd = tree.open_file(document.components[-1], parent, document.path)
            if fd is None:
                return None
            try:
                return tree.hash_file(fd, document.path)[1]
            finally:
                os.close(fd)
    except AmuxError:
        return None


def list_documents(index: Index, root: int | None, prefix: list[str], after: str) -> reply.Reply:
    """One page of the list in byte order of the paths, beginning behind `after`. `index.lock` is held."""
    documents: list[Document] = []
    complete = True
    if root is not None:
        index.refresh(root)
        found = index.census
        documents = index.documents()
        if not found.complete and prefix:
            found = census_module.below(root, prefix)
            documents = list(found.documents.values())
        complete = found.complete
    documents = [d for d in documents if d.fault != tree.NOT_REGULAR and _below(d, prefix)]
    start = bisect_right(documents, after.encode(errors="surrogatepass"), key=lambda d: d.path.encode())
    rows: list[object] = []
    answer: reply.Reply = {
        "documents": rows,
        "next_after": None,
        "total_documents": len(documents),
        "total_bytes": sum(d.size for d in documents),
        "incomplete": not complete,
    }
    # Room for a cursor as long as a path can get, escaped.
    room = reply.PARAMETERS_BYTES - reply.size(answer) - 2 * limits.PATH_BYTES
    for position in range(start, len(documents)):
        document = documents[position]
        revision = document.revision if document.key is not None else None
        if revision is None and root is not None:
            revision = _revision(root, document)
        row: dict[str, object] = {"path": document.path, "bytes": document.size, "revision": revision}
        room -= reply.size(row) + _COMMA
        if room < 0 and rows:
            answer["next_after"] = documents[position - 1].path
            break
        rows.append(row)
    return answer


def _below(document: Document, prefix: list[str]) -> bool:
    return document.components[: len(prefix)] == prefix
