"""The memory root: one Hub owns it, and a lock proves it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import threading

from amux.errors import AmuxError
from amux_hub.store import purge, tree, write
from amux_hub.store.cache import Cache
from amux_hub.store.faults import storage_error
from amux_hub.store.owner import PRINCIPAL
from amux_hub.store.ready import Ready
from amux_hub.store.reply import Reply
from amux_hub.store.scope import Scope
from amux_hub.store.watch import Watcher

_LOCK = ".amux-lock"
GLOBAL = "global"
USERS = "users"


def scope_location(scope: str) -> list[str]:
    """Directories of a scope below the memory root: `global`, or `users/<sha256(principal-id)>`."""
    if scope == GLOBAL:
        return [GLOBAL]
    if not scope.startswith(PRINCIPAL) or scope == PRINCIPAL:
        raise ValueError(f"not a scope: {scope!r}")
    return [USERS, hashlib.sha256(scope.removeprefix(PRINCIPAL).encode()).hexdigest()]


def _say_who(fd: int) -> None:
    """Write our pid into the lock, for messages alone: a full disk must not keep a Hub from starting."""
    pid = b"%d\n" % os.getpid()
    try:
        # In this order, because the bytes that are there need no new room.
        os.pwrite(fd, pid, 0)
        os.ftruncate(fd, len(pid))
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)


class Store:
    """The documents below `<home>/memory`. Open for the life of a Hub.

    `home` exists and is 0700. `cache_bytes` bounds what all scopes hold in memory; `free_bytes` is what writes
    leave free on the disk. Raises `busy` with the holder's pid if another Hub has the lock. Sets the process's
    umask to 077: no mode of the store depends on how the Hub was started.
    """

    def __init__(self, home: str, cache_bytes: int, free_bytes: int) -> None:
        os.umask(0o077)
        fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._memory = tree.make_root("memory", fd)
        finally:
            os.close(fd)
        try:
            self._lock = self._take_lock(home)
            try:
                self.swept = write.sweep(self._memory) + self._finish_purges()
            except OSError as error:
                os.close(self._lock)
                raise storage_error(error, "looking for temporary files") from error
        except BaseException:
            os.close(self._memory)
            raise
        self.cache = Cache(cache_bytes)
        self.free_bytes = free_bytes
        self._watcher = Watcher()
        self._ready = Ready(self._memory)
        self._scopes: dict[str, Scope] = {}
        self._guard = threading.Lock()

    def _take_lock(self, home: str) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(_LOCK, flags, 0o600, dir_fd=self._memory)
        except OSError as error:
            raise storage_error(error, f"taking the lock {home}/memory/{_LOCK}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise storage_error(error, f"locking {home}/memory/{_LOCK}") from error
            raise AmuxError(
                "busy",
                f"{home} is served by another Hub, pid {holder or 'unknown'}; use it, or stop it first",
                holder=holder,
            ) from None
        _say_who(fd)
        return fd

    def _finish_purges(self) -> int:
        with tree.directory(self._memory, [USERS], USERS) as (users, depth):
            return purge.finish(users) if depth == 1 else 0

    def set_limits(self, cache_bytes: int, free_bytes: int) -> None:
        """Change both limits while in use; a smaller cache shrinks with the next search."""
        with self._guard:
            self.cache.capacity = cache_bytes
            self.free_bytes = free_bytes
            for scope in self._scopes.values():
                scope.free_bytes = free_bytes

    def scope(self, scope: str) -> Scope:
        """The scope `global` or `principal:<id>`. Nothing is made on disk before the first write."""
        with self._guard:
            found = self._scopes.get(scope)
            if found is None:
                location = scope_location(scope)
                found = Scope(self._memory, scope, location, self._watcher, self.cache, self.free_bytes)
                self._scopes[scope] = found
            return found

    def ready(self, scope: str, path: str, start_line: int, end_line: int, offset: int) -> Reply | None:
        """The answer of `Scope.get` if it can be had without waiting, for the loop; else None, for a thread."""
        found = self._scopes.get(scope)
        place = None if found is None else found.judged()
        if place is None:
            return None
        return self._ready.get(scope_location(scope), place, path, start_line, end_line, offset)

    def settle(self) -> None:
        """Call from a thread after each operation: what it left to do, and nobody waits for."""
        self._ready.settle()
        if self._watcher.available:
            self._watcher.drain()  # what we do ourselves are events too: do not let them fill the queue

    def close(self) -> None:
        """Give up the lock. Nothing may be running."""
        self._ready.settle()
        self._watcher.close()
        os.close(self._lock)
        os.close(self._memory)
