"""One walk over a scope: which documents there are, as directory entries and stats tell, no content."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import tree
from amux_hub.store.faults import storage_error
from amux_hub.store.owner import MARK
from amux_hub.store.paths import SUFFIX, entry_fault, printable, twin_key

Watch = Callable[[int], int | None]
"""Watches the directory of a descriptor; answers the watch descriptor, or None if there can be no more."""


class Document:
    """A regular `.md` file as last seen, and what the cache holds of its content.

    `fault` says why it is skipped (search) or refused (everything else). `key` is the match key of path and
    content joined by a line end, which no keyword contains: one find covers both.
    """

    __slots__ = ("body", "components", "fault", "key", "names", "path", "racy", "revision", "sig", "size")

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
        self.names = b""
        """The match keys of path and title, one on a line each."""
        self.revision: str | None = None
        self.racy = False

    @property
    def cost(self) -> int:
        """Bytes of the cache that this document's content takes."""
        return 0 if self.key is None else len(self.key) + len(self.names) + 200


class Census:
    """What one walk found. `complete` is False when it stopped at 8,192 directory entries."""

    def __init__(self) -> None:
        self.documents: dict[str, Document] = {}
        self.directories: dict[int, list[str]] = {}
        self.names: dict[str, dict[str, str]] = {}
        """Directory path → twin key → a name that has it."""
        self._twins: dict[tuple[str, str], set[str]] = {}
        """Directory path and twin key → further names, which another program made."""
        self.skipped: list[tuple[str, str]] = []
        """Directories that could not be entered and names that are no path, with the reason."""
        self.entries = 0
        self.complete = True
        self.watched = True


    def name(self, directory: str, name: str) -> None:
        """`name` is in `directory`. Safe to repeat."""
        key = twin_key(name)
        first = self.names.setdefault(directory, {}).setdefault(key, name)
        if first != name:
            self._twins.setdefault((directory, key), set()).add(name)

    def unname(self, directory: str, name: str) -> None:
        """`name` is in `directory` no more; a twin of it keeps the key. Safe to repeat."""
        key = twin_key(name)
        names = self.names.get(directory, {})
        twins = self._twins.get((directory, key), set())
        twins.discard(name)
        if names.get(key) == name:
            del names[key]
            if twins:
                names[key] = min(twins)
                twins.discard(names[key])


def _path(components: list[str]) -> str:
    return "/".join(components)


def _shown(name: str) -> str:
    return printable(name.encode(errors="surrogateescape").decode(errors="backslashreplace"))


def classify(path: str, components: list[str], status: os.stat_result) -> Document | None:
    """The document that a `.md` name's status makes, or None for a link or a directory."""
    if stat.S_ISLNK(status.st_mode) or stat.S_ISDIR(status.st_mode):
        return None
    return Document(path, components, status)


def take(root: int, watch: Watch | None) -> Census:
    """Walk the directory `root` in byte order of the paths, at most 8,192 directory entries.

    `watch` is called with each directory's descriptor before it is listed, so that a change is either in the
    list or in the queue. Raises storage_io if the root cannot be listed.
    """
    census = Census()
    try:
        _Walk(census, watch).into(root, [])
    except OSError as error:
        raise storage_error(error, "listing the memory") from error
    return census


def below(root: int, prefix: list[str]) -> Census:
    """What lies at or below `prefix` alone, a directory or one document, for a scope too large for one walk.

    Links on the way lead nowhere, as in a walk from the top.
    """
    census = Census()
    try:
        with tree.directory(root, prefix[:-1], _path(prefix)) as (parent, depth):
            if depth == len(prefix) - 1:
                _Walk(census, None).one(parent, prefix)
    except FileNotFoundError:
        pass
    except AmuxError as error:
        if error.code != "unsafe_file":
            raise
    except OSError as error:
        raise storage_error(error, "listing the memory") from error
    return census


class _Walk:
    """The state of one walk: what it found, and what it may still look at."""

    def __init__(self, census: Census, watch: Watch | None) -> None:
        self.census = census
        self.watch = watch

    def one(self, parent: int, child: list[str]) -> None:
        """The entry `child`, named in `parent`."""
        name = child[-1]
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            if entry_fault(child, directory=True) is None:
                self.descend(parent, name, child)
        elif name.endswith(SUFFIX):
            self.document(child, status)

    def document(self, child: list[str], status: os.stat_result) -> None:
        if (document := classify(_path(child), child, status)) is not None:
            self.census.documents[document.path] = document

    def into(self, fd: int, components: list[str]) -> None:
        census = self.census
        if self.watch is not None and census.watched:
            wd = self.watch(fd)
            if wd is None:
                census.watched = False
            else:
                census.directories[wd] = components
        found: list[tuple[bytes, str, os.stat_result | None]] = []
        directory = _path(components)
        census.names.setdefault(directory, {})
        with os.scandir(fd) as listing:
            for entry in listing:
                if entry.name == MARK:
                    continue  # ours: it takes nothing of what a person may have
                census.entries += 1
                if census.entries > limits.SCAN_ENTRIES:
                    census.complete = False
                    break
                if not entry.name.startswith("."):
                    self.note(entry, directory, components, found)
        found.sort()
        for _, name, status in found:
            child = [*components, name]
            if status is not None:
                self.document(child, status)
            elif census.complete:
                self.descend(fd, name, child)

    def note(
        self,
        entry: os.DirEntry[str],
        directory: str,
        components: list[str],
        found: list[tuple[bytes, str, os.stat_result | None]],
    ) -> None:
        name = entry.name
        is_directory = entry.is_dir(follow_symlinks=False)
        if not is_directory and not name.endswith(SUFFIX):
            return
        child = [*components, name]
        if (fault := entry_fault(child, directory=is_directory)) is not None:
            self.census.skipped.append((_shown(_path(child)), fault))
            return
        self.census.name(directory, name)
        if is_directory:
            found.append((name.encode() + b"/", name, None))
            return
        try:
            found.append((name.encode(), name, entry.stat(follow_symlinks=False)))
        except FileNotFoundError:
            pass  # gone since it was listed
        except OSError:
            self.census.skipped.append((_path(child), tree.UNREADABLE))

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
        except OSError:
            self.census.skipped.append((_path(child), tree.UNREADABLE))
        finally:
            os.close(fd)
