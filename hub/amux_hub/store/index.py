"""What the Hub holds of a scope in memory, and the proof that it is what lies on disk.

Nothing here is ever written to disk, and nothing is answered from it that the proof does not cover: `refresh`
makes the list of documents and every cached content as fresh as reading all files now would, by a drained
inotify queue (watch.py) or, where that proves nothing, by a stat of each file.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import census as census_module
from amux_hub.store import tree, watch
from amux_hub.store.census import Census, Document
from amux_hub.store.paths import entry_fault
from amux_hub.store.text import match_key, match_key_bytes, title_of

FULL_PASS_SECONDS = 2.0
"""How long, in use, until every file is looked at again whatever the events say."""

GRAIN_NS = 20_000_000
COARSE_GRAIN_NS = 2_000_000_000
"""A file changed twice within its clock's grain keeps its times: content read so soon is read again."""

_DOCUMENT_BYTES = 600
"""What the list of documents itself takes in memory for each, roughly."""

_STRUCTURE = watch.IN_CREATE | watch.IN_DELETE | watch.IN_MOVED_FROM | watch.IN_MOVED_TO
_CONTENT = watch.IN_MODIFY | watch.IN_CLOSE_WRITE | _STRUCTURE
_READING = watch.IN_OPEN | watch.IN_CLOSE_NOWRITE
_SELF = watch.IN_DELETE_SELF | watch.IN_MOVE_SELF | watch.IN_IGNORED


Opened = tuple[list[str], int]
"""A directory below a scope's root, and a descriptor of it."""


def _is_racy(sig: tree.Signature) -> bool:
    _, _, _, mtime, ctime = sig
    grain = COARSE_GRAIN_NS if ctime % 1_000_000_000 == 0 else GRAIN_NS
    return time.time_ns() - max(mtime, ctime) < grain


def _place(root: int) -> tuple[int, int]:
    status = os.fstat(root)
    return status.st_dev, status.st_ino


def _order_key(document: Document) -> bytes:
    return document.path.encode()


