"""One scope: the documents of one principal, or the global ones, and the operations on them.

Thread-safe. Writes of a scope are one after another; reads of single documents take no lock at all; a search
holds the scope's index. Arguments were checked by the caller as far as types go; grammar is checked here too,
since no path may reach a disk unchecked.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import census, content, owner, purge, read, reply, tree, write
from amux_hub.store.cache import Cache
from amux_hub.store.faults import storage_error
from amux_hub.store.index import Index
from amux_hub.store.listing import list_documents
from amux_hub.store.paths import check_document, check_prefix, nfc, twin_key
from amux_hub.store.quota import check_free_space, check_quota
from amux_hub.store.search import search
from amux_hub.store.text import parse_query
from amux_hub.store.watch import Watcher

ABSENT = read.ABSENT
_ENTRY_KEY = twin_key(limits.ENTRY_NAME)

_DURABLE = 4096
"""Directories remembered as synced; when there are more, all are synced again."""

MARK_SECONDS = 60.0
"""How long a directory that looks the same is known as the one whose mark was read."""


class Scope:
    """Made by `Store.scope`, once a scope. `location` are the directories below the memory root."""

    def __init__(
        self, memory: int, name: str, location: list[str], watcher: Watcher, cache: Cache, free_bytes: int
    ) -> None:
        self._memory = memory
        self._name = name
        self._location = location
        self._where = "/".join(["memory", *location])
        self._judged: tuple[tree.Place, float] | None = None
        self._watcher = watcher
        self._cache = cache
        self.free_bytes = free_bytes
        self._writing = threading.Lock()
        self._index = Index(watcher)
        self._durable: set[tuple[str, int, int]] = set()

    @contextlib.contextmanager
    def _root(self, doing: str, create: bool = False) -> Iterator[int | None]:
        """The scope's directory, None if nobody wrote to it yet; one that is another scope's raises OwnerError.

        What the operating system refuses within the block becomes a typed error that says `doing`: nothing may
        fail in it once a document was changed.
        """
        try:
            while True:
                with tree.directory(self._memory, self._location, self._location[-1]) as (fd, depth):
                    found = depth == len(self._location)
                    if found:
                        self._judge(fd, create=create)
                    if found or not create:
                        yield fd if found else None
                        return
                    os.close(tree.make_root(self._location[depth], fd))
        except OSError as error:
            raise storage_error(error, doing) from error

    def _judge(self, root: int, *, create: bool) -> None:
        """Raises OwnerError if `root` is another scope's; `create` marks one that is nobody's yet."""
        place = tree.place(os.fstat(root))
        if self.judged() == place:
            return
        self._judged = None
        if not owner.judge(root, self._name, self._where):
            if not create:
                return
            owner.mark(root, self._name, self._where)
            place = tree.place(os.fstat(root))
        self._judged = place, time.monotonic() + MARK_SECONDS

    def _changed(self, root: int) -> None:
        """It was us who changed the directory `root`, so it is still the one that was judged, for no longer.

        It raises nothing: what was written is written.
        """
        judged, self._judged = self._judged, None
        if judged is not None:
            with contextlib.suppress(OSError):
                self._judged = tree.place(os.fstat(root)), judged[1]

    def judged(self) -> tree.Place | None:
        """The directory that is known to be this scope's, as long as that holds."""
        judged = self._judged
        return judged[0] if judged is not None and judged[1] > time.monotonic() else None

    # Reading

    def get(self, path: str, start_line: int = 0, end_line: int = 0, offset: int = 0) -> reply.Reply:
        """A fragment of one document. docs/reference/wire.md, `Get`."""
        components = check_document(path)
        read.check_range(start_line, end_line, offset)
        with self._root(f"reading {path}") as root, _opened(root, components, path) as fd:
            if fd is None:
                return read.missing(path)
            read.check_readable(os.fstat(fd).st_size, path)
            data, status = tree.read_file(fd, limits.READABLE_BYTES + 1, path)
            read.check_readable(max(status.st_size, len(data)), path)
        return read.get(path, data, start_line, end_line, offset)

    def search(self, query: str, path_prefix: str = "", limit: int = 0) -> reply.Reply:
        """Documents with any keyword. docs/reference/wire.md, `Search`."""
        prefix = check_prefix(path_prefix)
        terms = parse_query(query)
        with self._index.lock, self._root("searching the memory") as root:
            if root is None:
                return search_nothing()
            answer = search(self._index, root, terms, prefix, limit or limits.SEARCH_DEFAULT)
        self._cache.used(self._index)
        return answer

    def listing(self, after: str = "", path_prefix: str = "") -> reply.Reply:
        """Paths, sizes and revisions, as many as fit. docs/reference/wire.md, `List`."""
        prefix = check_prefix(path_prefix)
        with self._index.lock, self._root("listing the memory") as root:
            answer = list_documents(self._index, root, prefix, after)
        self._cache.used(self._index)
        return answer

    def measure(self) -> tuple[int, int]:
        """Documents and bytes as the quota counts them, from a walk of its own: nothing of it is remembered."""
        with self._root("counting the memory") as root:
            if root is None:
                return 0, 0
            sizes = [one.size for one in census.take(root, None).documents.values() if one.fault != tree.NOT_REGULAR]
        return len(sizes), sum(sizes)

    def purge(self) -> bool:
        """Remove everything here for good, the scope's directory too; False if there was nothing.

        Raises OwnerError, with everything as it was, if what lies there is another scope's.
        """
        *parents, name = self._location
        with self._writing, self._index.lock:
            with self._root("removing the memory") as root:
                gone = root is not None
            if gone:
                with tree.directory(self._memory, parents, name) as (parent, depth):
                    gone = depth == len(parents) and purge.purge(parent, name, f"the memory in {self._where}")
            self._judged = None
            self._index.drop()
            self._durable.clear()
        self._cache.used(self._index)
        return gone

    # Writing

    def upsert(self, path: str, text: str, expected_revision: str) -> reply.Reply:
        """Create or replace one document, durably. docs/reference/wire.md, `Upsert`."""
        components = check_document(path)
        data = content.check(path, text)
        with self._writing, self._root(f"writing {path}", create=True) as root:
            assert root is not None
            with tree.directory(root, components[:-1], path) as (parent, depth):
                size, observed = self._observe(parent, components, depth, path)
                if observed == ABSENT or len(data) > size:
                    with self._index.lock:
                        self._index.refresh(root, (components[:-1], parent) if depth == len(components) - 1 else None)
                        if observed == ABSENT:
                            self._check_new_name(components, path)
                        _check_revision(path, expected_revision, observed)
                        check_quota(self._index, path, None if observed == ABSENT else size, len(data))
                    self._cache.used(self._index)
                else:  # no new name and nothing grows: what the other documents are does not matter
                    _check_revision(path, expected_revision, observed)
                check_free_space(root, self.free_bytes, len(data))
                self._settle(parent, components[: min(depth, len(components) - 1)], path)
                self._store(parent, components[depth:], data, path)
            self._changed(root)
        return {"path": path, "revision": read.revision_of(data)}

    def forget(self, path: str, expected_revision: str) -> reply.Reply:
        """Delete one document, durably. docs/reference/wire.md, `Forget`."""
        components = check_document(path)
        gone: reply.Reply = {"path": path, "revision": ABSENT, "already_absent": True}
        with self._writing, self._root(f"forgetting {path}") as root:
            if root is None:
                return gone
            with tree.directory(root, components[:-1], path) as (parent, depth):
                _, observed = self._observe(parent, components, depth, path)
                if observed == ABSENT:
                    return gone
                _check_revision(path, expected_revision, observed, "deleted")
                write.remove(parent, components[-1], path)
            write.prune(root, components[:-1])
            self._changed(root)
        return {"path": path, "revision": ABSENT, "already_absent": False}

    def _observe(self, parent: int, components: list[str], depth: int, path: str) -> tuple[int, str]:
        """Size and revision of what lies at the path now, from the bytes on disk."""
        if depth < len(components) - 1:
            return 0, ABSENT
        fd = tree.open_file(components[-1], parent, path)
        if fd is None:
            return 0, ABSENT
        try:
            return tree.hash_file(fd, path)
        finally:
            os.close(fd)

    def _check_new_name(self, components: list[str], path: str) -> None:
        """Raises `name_twin` or `invalid_path` where the path's new names would be taken for others."""
        names = self._index.census.names
        for depth, component in enumerate(components):
            here = "/".join(components[:depth])
            existing = names.get(here, {}).get(twin_key(component))
            if existing == component:
                continue
            if existing is not None and not self._exists(here, component):
                twin = f"{here}/{existing}" if here else existing
                raise AmuxError("name_twin", f"{path} refused: {twin} exists and differs only in form", existing=twin)
            if existing is None and depth == 0 and twin_key(component) == _ENTRY_KEY and path != limits.ENTRY_NAME:
                raise AmuxError(
                    "name_twin",
                    f"{path} refused: the name is reserved for {limits.ENTRY_NAME}",
                    existing=limits.ENTRY_NAME,
                )
            if existing is None and component != nfc(component):
                raise AmuxError(
                    "invalid_path",
                    f"{path!r} refused: a new name must be in Unicode normal form C; use {nfc(path)!r}",
                    reason="not in NFC",
                )

    def _exists(self, here: str, component: str) -> bool:
        """Whether a directory that has a twin is itself on disk: a pair that somebody else made."""
        path = f"{here}/{component}" if here else component
        return path in self._index.census.names

    def _settle(self, parent: int, directories: list[str], path: str) -> None:
        """Sync the names of the directories down to `parent`, once in a Hub's life for each that is written into.

        Whoever made them, a person or a Hub that was killed, need not have: a document in a directory whose own
        name is lost with the power is lost too.
        """
        status = os.fstat(parent)
        place = ("/".join(directories), status.st_dev, status.st_ino)
        if place in self._durable:
            return
        chain = [*self._location, *directories]
        for depth in range(len(chain)):
            with tree.directory(self._memory, chain[:depth], path) as (fd, _):
                os.fsync(fd)
        if len(self._durable) >= _DURABLE:
            self._durable.clear()
        self._durable.add(place)

    def _store(self, parent: int, names: list[str], data: bytes, path: str) -> None:
        *directories, name = names
        made = write.make_directories(parent, directories, path)
        try:
            write.replace(made[-1] if made else parent, name, data, path)
            if made:
                write.sync_parents(parent, made, path)
        except AmuxError as error:
            if error.code != "outcome_uncertain":
                write.unmake_directories(parent, directories, made)
            raise
        finally:
            for fd in made:
                os.close(fd)


