"""The directory of launch states, and all of them in memory. Writing is durable, reading trusts nothing.

A file that is no launch state of ours is left where it is and said once in the log: it costs its own conversation
the resuming and nobody else anything. All of this blocks: call it in a thread. Thread-safe. The Hub that holds the
root lock is the only writer.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading

from amux import limits
from amux.errors import AmuxError
from amux_hub.sessions import record
from amux_hub.sessions.record import Session
from amux_hub.store import tree, write
from amux_hub.store.faults import storage_error

_log = logging.getLogger(__name__)
DIRECTORY = "sessions"


class Files:
    """`<home>/sessions`, 0700. Nothing is read before the first call: a Hub that no launch asks starts as fast."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._lock = threading.Lock()
        self._directory: int | None = None
        self._owned: dict[str, dict[str, Session]] = {}
        """By principal, then by id, the one that was used longest ago first."""

    def close(self) -> None:
        with self._lock:
            if self._directory is not None:
                os.close(self._directory)
                self._directory = None

    def get(self, principal: str, session_id: str) -> Session | None:
        """None for one that is somebody else's too."""
        with self._lock:
            self._opened()
            return self._owned.get(principal, {}).get(session_id)

    def of(self, principal: str) -> list[Session]:
        """All of one principal, by id."""
        with self._lock:
            self._opened()
            owned = self._owned.get(principal, {})
            return [owned[session_id] for session_id in sorted(owned)]

    def put(self, session: Session) -> None:
        """Durable before it counts, and now the one used last. Beyond the limit the one used longest ago goes.

        Raises storage errors with what was before in force.
        """
        with self._lock:
            directory = self._opened()
            write.replace(directory, session.id + record.SUFFIX, record.encode(session), _path(session.id))
            self._enter(session)
            self._trim(directory, session.principal)

    def remove(self, session: Session) -> None:
        with self._lock:
            directory = self._opened()
            write.remove(directory, session.id + record.SUFFIX, _path(session.id))
            self._leave(session.principal, session.id)

    def _enter(self, session: Session) -> None:
        owned = self._owned.setdefault(session.principal, {})
        owned.pop(session.id, None)
        owned[session.id] = session

    def _leave(self, principal: str, session_id: str) -> None:
        owned = self._owned[principal]
        del owned[session_id]
        if not owned:
            del self._owned[principal]

    def _trim(self, directory: int, principal: str) -> None:
        while len(owned := self._owned.get(principal, {})) > limits.SESSIONS:
            oldest = next(iter(owned))
            with contextlib.suppress(AmuxError):  # it goes the next time: the next start finds it again
                write.remove(directory, oldest + record.SUFFIX, _path(oldest))
            self._leave(principal, oldest)

    def _opened(self) -> int:
        """The directory; all that is in it is in memory. Raises storage errors, `unsafe_file`."""
        if self._directory is None:
            try:
                self._directory = self._open()
            except OSError as error:
                raise storage_error(error, f"reading the directory {DIRECTORY}") from error
        return self._directory

    def _open(self) -> int:
        home = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            directory = tree.make_root(DIRECTORY, home)
        finally:
            os.close(home)
        try:
            self._load(directory)
        except BaseException:
            os.close(directory)
            raise
        return directory

    def _load(self, directory: int) -> None:
        write.sweep(directory, 0)
        found: list[Session] = []
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            try:
                found.append(_read(name, directory))
            except (AmuxError, ValueError, OSError) as error:
                _log.warning("%s/%.80s is no launch state and is not used: %.120s", DIRECTORY, ascii(name), error)
        self._owned.clear()
        for session in sorted(found, key=lambda one: (one.last_used, one.id)):
            self._enter(session)
        for principal in list(self._owned):
            self._trim(directory, principal)


def _path(session_id: str) -> str:
    return f"{DIRECTORY}/{session_id}{record.SUFFIX}"


def _read(name: str, directory: int) -> Session:
    path = f"{DIRECTORY}/{name}"
    fd = tree.open_file(name, directory, path)
    if fd is None:
        raise ValueError("it vanished")
    try:
        data, _ = tree.read_file(fd, record.RECORD_BYTES + 1, path)
    finally:
        os.close(fd)
    return record.parse(data, name)
