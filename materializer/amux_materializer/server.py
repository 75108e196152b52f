"""Who may ask, one forked child a launch, the limits, and what is left of a launch when its child is gone.

Promises: this process reads nothing from a connection, calls no name service, resolves no path that a user can change,
and never blocks. Whom a launch is for is what SO_PEERCRED says of a connection that it accepted itself. Each request
leaves exactly one record, or is counted in one. A run directory that is not empty gets a waiter again and again.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import time
from collections import Counter

from amux_materializer import child, request
from amux_materializer.audit import Audit
from amux_materializer.place import Place
from amux_materializer.request import RefusedError

LAUNCHES = 1024
LAUNCHES_PER_UID = 64
"""Live ones: run directories that are there."""

NOBODY = frozenset({65534, 4294967295})
"""The overflow UID, which stands for many, user_namespaces(7), and (uid_t) -1, which stands for none, chown(2)."""

PAUSE_SECONDS = 60.0
"""The longest pause before a waiter is made anew; one that lived so long is made anew at once."""

_ACCEPT_PAUSE_SECONDS = 1.0
_PEERCRED = struct.Struct("iII")


class _Launch:
    """A run directory. `pid` is its child or waiter, 0 while none runs; `pipe` is open until its record is made."""

    def __init__(self, name: str, uid: int, gid: int) -> None:
        self.name, self.uid, self.gid = name, uid, gid
        self.pid, self.pipe = 0, -1
        self.since = 0.0
        self.pause = -1.0
        self.again = 0.0

    def ended(self) -> None:
        """Choose when the next waiter is made: at once, then after 1, 2, 4 … seconds."""
        now = time.monotonic()
        if now - self.since >= PAUSE_SECONDS:
            self.pause = -1.0
        self.pause = 0.0 if self.pause < 0 else min(PAUSE_SECONDS, max(1.0, 2 * self.pause))
        self.pid, self.again = 0, now + self.pause


class Server:
    """One for a process: it takes SIGTERM, SIGINT and SIGCHLD."""

    def __init__(self, listener: socket.socket, place: Place, archive: str, audit: Audit, uid_min: int) -> None:
        self._listener, self._place, self._archive, self._audit = listener, place, archive, audit
        self._uid_min = uid_min
        self._launches: dict[str, _Launch] = {}
        self._stopping = False
        self._accept_from = 0.0
        self._selector = selectors.DefaultSelector()
        self._wake, wake = socket.socketpair()
        self._wake.setblocking(False)
        wake.setblocking(False)
        self._selector.register(self._wake, selectors.EVENT_READ)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.detach(), warn_on_full_buffer=False)
        listener.setblocking(False)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def sweep(self) -> None:
        """Once, before `run`: whatever a process before this one left has a waiter, or is removed."""
        left, odd = self._place.found()
        for name in odd:
            self._audit.trouble(f"{self._place.path}/{name} is no run directory and was left alone: remove it")
        for one in left:
            launch = _Launch(one.name, one.uid, one.gid)
            if one.uid == 0:  # made, and not given to anybody yet
                if not self._place.remove(one.name):
                    self._audit.trouble(f"{self._place.path}/{one.name} is root's and not empty: remove it")
                continue
            self._launches[one.name] = launch

    def run(self) -> None:
        """Until SIGTERM or SIGINT; requests that are under way are still served, and launches go on without us."""
        while not self._stopping or any(launch.pipe >= 0 for launch in self._launches.values()):
            self._listen()
            self._revive()
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._wake:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                elif key.fileobj is self._listener:
                    self._accept()
                else:
                    self._record(key.data)
            self._reap()
        self._listen()

    def _listen(self) -> None:
        """While it stops, nobody new is served: what comes waits for the next process."""
        wanted = not self._stopping and time.monotonic() >= self._accept_from
        registered = self._listener.fileno() in self._selector.get_map()
        if wanted and not registered:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif registered and not wanted:
            self._selector.unregister(self._listener)

    def _patience(self) -> float | None:
        now = time.monotonic()
        moments = [launch.again for launch in self._launches.values() if not launch.pid]
        if self._accept_from > now:
            moments.append(self._accept_from)
        if (held := self._audit.flush()) is not None:
            moments.append(now + held)
        return max(0.0, min(moments) - now) if moments else None

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            self._audit.trouble(f"cannot accept connections: {error.strerror}")
            self._accept_from = time.monotonic() + _ACCEPT_PAUSE_SECONDS
            return
        with peer:
            _, uid, gid = _PEERCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
            try:
                self._may_launch(uid)
                self._launch(peer, uid, gid)
            except RefusedError as refused:
                self._audit.refused(uid, f"{refused.code}: {refused.message}")
                peer.setblocking(False)
                with contextlib.suppress(OSError):  # it may be gone; one line fits any send buffer
                    peer.sendall(request.error(refused))

    def _may_launch(self, uid: int) -> None:
        if uid < self._uid_min or uid in NOBODY:
            raise RefusedError(
                "identity_refused",
                f"UID {uid} is no person's (UID_MIN of login.defs is {self._uid_min}): use --isolation none",
            )
        live = Counter(launch.uid for launch in self._launches.values())
        if live[uid] >= LAUNCHES_PER_UID:
            raise RefusedError(
                "limit_exceeded", f"UID {uid} has {LAUNCHES_PER_UID} live launches, which is all it may have: end one"
            )
        if len(self._launches) >= LAUNCHES:
            raise RefusedError("limit_exceeded", f"this host has {LAUNCHES} live launches, which is all it may have")

    def _launch(self, peer: socket.socket, uid: int, gid: int) -> None:
        directory = writer = -1
        try:
            name, directory = self._place.make(uid, gid)
            launch = self._launches[name] = _Launch(name, uid, gid)
            launch.since = time.monotonic()
            launch.pipe, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            launch.pid = os.fork()
            if launch.pid == 0:
                task = child.Task(uid, self._path(launch), self._archive, 0)
                child.serve(task, peer.fileno(), directory, writer)
            self._selector.register(launch.pipe, selectors.EVENT_READ, launch)
        except OSError as error:  # a directory that was made is met by a waiter, as any other
            if directory >= 0 and launch.pipe >= 0:
                os.close(launch.pipe)
                launch.pipe = -1
            raise RefusedError("storage_io", f"a launch could not be begun: {error.strerror}; try again") from None
        finally:
            for fd in (directory, writer):
                if fd >= 0:
                    os.close(fd)

    def _path(self, launch: _Launch) -> str:
        return f"{self._place.path}/{launch.name}"

    def _record(self, launch: _Launch) -> None:
        """What a child said, once; it runs as a user, so that is no more than a text."""
        try:
            said = os.read(launch.pipe, child.REPORT_BYTES).decode("utf-8", "backslashreplace")
        except BlockingIOError:
            return
        self._selector.unregister(launch.pipe)
        os.close(launch.pipe)
        launch.pipe = -1
        if said == child.MADE:
            self._audit.launch(launch.uid, self._path(launch))
        else:
            self._audit.refused(launch.uid, said or "its child ended without a word")

    def _reap(self) -> None:
        running = {launch.pid: launch for launch in self._launches.values() if launch.pid}
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                if launch := running.get(pid):
                    launch.ended()
                    if launch.pipe >= 0:
                        self._record(launch)
                    self._clear(launch)

    def _clear(self, launch: _Launch) -> bool:
        if not self._place.remove(launch.name):
            return False
        del self._launches[launch.name]
        self._audit.end(launch.uid, self._path(launch))
        return True

    def _revive(self) -> None:
        """A waiter for each run directory that has none and whose pause is over."""
        if self._stopping:
            return
        now = time.monotonic()
        for launch in [one for one in self._launches.values() if not one.pid and one.again <= now]:
            if self._clear(launch):
                continue
            launch.since, directory = now, -1
            try:
                directory = self._place.open(launch.name)
                launch.pid = os.fork()
                if launch.pid == 0:
                    child.wait(launch.uid, launch.gid, directory)
            except OSError as error:
                launch.ended()
                self._audit.trouble(f"no waiter for {self._path(launch)}: {error.strerror}")
            finally:
                if directory >= 0:
                    os.close(directory)