class Index:
    """The documents of one scope. Call everything with `lock` held, but `pending`, which the watcher fills."""

    def __init__(self, watcher: watch.Watcher) -> None:
        self.lock = threading.RLock()
        self.pending: deque[watch.Event] = deque()
        self._content = 0
        self._watcher = watcher
        self._census = Census()
        self._order: list[Document] = []
        self._proven = False
        self._place: tuple[int, int] | None = None
        self._full_pass = 0.0
        self._opens: dict[tuple[int, bytes], int] = {}
        self._reads: dict[str, int] = {}
        """How often each path was opened here since the last events: what they tell of that is no news."""

    @property
    def cost(self) -> int:
        """Bytes of memory that this index takes, roughly: cached content and the list."""
        return self._content + _DOCUMENT_BYTES * len(self._order)

    @property
    def census(self) -> Census:
        return self._census

    def refresh(self, root: int, near: Opened | None = None) -> None:
        """Make everything here true of the directory `root`, as of some moment during this call.

        `near` is a directory that the caller has just walked to, which then need not be walked to again.
        """
        if self._place != _place(root):
            self._proven = False  # another directory was put in the old one's place
        if self._census.directories and self._watcher.available:
            self._watcher.drain()
            self._apply_events(root, near)
        if not self._proven or time.monotonic() - self._full_pass > FULL_PASS_SECONDS:
            self._look_at_everything(root)

    def documents(self) -> list[Document]:
        """Every document in byte order of the paths."""
        return self._order

    def usage(self) -> tuple[int, int]:
        """Documents and bytes that count against the scope's quota."""
        documents = self._census.documents
        regular = [d.size for d in documents.values() if d.fault != tree.NOT_REGULAR]
        return len(regular), sum(regular)

    def read(self, root: int, document: Document) -> tuple[bytes, os.stat_result] | None:
        """A document's bytes, at most one more than can be searched, and their status; None if it is gone.

        Nothing is believed of a document that cannot be read: the next refresh looks at everything again.
        """
        try:
            with tree.directory(root, document.components[:-1], document.path) as (parent, depth):
                fd = None
                if depth == len(document.components) - 1:
                    fd = tree.open_file(document.components[-1], parent, document.path)
                if fd is not None:
                    self._reads[document.path] = self._reads.get(document.path, 0) + 1
                    try:
                        return tree.read_file(fd, limits.DOCUMENT_BYTES + 1, document.path)
                    finally:
                        os.close(fd)
            self._distrust(document, "gone")
        except AmuxError as error:
            reason = error.details.get("reason") or f"{tree.UNREADABLE} ({error.details.get('errno')})"
            self._distrust(document, str(reason))
        return None

    def _distrust(self, document: Document, fault: str) -> None:
        self._forget(document)
        document.fault = fault
        document.racy = True
        self._proven = False

    def load(self, root: int, document: Document) -> None:
        """Read a document's content into the cache; sets `fault` if it cannot be searched.

        A vanished document is forgotten with the next refresh; until then it is empty.
        """
        if (found := self.read(root, document)) is not None:
            self.fill(document, *found)

    def fill(self, document: Document, raw: bytes, status: os.stat_result) -> None:
        """Put bytes just read into the cache."""
        self._forget(document)
        document.sig = tree.signature(status)
        document.size = status.st_size
        document.racy = _is_racy(document.sig)
        if len(raw) > limits.DOCUMENT_BYTES:
            document.fault = "too_large"
            return
        document.revision = hashlib.sha256(raw).hexdigest()
        try:
            key = match_key_bytes(raw)
            title = title_of(raw)
        except UnicodeDecodeError:
            document.fault = "not_utf8"
            return
        path_key = match_key(document.path).encode()
        document.fault = None
        document.key = path_key + b"\n" + key
        document.body = len(path_key) + 1
        document.names = path_key + b"\n" + match_key(title).encode()
        self._content += document.cost

    def _forget(self, document: Document) -> None:
        self._content -= document.cost
        document.forget_content()

    def drop(self) -> None:
        """Forget everything, to give the memory to other scopes."""
        self._watcher.remove(list(self._census.directories), self)
        self._census = Census()
        self._order = []
        self._proven = False
        self._content = 0
        self.pending.clear()
        self._opens.clear()
        self._reads.clear()

    def _look_at_everything(self, root: int) -> None:
        # Events that are waiting stay: they tell of closings that no status shows.
        self._proven = False
        self._full_pass = time.monotonic()
        before = self._census
        after = census_module.take(root, self._watch if self._watcher.available else None)
        self._watcher.remove([wd for wd in before.directories if wd not in after.directories], self)
        for path, found in after.documents.items():
            known = before.documents.get(path)
            if known is not None and known.sig == found.sig and not known.racy:
                after.documents[path] = known
        self._census = after
        self._order = sorted(after.documents.values(), key=_order_key)
        self._opens = {name: count for name, count in self._opens.items() if name[0] in after.directories}
        self._content = sum(d.cost for d in after.documents.values())
        self._place = _place(root)
        self._proven = self._watcher.available and after.watched and after.complete

    def _watch(self, directory: int) -> int | None:
        return self._watcher.add(directory, self) if watch.is_local(directory) else None

    def _events(self) -> Iterator[watch.Event]:
        while True:
            try:
                yield self.pending.popleft()
            except IndexError:  # also when the watcher threw them away between two looks
                return

    def _apply_events(self, root: int, near: Opened | None) -> None:
        changed: dict[str, tuple[list[str], bool]] = {}
        reads, self._reads = self._reads, {}
        directories = self._census.directories
        for wd, mask, name in self._events():
            if wd == -1:
                self._opens.clear()
                self._proven = False
            elif (components := directories.get(wd)) is None:
                pass  # a directory that we no longer watch
            elif mask & _SELF or (mask & watch.IN_ISDIR and mask & (_STRUCTURE | watch.IN_ATTRIB)):
                self._proven = False  # the tree itself changed: walk it again
            elif name.endswith(b".md"):
                self._count_opens((wd, name), mask)
                child = [*components, os.fsdecode(name)]
                path = "/".join(child)
                if mask & _READING and reads.get(path, 0) > 0:
                    reads[path] -= mask == watch.IN_CLOSE_NOWRITE
                    continue
                _, content = changed.get(path, (child, False))
                changed[path] = child, content or bool(mask & _CONTENT)
        for wd, name in self._opens:
            if (components := directories.get(wd)) is not None:
                child = [*components, os.fsdecode(name)]
                changed["/".join(child)] = child, True
        for path, (child, content) in changed.items():
            if self._proven:
                self._look_at(root, path, child, content, near)
            elif content and (known := self._census.documents.get(path)) is not None:
                known.racy = True  # the full pass that follows must not take its status for a proof

    def _count_opens(self, name: tuple[int, bytes], mask: int) -> None:
        # Somebody has it open, perhaps for writing through a memory map, which no event tells: read it again
        # until it is closed.
        count = self._opens.pop(name, 0)
        if mask & watch.IN_MOVED_FROM:
            return  # closed under its next name
        if mask & watch.IN_OPEN:
            count += 1
        elif mask & (watch.IN_CLOSE_WRITE | watch.IN_CLOSE_NOWRITE):
            count -= 1
        if count > 0:
            self._opens[name] = count

    def _look_at(self, root: int, path: str, components: list[str], content: bool, near: Opened | None) -> None:
        """Look again at one name that an event told of; `content` says that its bytes may have changed."""
        if entry_fault(components, directory=False) is not None:
            self._proven = False  # a name that is no path: rare enough for a full walk
            return
        try:
            status = self._status(root, components, path, near)
        except (OSError, AmuxError):
            self._proven = False
            return
        documents = self._census.documents
        known = documents.get(path)
        found = None if status is None else census_module.classify(path, components, status)
        if status is not None and found is None:
            self._proven = False  # a link or a directory: likewise
        elif found is None:
            self._census.unname("/".join(components[:-1]), components[-1])  # also where it was a link
            if known is not None:
                self._content -= known.cost
                del documents[path]
                del self._order[bisect_left(self._order, _order_key(known), key=_order_key)]
        elif known is None:
            documents[path] = found
            insort(self._order, found, key=_order_key)
            self._census.name("/".join(components[:-1]), components[-1])
        elif status is not None and (content or known.sig != found.sig):
            self._content -= known.cost
            known.look(status)

    def _status(self, root: int, components: list[str], path: str, near: Opened | None) -> os.stat_result | None:
        try:
            if near is not None and near[0] == components[:-1]:
                return os.stat(components[-1], dir_fd=near[1], follow_symlinks=False)
            with tree.directory(root, components[:-1], path) as (parent, depth):
                if depth < len(components) - 1:
                    return None
                return os.stat(components[-1], dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
