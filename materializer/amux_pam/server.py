"""Who may ask, one question a connection, one forked child a verdict, and every limit.

Promises: this process calls neither PAM nor the name service and never blocks; only `peers` are answered, by
SO_PEERCRED of connections that it accepted itself; a verdict is given by a child that ended well in time, and by
nothing else; at most `AT_ONCE` run, each at most `seconds`, and nothing that a module started outlives them.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import socket
import struct
import time
from collections.abc import Callable, Collection

from amux_pam import child
from amux_pam.audit import Audit
from amux_pam.judge import UNAVAILABLE, Verdict

AT_ONCE = 16
CONNECTIONS = 64
"""Open ones; further ones wait in the backlog."""

REQUEST_BYTES = 11
REQUEST_SECONDS = 2.0
VERDICT_SECONDS = 10.0
UID_MAXIMUM = 4294967294
"""4294967295 is (uid_t) -1, which names nobody, chown(2)."""

_REQUEST = re.compile(rb"(0|[1-9][0-9]{0,9})\n")
_PEERCRED = struct.Struct("iII")
_PAUSE_SECONDS = 1.0


def parse(request: bytes) -> int | None:
    """The UID of a whole request, None for anything that is none: no sign, blank, leading zero or rest."""
    found = _REQUEST.fullmatch(request)
    return int(found[1]) if found and int(found[1]) <= UID_MAXIMUM else None


class _Question:
    """A connection whose request is not whole yet."""

    def __init__(self, peer: socket.socket, uid: int, deadline: float) -> None:
        self.peer, self.uid, self.deadline = peer, uid, deadline
        self.request = b""


class _Running:
    """A child, the UID that it judges, and the connection that waits for it: None once its time ran out."""

    def __init__(self, peer: socket.socket, uid: int, pipe: int, deadline: float) -> None:
        self.uid, self.pipe, self.deadline = uid, pipe, deadline
        self.peer: socket.socket | None = peer


class Server:
    """`judge` runs in the children. One for a process: it takes SIGTERM, SIGINT and SIGCHLD."""

    def __init__(
        self,
        listener: socket.socket,
        peers: Collection[int],
        judge: Callable[[int], Verdict],
        audit: Audit,
        seconds: float = VERDICT_SECONDS,
    ) -> None:
        self._listener, self._peers, self._judge, self._audit = listener, frozenset(peers), judge, audit
        self._seconds = seconds
        self._pid = os.getpid()
        self._questions: dict[int, _Question] = {}
        self._running: dict[int, _Running] = {}
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
        child.adopt_orphans()
        listener.setblocking(False)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def run(self) -> None:
        """Until SIGTERM or SIGINT; verdicts that run then are still given."""
        while not self._stopping or any(running.peer for running in self._running.values()):
            self._listen()
            for key, _ in self._selector.select(self._patience()):
                if key.fileobj is self._wake:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.fd in self._questions:
                    self._read(self._questions[key.fd])
            self._reap()
            self._expire()
        self._listen()

    def _listen(self) -> None:
        """New connections are taken while there is room for them; while it stops, nobody new is served."""
        room = len(self._questions) + len(self._running) < CONNECTIONS and time.monotonic() >= self._accept_from
        wanted = room and not self._stopping
        registered = self._listener.fileno() in self._selector.get_map()
        if wanted and not registered:
            self._selector.register(self._listener, selectors.EVENT_READ)
        elif registered and not wanted:
            self._selector.unregister(self._listener)
        if self._stopping:
            for question in list(self._questions.values()):
                self._answer(self._release(question), UNAVAILABLE)

    def _patience(self) -> float | None:
        deadlines = [question.deadline for question in self._questions.values()]
        deadlines += [running.deadline for running in self._running.values() if running.peer]
        if self._accept_from > time.monotonic():
            deadlines.append(self._accept_from)
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:
            self._audit.trouble(f"cannot accept connections: {error.strerror}")
            self._accept_from = time.monotonic() + _PAUSE_SECONDS
            return
        peer.setblocking(False)
        _, uid, _ = _PEERCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEERCRED.size))
        if uid not in self._peers:
            self._audit.refused(uid, "only the Hub's account and root are answered")
            peer.close()
            return
        question = _Question(peer, uid, time.monotonic() + REQUEST_SECONDS)
        self._questions[peer.fileno()] = question
        self._selector.register(peer, selectors.EVENT_READ)

    def _read(self, question: _Question) -> None:
        try:
            more = question.peer.recv(REQUEST_BYTES + 1 - len(question.request))
        except BlockingIOError:
            return
        except OSError:
            more = b""
        question.request += more
        whole = b"\n" in question.request or len(question.request) > REQUEST_BYTES
        if more and not whole:
            return
        peer = self._release(question)
        uid = parse(question.request)
        if uid is None:
            if question.request:
                self._audit.refused(question.uid, "the request is no UID and a line feed")
            peer.close()
        elif len(self._running) >= AT_ONCE:
            self._conclude(peer, uid, Verdict(UNAVAILABLE, f"{AT_ONCE} verdicts run already"))
        else:
            self._fork(peer, uid)

    def _release(self, question: _Question) -> socket.socket:
        del self._questions[question.peer.fileno()]
        self._selector.unregister(question.peer)
        return question.peer

    def _fork(self, peer: socket.socket, uid: int) -> None:
        pipe = writer = -1
        try:
            pipe, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            pid = os.fork()
        except OSError as error:
            for fd in (pipe, writer):
                if fd >= 0:
                    os.close(fd)
            self._conclude(peer, uid, Verdict(UNAVAILABLE, f"cannot fork: {error.strerror}"))
            return
        if pid == 0:
            child.run(self._judge, uid, writer, self._pid)
        os.close(writer)
        self._running[pid] = _Running(peer, uid, pipe, time.monotonic() + self._seconds)

    def _reap(self) -> None:
        """Every child that ended. One that left processes behind has them killed: by now they are ours."""
        ended = False
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0] != 0:
                ended = True
                if running := self._running.pop(found[0], None):
                    self._finish(running, found[1])
        if ended:
            self._kill_strays()

    def _finish(self, running: _Running, status: int) -> None:
        message = b""
        with contextlib.suppress(BlockingIOError):
            message = os.read(running.pipe, child.MESSAGE_BYTES)
        os.close(running.pipe)
        if running.peer:
            self._conclude(running.peer, running.uid, child.decode(message, status))

    def _kill_strays(self) -> None:
        """proc_pid_task(5). A kernel without CONFIG_PROC_CHILDREN keeps them: TasksMax= of the unit bounds that."""
        with (
            contextlib.suppress(FileNotFoundError),
            open(f"/proc/self/task/{self._pid}/children", encoding="ascii") as file,
        ):
            for pid in map(int, file.read().split()):
                if pid not in self._running:
                    os.kill(pid, signal.SIGKILL)

    def _expire(self) -> None:
        now = time.monotonic()
        for pid, running in self._running.items():
            if running.peer and running.deadline <= now:
                # Answered now: one that hangs in the kernel dies later, and holds its place among AT_ONCE until then.
                os.kill(pid, signal.SIGKILL)
                self._conclude(running.peer, running.uid, Verdict(UNAVAILABLE, f"no verdict in {self._seconds:g} s"))
                running.peer = None
        for question in [one for one in self._questions.values() if one.deadline <= now]:
            self._audit.refused(question.uid, f"no request within {REQUEST_SECONDS:g} s")
            self._release(question).close()

    def _conclude(self, peer: socket.socket, uid: int, verdict: Verdict) -> None:
        self._audit.verdict(uid, verdict.word, verdict.name, verdict.detail)
        self._answer(peer, verdict.word)

    def _answer(self, peer: socket.socket, word: str) -> None:
        """The peer may be gone; an answer fits any send buffer."""
        with contextlib.suppress(OSError):
            peer.sendall(word.encode("ascii") + b"\n")
        peer.close()
