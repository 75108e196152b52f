"""What the Hub holds of a scope in memory, and the proof that it is what lies on disk.

Nothing here is ever written to disk, and nothing is answered from it that the proof does not cover: `refresh`
makes the list of documents and every cached content as fresh as reading all files now would, by a drained
inotify queue (watch.py) or, where that proves nothing, by a stat of each file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from bisect import bisect_left, insort
from collections import deque

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import census as census_module
from amux_hub.store import tree, watch
from amux_hub.store.census import Census, Document
from amux_hub.store.paths import name_fault, twin_key
from amux_hub.store.text import match_key, match_key_bytes, title_of

FULL_PASS_SECONDS = 2.0
"""How long, in use, until every file is looked at again whatever the events say."""

GRAIN_NS = 20_000_000
COARSE_GRAIN_NS = 2_000_000_000
"""A file changed twice within its clock's grain keeps its times: content read so soon is read again."""

_STRUCTURE = watch.IN_CREATE | watch.IN_DELETE | watch.IN_MOVED_FROM | watch.IN_MOVED_TO
_CONTENT = watch.IN_MODIFY | watch.IN_CLOSE_WRITE | _STRUCTURE
_SELF = watch.IN_DELETE_SELF | watch.IN_MOVE_SELF | watch.IN_IGNORED


def _is_racy(sig: tree.Signature) -> bool:
    _, _, _, mtime, ctime = sig
    grain = COARSE_GRAIN_NS if ctime % 1_000_000_000 == 0 else GRAIN_NS
    return time.time_ns() - max(mtime, ctime) < grain


def _order_key(document: Document) -> bytes:
    return document.path.encode()


