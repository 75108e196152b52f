"""One walk over a scope: which documents there are, as directory entries and stats tell, no content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import tree
from amux_hub.store.paths import SUFFIX, name_fault, printable, twin_key

Watch = Callable[[int], int | None]
"""Watches the directory of a descriptor; answers the watch descriptor, or None if there can be no more."""


class Document:
    """A regular `.md` file as last seen, and what the cache holds of its content.

    `fault` says why it is skipped (search) or refused (everything else). `key` is the match key of path and
    content joined by a line end, which no keyword contains: one find covers both.
    """

    __slots__ = ("body", "components", "fault", "key", "path", "racy", "revision", "sig", "size", "title")

    def __init__(self, path: str, components: list[str], status: os.stat_result) -> None:
        self.path = path
        self.components = components
        self.look(status)

    def look(self, status: os.stat_result) -> None:
        """Take over what a new look at the file says; its content is unknown again."""
        self.sig = tree.signature(status)
        self.size = status.st_size
        self.fault = tree.file_fault(status)
        self.forget_content()

    def forget_content(self) -> None:
        self.key: bytes | None = None
        self.body = 0
        """Where the content begins in `key`."""
        self.title = b""
        self.revision: str | None = None
        self.racy = False

    @property
    def path_key(self) -> bytes:
        return (self.key or b"")[: max(self.body - 1, 0)]

    @property
    def cost(self) -> int:
        """Bytes of the cache that this document's content takes."""
        return 0 if self.key is None else len(self.key) + len(self.title) + 200


class Census:
    """What one walk found. `complete` is False when it stopped at 8,192 directory entries."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.directories: dict[int, list[str]] = {}
        self.names: dict[str, dict[str, str]] = {}
        """Directory path → twin key → a name that has it."""
        self.skipped: list[tuple[str, str]] = []
        """Directories that could not be entered and names that are no path, with the reason."""
        self.entries = 0
        self.complete = True
        self.watched = True


def _path(components: list[str]) -> str:
    return "/".join(components)


def _shown(name: str) -> str:
    return printable(name.encode(errors="surrogateescape").decode(errors="backslashreplace"))


def classify(path: str, components: list[str], status: os.stat_result) -> Document | None:
    """The document that a `.md` name's status makes, or None for a link or a directory."""
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    return Document(path, components, status)


def take(
    root: int,
    prefix: list[str],
    watch: Watch | None,
    budget: int = limits.SCAN_ENTRIES,
) -> Census:
    """Walk the directory `prefix` below `root` in byte order of the paths.

    `watch` is called with each directory's descriptor before it is listed, so that a change is either in the
    list or in the queue; it answers a watch descriptor. `budget` bounds the directory entries looked at.
    """
    census = Census()
    with tree.directory(root, prefix, _path(prefix)) as (fd, depth):
        if depth == len(prefix):
            _Walk(census, watch, budget).into(fd, prefix)
    return census


class _Walk:
    """The state of one walk: what it found, and what it may still look at."""

    def __init__(self, census: Census, watch: Watch | None, budget: int) -> None:
        self.census = census
        self.watch = watch
        self.budget = budget

    def into(self, fd: int, components: list[str]) -> None:
        census = self.census
        if self.watch is not None:
            wd = self.watch(fd)
            if wd is None:
                census.watched = False
            else:
                census.directories[wd] = components
        found: list[tuple[bytes, str, os.stat_result | None]] = []
        names = census.names.setdefault(_path(components), {})
        with os.scandir(fd) as listing:
            for entry in listing:
                census.entries += 1
                if census.entries > self.budget:
                    census.complete = False
                    break
                if not entry.name.startswith("."):
                    self.note(entry, components, names, found)
        found.sort()
        for _, name, status in found:
            child = [*components, name]
            if status is not None:
                if (document := classify(_path(child), child, status)) is not None:
                    census.documents[document.path] = document
            elif len(child) < limits.PATH_DEPTH and census.complete:
                self.descend(fd, name, child)

    def note(
        self,
        entry: os.DirEntry[str],
        components: list[str],
        names: dict[str, str],
        found: list[tuple[bytes, str, os.stat_result | None]],
    ) -> None:
        name = entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not name.endswith(SUFFIX):
            return
        if (fault := name_fault(name, last=not is_directory)) is not None:
            self.census.skipped.append((_shown(_path([*components, name])), fault))
            return
        names.setdefault(twin_key(name), name)
        if is_directory:
            found.append((name.encode() + b"/", name, None))
            return
        try:
            found.append((name.encode(), name, entry.stat(follow_symlinks=False)))
        except FileNotFoundError:
            pass  # gone since it was listed
        except OSError:
            self.census.skipped.append((_path([*components, name]), tree.UNREADABLE))

    def descend(self, parent: int, name: str, child: list[str]) -> None:
        try:
            fd = tree.open_directory(name, parent, _path(child))
        except AmuxError as error:
            self.census.skipped.append((_path(child), str(error.details.get("reason", error.message))))
            return
        if fd is None:
            return
        try:
            self.into(fd, child)
        finally:
            os.close(fd)
