"""The child of one launch: what it gives up, whom it becomes, and only then what it reads and writes.

Promises: it holds no descriptor but the caller's connection, the caller's run directory and a pipe for one record; its
environment is empty; it becomes the caller before it reads a byte of the request; it executes nothing and has no
children; and it ends through _exit(2), whatever happens. Root cannot end it (that takes CAP_KILL), so it ends itself
in time, by alarm(2).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import resource
import signal
import socket
import stat
from typing import NamedTuple, NoReturn

from amux_materializer import become, request, waiter
from amux_materializer.request import Reader, RefusedError

ARCHIVE = "amux.pyz"
FOLDERS = ("agent-config", "memory")
"""One in the other."""

HUB = "/run/amux/hub.sock"
LOCK = "lock"
MADE = "made"
MAX_FD = 0x7FFFFFFF
LINE_SECONDS = 5.0
ALARM_SECONDS = 20
"""Two lines of 5 s, a name service that is slow, and the copy."""

ARCHIVE_BYTES = 16 * 1024 * 1024
REPORT_BYTES = 512

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_FSIZE, ARCHIVE_BYTES),
    (resource.RLIMIT_NOFILE, 32),
    (resource.RLIMIT_NPROC, 0),
    (resource.RLIMIT_CPU, 300),  # a million files to remove
    (resource.RLIMIT_AS, 1 << 30),
)


class Task(NamedTuple):
    """What the resident process hands to a child: no word of the caller's."""

    uid: int
    run: str
    """The path of the run directory, for the answer."""

    archive: str
    """The path of amux.pyz, root's."""

    owner: int
    """Whose it must be."""


def serve(task: Task, peer: int, directory: int, pipe: int) -> NoReturn:
    """From a connection to the end of the launch. Status 0: the directory is empty."""
    status = 1
    try:
        signal.alarm(ALARM_SECONDS)
        connection = socket.socket(fileno=peer)
        try:
            who = _account(task.uid)  # as root: the name service may know more to it
            peer, directory, pipe = confine(connection.detach(), directory, pipe)
            connection = socket.socket(fileno=peer)
            become.become(who)
            lock = _begin(task, connection, directory, pipe)
        except RefusedError as refused:
            _refuse(connection, pipe, refused)
            lock = None
        except OSError as error:
            _refuse(connection, pipe, RefusedError(*_failure(error)))
            lock = None
        connection.close()
        os.close(pipe)
        signal.alarm(0)
        if os.geteuid() != 0:  # who is still root has made nothing
            status = waiter.wait_and_empty(directory, lock)
    except Exception as error:  # noqa: BLE001 - above all BecomeError: no way on but the end
        _report(pipe, f"internal: {type(error).__name__}: {error}")
    finally:
        os._exit(status)


def wait(uid: int, gid: int, directory: int) -> NoReturn:
    """A new waiter for a launch. It needs no groups: what it removes lies in directories of the UID's."""
    status = 1
    try:
        (directory,) = confine(directory)
        become.become(become.Identity(uid, gid, []))
        status = waiter.wait_and_empty(directory, waiter.open_lock(directory, LOCK))
    finally:
        os._exit(status)


def confine(*kept: int) -> list[int]:
    """Standard streams to nowhere, `kept` as 3 and following, nothing else; signals, limits, mask, place and
    environment each set. All but what takes the UID's change."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    safe = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3 + len(kept)) for fd in kept]  # out of the way of what follows
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    placed = [os.dup2(fd, 3 + index, inheritable=False) for index, fd in enumerate(safe)]
    os.closerange(3 + len(kept), MAX_FD)
    for kind, most in _LIMITS:
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))
    _ordinary()
    os.umask(0o077)
    os.chdir("/")
    os.environ.clear()
    return placed


def _ordinary() -> None:
    """As urgent and as killable as any process: what the unit says is for the resident one. Without the capabilities
    that it takes to become more of either, this process stays less."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)
    with contextlib.suppress(PermissionError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write("0")


def _account(uid: int) -> become.Identity:
    try:
        who = become.account(uid)
    except OSError as error:
        raise RefusedError(
            "identity_unavailable", f"the groups of UID {uid} cannot be read ({error.strerror}): try again"
        ) from None
    if who is None:
        raise RefusedError("identity_refused", f"no account of this host has UID {uid}: ask the administrator")
    return who


def _begin(task: Task, peer: socket.socket, directory: int, pipe: int) -> int:
    """The conversation, up to its last word; the descriptor of the lock file, not locked. Raises `RefusedError`."""
    reader = Reader(peer)
    wanted = request.parse(reader.line(LINE_SECONDS))
    lock = _materialize(task, wanted, directory)
    _send(peer, request.say({"run": task.run}))
    if not request.is_locked(reader.line(LINE_SECONDS)):
        raise RefusedError("protocol_error", 'the second line is not {"locked":true}')
    if waiter.take(lock, block=False):
        raise RefusedError("protocol_error", "the lock is free, though the client said that it holds it")
    _send(peer, request.say({"ok": True}))
    _report(pipe, MADE)
    return lock


def _materialize(task: Task, wanted: request.Request, directory: int) -> int:
    """Everything of the launch, as the caller, below the caller's own directory; the lock file's descriptor."""
    memory = directory
    for folder in FOLDERS:
        os.mkdir(folder, 0o700, dir_fd=memory)
        above, memory = memory, os.open(folder, _FOLDER, dir_fd=memory)
        if above != directory:
            os.close(above)
    _copy(task, memory)
    connection = os.open("connection.json", _NEW, 0o600, dir_fd=memory)
    os.write(connection, request.connection(wanted, HUB))
    os.close(connection)
    os.close(memory)
    return os.open(LOCK, _NEW, 0o600, dir_fd=directory)


def open_archive(path: str, owner: int) -> int:
    """The archive, which only `owner` can change. Raises `RefusedError`, OSError."""
    source = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(source)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != owner or found.st_mode & 0o022:
        os.close(source)
        raise RefusedError("unsafe_file", f"{path} is no file that root alone can write: reinstall amux-hub")
    return source


def _copy(task: Task, memory: int) -> None:
    source = open_archive(task.archive, task.owner)
    target = os.open(ARCHIVE, _NEW, 0o600, dir_fd=memory)
    left = os.fstat(source).st_size
    while left > 0:
        sent = os.sendfile(target, source, None, left)
        if sent == 0:
            raise RefusedError("storage_io", f"{task.archive} became shorter while it was copied: try again")
        left -= sent
    os.close(target)
    os.close(source)


def _failure(error: OSError) -> tuple[str, str]:
    code = "storage_full" if error.errno in (28, 122) else "storage_io"
    return code, f"the run directory could not be filled: {error.strerror}"


def _send(peer: socket.socket, line: bytes) -> None:
    peer.settimeout(LINE_SECONDS)
    try:
        peer.sendall(line)
    except OSError as error:
        raise RefusedError("protocol_error", f"the client took no answer: {error}") from None


def _refuse(peer: socket.socket, pipe: int, refused: RefusedError) -> None:
    """The client may be gone; the record is made all the same."""
    _report(pipe, f"{refused.code}: {refused.message}")
    with contextlib.suppress(OSError):
        peer.settimeout(LINE_SECONDS)
        peer.sendall(request.error(refused))


def _report(pipe: int, text: str) -> None:
    """Below PIPE_BUF, pipe(7): one write, never in part."""
    with contextlib.suppress(OSError):
        os.write(pipe, text.encode("utf-8", "backslashreplace")[:REPORT_BYTES])