class Index:
    """The documents of one scope. Call everything with `lock` held, but `pending`, which the watcher fills."""

    def __init__(self, watcher: watch.Watcher) -> None:
        self.lock = threading.RLock()
        self.pending: deque[watch.Event] = deque()
        self.cost = 0
        """Bytes of cached content, as of the last refresh or load."""
        self._watcher = watcher
        self._census = Census()
        self._order: list[Document] = []
        self._proven = False
        self._full_pass = 0.0
        self._opens: dict[str, int] = {}

    @property
    def census(self) -> Census:
        return self._census

    def refresh(self, root: int) -> None:
        """Make everything here true of the directory `root`, as of some moment during this call."""
        if self._proven:
            self._watcher.drain()
            self._apply_events(root)
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

    def load(self, root: int, document: Document) -> None:
        """Read a document's content into the cache; sets `fault` if it cannot be searched.

        A vanished document is forgotten with the next refresh; until then it is empty.
        """
        self._forget(document)
        document.fault = None
        try:
            with tree.directory(root, document.components[:-1], document.path) as (parent, depth):
                fd = None
                if depth == len(document.components) - 1:
                    fd = tree.open_file(document.components[-1], parent, document.path)
                if fd is None:
                    self._proven = False
                    document.fault = "gone"
                    return
                try:
                    raw, status = tree.read_file(fd, limits.DOCUMENT_BYTES + 1, document.path)
                finally:
                    os.close(fd)
        except AmuxError as error:
            document.fault = str(error.details.get("reason", error.message))
            document.racy = True  # perhaps only for now: look again
            return
        self.fill(document, raw, status)

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
            title = title_of(raw.decode())
        except UnicodeDecodeError:
            document.fault = "not_utf8"
            return
        path_key = match_key(document.path).encode()
        document.fault = None
        document.key = path_key + b"\n" + key
        document.body = len(path_key) + 1
        document.title = match_key(title).encode()
        self.cost += document.cost

    def _forget(self, document: Document) -> None:
        self.cost -= document.cost
        document.forget_content()

    def drop(self) -> None:
        """Forget everything, to give the memory to other scopes."""
        self._watcher.remove(list(self._census.directories))
        self._census = Census()
        self._order = []
        self._proven = False
        self.cost = 0
        self.pending.clear()
        self._opens.clear()

    def _look_at_everything(self, root: int) -> None:
        self._full_pass = time.monotonic()
        use_watches = self._watcher.available and watch.is_local(root)
        self.pending.clear()
        before = self._census
        after = census_module.take(root, [], (lambda fd: self._watcher.add(fd, self)) if use_watches else None)
        self._watcher.remove([wd for wd in before.directories if wd not in after.directories])
        for path, found in after.documents.items():
            known = before.documents.get(path)
            if known is not None and known.sig == found.sig and not known.racy:
                after.documents[path] = known
        self._census = after
        self._order = sorted(after.documents.values(), key=_order_key)
        self._proven = use_watches and after.watched and after.complete
        self.cost = sum(d.cost for d in after.documents.values())

    def _apply_events(self, root: int) -> None:
        changed: dict[str, bool] = {}
        while self.pending:
            wd, mask, name = self.pending.popleft()
            components = self._census.directories.get(wd)
            if wd == -1:
                self._opens.clear()
                self._proven = False
                continue
            if components is None:
                continue  # a directory that we no longer watch
            if mask & _SELF or (mask & watch.IN_ISDIR and mask & (_STRUCTURE | watch.IN_ATTRIB)):
                self._proven = False  # the tree itself changed: walk it again
                continue
            if not name.endswith(b".md"):
                continue
            path = "/".join([*components, os.fsdecode(name)])
            self._count_opens(path, mask)
            changed[path] = changed.get(path, False) or bool(mask & _CONTENT)
        if not self._proven:
            self.pending.clear()
            return
        for path in self._opens:
            changed[path] = True
        for path, content in changed.items():
            self._look_at(root, path, content)

    def _count_opens(self, path: str, mask: int) -> None:
        # Somebody has it open, perhaps for writing through a memory map, which no event tells: read it again
        # until it is closed.
        count = self._opens.pop(path, 0)
        if mask & watch.IN_OPEN:
            count += 1
        elif mask & (watch.IN_CLOSE_WRITE | watch.IN_CLOSE_NOWRITE):
            count -= 1
        if count > 0:
            self._opens[path] = count

    def _look_at(self, root: int, path: str, content: bool) -> None:
        """Look again at one name that an event told of; `content` says that its bytes may have changed."""
        components = path.split("/")
        documents = self._census.documents
        known = documents.get(path)
        status = self._status(root, components, path)
        if known is not None and status is not None:
            if content or known.sig != tree.signature(status):
                self.cost -= known.cost
                known.look(status)
        elif status is not None:
            found = census_module.classify(path, components, status)
            if found is None or name_fault(components[-1], last=True) is not None:
                self._proven = False  # a link, or a name that is no path: rare enough for a full walk
                return
            documents[path] = found
            insort(self._order, found, key=_order_key)
            names = self._census.names.setdefault("/".join(components[:-1]), {})
            names.setdefault(twin_key(components[-1]), components[-1])
        elif known is not None:
            self.cost -= known.cost
            del documents[path]
            del self._order[bisect_left(self._order, _order_key(known), key=_order_key)]
            self._forget_name(components)

    def _status(self, root: int, components: list[str], path: str) -> os.stat_result | None:
        try:
            with tree.directory(root, components[:-1], path) as (parent, depth):
                if depth < len(components) - 1:
                    return None
                status = os.stat(components[-1], dir_fd=parent, follow_symlinks=False)
        except (OSError, AmuxError):
            return None
        return None if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode) else status

    def _forget_name(self, components: list[str]) -> None:
        names = self._census.names.get("/".join(components[:-1]), {})
        key = twin_key(components[-1])
        if names.get(key) != components[-1]:
            return
        del names[key]
        for document in self._census.documents.values():  # a twin that somebody else made
            if document.components[:-1] == components[:-1] and twin_key(document.components[-1]) == key:
                names[key] = document.components[-1]
                return