@contextlib.contextmanager
def _opened(root: int | None, components: list[str], path: str) -> Iterator[int | None]:
    """A descriptor of a document, None if nothing is there."""
    if root is None:
        yield None
        return
    with tree.directory(root, components[:-1], path) as (parent, depth):
        fd = tree.open_file(components[-1], parent, path) if depth == len(components) - 1 else None
    if fd is None:
        yield None
        return
    try:
        yield fd
    finally:
        os.close(fd)


def _check_revision(path: str, expected: str, observed: str, done: str = "written") -> None:
    if expected == observed:
        return
    if observed == ABSENT:
        now = "does not exist"
    elif expected == ABSENT:
        now = "exists already"
    else:
        now = "was changed meanwhile"
    raise AmuxError(
        "conflict",
        f"{path} {now}: nothing was {done}; read it again"
        + (", merge and retry with the observed revision" if done == "written" else " before you decide"),
        path=path,
        expected_revision=expected,
        observed_revision=observed,
    )


def search_nothing() -> reply.Reply:
    """The answer of a search where nobody wrote yet: empty and complete."""
    return {
        "matches": [],
        "scanned_files": 0,
        "incomplete": False,
        "incomplete_reason": None,
        "truncated": False,
        "skipped_files": 0,
        "skipped": [],
    }
