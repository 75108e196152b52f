"""Listening sockets: those the service manager passes, by name, and our own for the rest.

Promises: a socket that was given is never bound, unlinked or chmodded; one of ours is 0600 in a directory of
0700, replaces only what a dead Hub left, and is removed at exit if it is still ours. The variables of
sd_listen_fds(3) leave the environment.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass

from amux.errors import AmuxError
from amux_hub.home import private_directory

NAMES = ("hub", "mcp", "admin")
BACKLOG = 512
FIRST_FD = 3
PATH_BYTES = 107
"""The longest path that fits sun_path with its terminator, unix(7)."""


@dataclass
class Listening:
    """One listening socket. `path` is where it was bound, `ours` the (device, inode) if we bound it."""

    name: str
    socket: socket.socket
    path: str
    ours: tuple[int, int] | None

    def close(self) -> None:
        """Close our descriptor, and remove the name if it is still that of our socket."""
        self.socket.close()
        if self.ours is None:
            return
        with contextlib.suppress(OSError):
            status = os.lstat(self.path)
            if (status.st_dev, status.st_ino) == self.ours:
                os.unlink(self.path)


def given(env: MutableMapping[str, str] = os.environ) -> dict[str, Listening]:
    """The sockets that were passed to this process, by name. Raises `invalid_argument` for any other kind."""
    pid, count = env.pop("LISTEN_PID", ""), env.pop("LISTEN_FDS", "")
    names = env.pop("LISTEN_FDNAMES", "").split(":")
    env.pop("LISTEN_PIDFDID", None)
    if pid != str(os.getpid()) or not count.isdecimal():
        return {}
    found: dict[str, Listening] = {}
    for index in range(int(count)):
        fd = FIRST_FD + index
        name = names[index] if index < len(names) else ""
        try:
            fcntl.fcntl(fd, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
        except OSError as error:
            raise _unfit(fd, name, f"it is not open ({error.strerror}), and LISTEN_FDS is {count[:20]}") from error
        if name not in NAMES:
            raise _unfit(fd, name, f"its name is not one of {', '.join(NAMES)}: set FileDescriptorName=")
        if name in found:
            raise _unfit(fd, name, "the name came twice: use one socket unit for each socket")
        found[name] = Listening(name, _checked(fd, name), "", None)
        address = found[name].socket.getsockname()
        found[name].path = address if isinstance(address, str) else ""
    return found


def _checked(fd: int, name: str) -> socket.socket:
    try:
        passed = socket.socket(fileno=fd)
    except OSError as error:
        raise _unfit(fd, name, f"it is no socket ({error.strerror})") from error
    if passed.family != socket.AF_UNIX or passed.type != socket.SOCK_STREAM:
        raise _unfit(fd, name, "it is no Unix stream socket: use ListenStream= with a path")
    if not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise _unfit(fd, name, "it does not listen: use Accept=no")
    return passed


def _unfit(fd: int, name: str, why: str) -> AmuxError:
    return AmuxError(
        "invalid_argument", f"descriptor {fd} named {name!r} of LISTEN_FDS cannot be used: {why}", name=name
    )


def listen(name: str, path: str) -> Listening:
    """Bind and listen at `path`. Raises `busy` if somebody listens there, and says so for any other failure."""
    if len(os.fsencode(path)) > PATH_BYTES:
        raise AmuxError(
            "invalid_argument",
            f"the socket path {path} has {len(os.fsencode(path))} bytes, over the {PATH_BYTES} of a Unix socket: "
            f"set sockets.{name} in hub.yaml or XDG_RUNTIME_DIR to something shorter",
            limit="socket_path_bytes",
            value=PATH_BYTES,
            found=len(os.fsencode(path)),
        )
    directory = os.path.dirname(path)
    private_directory(directory, "directory of the sockets")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        with _locked(directory):
            _remove_stale(path)
            listening.bind(path)
            os.chmod(path, 0o600)
            listening.listen(BACKLOG)
            status = os.lstat(path)
    except OSError as error:
        listening.close()
        raise AmuxError("storage_io", f"cannot listen at {path}: {error.strerror}", path=path) from error
    except BaseException:
        listening.close()
        raise
    return Listening(name, listening, path, (status.st_dev, status.st_ino))


@contextlib.contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Two Hubs that start at once must not each take the other's new socket for a stale one."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _remove_stale(path: str) -> None:
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise AmuxError("unsafe_file", f"{path} exists and is no socket: move it away", path=path)
    except FileNotFoundError:
        return
    result = _probe(path)
    if result == errno.ECONNREFUSED:
        os.unlink(path)
    elif result != errno.ENOENT:
        raise _busy(path)


def refuse_served(path: str) -> None:
    """Raises `busy` if somebody listens at `path`, and makes nothing. What else is wrong with it `listen` says."""
    if len(os.fsencode(path)) <= PATH_BYTES and _probe(path) in (0, errno.EAGAIN):
        raise _busy(path)


def _probe(path: str) -> int:
    """0 if somebody listens at `path`, EAGAIN if more wait there than fit, else the errno that says why not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        return probe.connect_ex(path)


def _busy(path: str) -> AmuxError:
    return AmuxError(
        "busy", f"another Hub listens at {path}, for another home: stop it, or set XDG_RUNTIME_DIR", path=path
    )
