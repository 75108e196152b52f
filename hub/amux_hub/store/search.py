"""Search: literal keywords over a scope, a bounded scan, ranked, with one snippet each.

Rules: docs/reference/search.md. The scan goes in byte order of the paths and its count and byte limits hold
with a warm cache too, so that an answer never depends on what was asked before.
"""

from __future__ import annotations

import time
from bisect import bisect_left

from stringzilla import find

from amux import limits
from amux_hub.store import census, reply, tree
from amux_hub.store.census import Document
from amux_hub.store.index import Index
from amux_hub.store.paths import printable
from amux_hub.store.read import revision_of
from amux_hub.store.snippet import Snippet, snippet

_ROUNDS = 3
"""How often hits that changed under the search are looked at again before the answer stands as it is."""


class Match:
    """A document with the number of distinct keywords it has."""

    __slots__ = ("document", "keywords")

    def __init__(self, document: Document, keywords: int) -> None:
        self.document = document
        self.keywords = keywords

    def named(self, terms: list[bytes]) -> int:
        """How many of the keywords are in path or title."""
        names = self.document.names
        hits = 0
        for term in terms:
            if term in names:
                hits += 1
        return hits


class Scan:
    """What one pass over the documents found."""

    def __init__(self) -> None:
        self.matches: list[Match] = []
        self.scanned = 0
        self.incomplete: str | None = None
        self.skipped: list[tuple[str, str]] = []


def _within(documents: list[Document], prefix: list[str]) -> list[Document]:
    """The documents at or below `prefix`."""
    if not prefix:
        return documents
    path = "/".join(prefix).encode()

    def key(document: Document) -> bytes:
        return document.path.encode()

    exact = bisect_left(documents, path, key=key)
    found = documents[exact : exact + 1] if exact < len(documents) and key(documents[exact]) == path else []
    begin = bisect_left(documents, path + b"/", key=key)
    end = bisect_left(documents, path + b"0", key=key)  # "0" follows "/"
    return found + documents[begin:end]


def _ready(index: Index, root: int, document: Document, scan: Scan) -> bytes | None:
    """The document's match key, read from disk if the cache lacks it; None, and noted, if it is skipped."""
    if document.fault is None and document.key is None:
        if document.size > limits.DOCUMENT_BYTES:
            document.fault = "too_large"
        else:
            index.load(root, document)
    if document.key is None and document.fault != "gone":
        scan.skipped.append((document.path, document.fault or "gone"))
    return document.key


def _scan(index: Index, root: int, documents: list[Document], terms: list[bytes], deadline: float) -> Scan:
    scan = Scan()
    size = 0
    matches = scan.matches
    for document in documents:
        key = document.key
        # Every 64 documents is often enough for warm ones; a cold one costs a file to read.
        if (key is None or not scan.scanned & 63) and time.monotonic() > deadline:
            scan.incomplete = "time"
            break
        if scan.scanned >= limits.SCAN_FILES:
            scan.incomplete = "files"
            break
        if key is None and (key := _ready(index, root, document, scan)) is None:
            continue
        size += document.size
        if size > limits.SCAN_BYTES:
            scan.incomplete = "bytes"
            break
        scan.scanned += 1
        hits = 0
        for term in terms:
            if find(key, term) >= 0:
                hits += 1
        if hits:
            matches.append(Match(document, hits))
    return scan


def _best(matches: list[Match], terms: list[bytes], limit: int) -> list[Match]:
    """The first `limit` by distinct keywords, then keywords in path or title, then path bytes."""
    best: list[Match] = []
    by_count: dict[int, list[Match]] = {}
    for match in matches:
        by_count.setdefault(match.keywords, []).append(match)
    for count in sorted(by_count, reverse=True):
        # Stable: the scan was in byte order of the paths.
        best += sorted(by_count[count], key=lambda match: match.named(terms), reverse=True)
        if len(best) >= limit:
            break
    return best[:limit]


def _verify(index: Index, root: int, match: Match, terms: list[bytes]) -> Snippet | None:
    """The match's snippet from the bytes on disk, or None if the document changed since it was cached."""
    document = match.document
    before = document.revision
    if (found := index.read(root, document)) is None:
        return None
    raw, status = found
    # Status and hash: a store through a memory map changes the bytes and nothing else.
    if tree.signature(status) != document.sig or revision_of(raw) != before:
        index.fill(document, raw, status)
    if document.key is None or document.revision != before:
        return None
    return snippet(raw, document.key[document.body :], terms)


def search(index: Index, root: int, terms: list[bytes], prefix: list[str], limit: int) -> reply.Reply:
    """Answer one search. `index.lock` is held by the caller. Units, bounds and order: docs/reference/search.md."""
    deadline = time.monotonic() + limits.SCAN_MILLISECONDS / 1000
    for attempt in range(_ROUNDS):
        index.refresh(root)
        found = index.census
        documents = _within(index.documents(), prefix)
        if not found.complete and prefix:
            # The walk from the top ended early; what the caller asked for may be beyond its end.
            found = census.below(root, prefix)
            documents = list(found.documents.values())
        scan = _scan(index, root, documents, terms, deadline)
        if not found.complete and scan.incomplete is None:
            scan.incomplete = "entries"
        best = _best(scan.matches, terms, limit)
        snippets: list[tuple[Match, Snippet]] = []
        for match in best:
            taken = _verify(index, root, match, terms)
            if taken is not None:
                snippets.append((match, taken))
        if len(snippets) == len(best) or attempt == _ROUNDS - 1:
            break
    prefix_path = "/".join(prefix)
    for path, reason in found.skipped:
        if not prefix or path == prefix_path or path.startswith(prefix_path + "/"):
            scan.skipped.append((path, reason))
    scan.skipped.sort(key=lambda entry: entry[0].encode())
    return _compose(scan, snippets, len(scan.matches) > len(snippets))


def _compose(scan: Scan, snippets: list[tuple[Match, Snippet]], omitted: bool) -> reply.Reply:
    matches: list[object] = [
        {
            "path": match.document.path,
            "line": taken.line,
            "snippet": taken.text,
            "truncated": taken.truncated,
            "revision": match.document.revision,
            "keywords": match.keywords,
        }
        for match, taken in snippets
    ]
    skipped: list[object] = [
        {"path": printable(path), "reason": reason} for path, reason in scan.skipped[: limits.SKIPPED_NAMED]
    ]
    answer: reply.Reply = {
        "matches": matches,
        "scanned_files": scan.scanned,
        "incomplete": scan.incomplete is not None,
        "incomplete_reason": scan.incomplete,
        "truncated": omitted,
        "skipped_files": len(scan.skipped),
        "skipped": skipped,
    }
    # One match always fits, alone; then the skipped ones, then the other matches.
    size = reply.size(answer)
    while size > reply.PARAMETERS_BYTES and len(matches) > 1:
        matches.pop()
        answer["truncated"] = True
        size = reply.size(answer)
    while size > reply.PARAMETERS_BYTES and skipped:
        skipped.pop()
        size = reply.size(answer)
    return answer
