"""Which Hub, and why; and one checked connection to it.

Promises that nothing comes from the working directory, that a dead system Hub is never replaced by a private
one, and that no byte is sent before the listener's UID is known to be right (docs/reference/commands.md).
Must not import click, asyncio or subprocess: every hot command begins here.

    where = endpoint.choose()            # from the environment; AmuxError if AMUX_HUB makes no sense
    link = where.connect("mcp")          # AmuxError if nobody, or somebody else, listens
    link.socket.sendall(...); link.close()
"""

from __future__ import annotations

import os
import socket
import struct
import time

from amux.errors import AmuxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amux.dial import Remote

SYSTEM_DIRECTORY = "/run/amux"
SOCKETS = {"hub": "hub.sock", "mcp": "mcp.sock", "admin": "admin.sock"}
"""The services of one Hub, side by side in one directory."""

REFUSED_SECONDS = 3.0
"""How long a refused connection is retried: a Hub that restarts is back by then, or it is down."""

SUN_PATH_BYTES = 107
"""The longest path of a Unix socket, unix(7)."""

START_SYSTEM = "sudo systemctl start amux-hub"
START_PRIVATE = "amux-hub"


class Connection:
    """An open way to one socket of a Hub: `socket` is connected, blocking and without a timeout.

    Over ssh it is one end of a socketpair whose other end is the standard input and output of an ssh child.
    """

    __slots__ = ("_child", "_where", "nothing_ran", "socket")

    def __init__(self, where: Endpoint, connected: socket.socket, child: int | None = None) -> None:
        self.socket = connected
        self._where = where
        self._child = child
        self.nothing_ran = False
        """Set by `hung_up()`: whatever was sent, it cannot have reached a Hub."""

    def close(self) -> None:
        """Close it; an ssh child sees end of file and is reaped if it has already ended."""
        self.socket.close()
        if self._child is not None:
            try:
                done, _ = os.waitpid(self._child, os.WNOHANG)
            except ChildProcessError:
                done = self._child
            if done:
                self._child = None

    def hung_up(self, unread: bool = False) -> AmuxError:
        """Close it and say why the other end hung up: always `hub_unavailable`.

        `unread`: it left something of the call unread. `details["retry"]` is false when another attempt cannot
        help: ssh itself failed, or the remote command did. Waits for the ssh child, which ends once its standard
        input has.
        """
        self.socket.close()
        if self._child is None or self._where.remote is None:
            return AmuxError("hub_unavailable", f"{self._where} closed the connection before it answered", retry=True)
        from amux import dial

        child, self._child = self._child, None
        error, before_a_hub = dial.ended(self._where.remote, child)
        self.nothing_ran = before_a_hub or unread  # a call that is not whole is not run
        return error


class Endpoint:
    """The Hub that was chosen. `str()` names it, `why` says what decided.

    `kind` is "system" (the listener must be UID 0), "private" (must be our own UID) or "ssh". `path` is the
    path of hub.sock, empty over ssh; `remote` is the parsed `ssh://` address, else None; `named` says whether
    AMUX_HUB decided.
    """

    __slots__ = ("kind", "named", "path", "remote", "why")

    def __init__(self, kind: str, path: str, why: str, remote: Remote | None = None, named: bool = False) -> None:
        self.kind = kind
        self.path = path
        self.why = why
        self.named = named
        self.remote = remote

    def __str__(self) -> str:
        if self.remote is not None:
            return f"the Hub at {self.remote}"
        return f"the {self.kind} Hub at {self.path}"

    @property
    def start(self) -> str:
        """The command that starts this Hub."""
        if self.remote is not None:
            return f"{START_SYSTEM} (on {self.remote.host})"
        return START_SYSTEM if self.kind == "system" else START_PRIVATE

    def socket_path(self, service: str) -> str:
        """The path of the socket of "hub", "mcp" or "admin" (a local Hub only)."""
        if service == "hub":
            return self.path
        return os.path.join(os.path.dirname(self.path), SOCKETS[service])

    def connect(self, service: str, wait: float = REFUSED_SECONDS) -> Connection:
        """Connect to "hub", "mcp" or "admin" and check who listens there.

        A refused connection is retried for `wait` seconds; a missing socket fails at once. Raises
        `hub_unavailable` (nobody listens), `identity_refused` (somebody else does), `forbidden` (the socket
        may not be opened), `invalid_argument` (a path that no socket can have). Over ssh it returns as soon
        as ssh has started: what goes wrong later is an early end of file, which `hung_up()` explains.
        """
        if self.remote is not None:
            from amux import dial

            connected, child = dial.start(self.remote, service)
            return Connection(self, connected, child)
        path = self.socket_path(service)
        connected = self._connect_path(path, wait)
        try:
            self._check_listener(connected, path)
        except BaseException:
            connected.close()
            raise
        return Connection(self, connected)

    def _connect_path(self, path: str, wait: float) -> socket.socket:
        if len(os.fsencode(path)) > SUN_PATH_BYTES:
            raise AmuxError(
                "invalid_argument",
                f"the socket path {path} has {len(os.fsencode(path))} bytes, over the {SUN_PATH_BYTES} of a "
                "Unix socket: choose a shorter directory",
                path=path,
            )
        until = time.monotonic() + wait
        pause, refused = 0.01, False
        while True:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connected.settimeout(max(wait, 0.1))
                connected.connect(path)
                connected.settimeout(None)
            except (FileNotFoundError, NotADirectoryError) as error:
                connected.close()
                if not refused:  # one that was refused a moment ago is restarting
                    raise self._missing(path) from error
            except (ConnectionRefusedError, BlockingIOError, TimeoutError):
                # A full backlog is EAGAIN on a Unix socket, connect(2): the Hub is there, but behind.
                connected.close()
                refused = True
            except PermissionError as error:
                connected.close()
                raise self._forbidden(path) from error
            except OSError as error:
                connected.close()
                raise AmuxError("hub_unavailable", f"cannot connect to {path}: {error.strerror}", path=path) from error
            else:
                return connected
            if time.monotonic() + pause > until:
                raise AmuxError(
                    "hub_unavailable",
                    f"{self} refused the connection for {wait:g} s ({self.why}): it is not running; "
                    f"start it with: {self.start}",
                    path=path,
                )
            time.sleep(pause)
            pause = min(pause * 2, 0.1)

    def _check_listener(self, connected: socket.socket, path: str) -> None:
        """SO_PEERCRED of a connection that we made names the listener, unix(7): pid, UID, GID."""
        credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII"))
        uid = struct.unpack("iII", credentials)[1]
        wanted = 0 if self.kind == "system" else os.geteuid()
        if uid != wanted:
            owner = "root (UID 0)" if self.kind == "system" else f"you (UID {wanted})"
            raise AmuxError(
                "identity_refused",
                f"UID {uid} listens at {path}, but a {self.kind} Hub is run by {owner}: nothing was sent; find "
                "out who put that socket there",
                path=path,
                found=uid,
                value=wanted,
            )

    def _missing(self, path: str) -> AmuxError:
        # Nobody asked for a private Hub by name: perhaps the system's was meant, and its socket is gone.
        by_default = self.kind == "private" and not self.named
        other = f" (where the system service is installed: {START_SYSTEM})" if by_default else ""
        return AmuxError(
            "hub_unavailable",
            f"no Hub runs at {path} ({self.why}); start it with: {self.start}{other}",
            path=path,
        )

    def _forbidden(self, path: str) -> AmuxError:
        if os.path.basename(path) == SOCKETS["admin"]:
            return AmuxError("forbidden", f"{path} may not be opened: administration is root's; use sudo", path=path)
        return AmuxError(
            "forbidden",
            f"{path} may not be opened as UID {os.geteuid()} ({self.why}): check AMUX_HUB",
            path=path,
        )


def choose(environ: Mapping[str, str] = os.environ) -> Endpoint:
    """The Hub that the environment means, docs/reference/commands.md.

    `AMUX_HUB`, else the system's if its socket exists, else the private one of this user. An empty variable
    counts as unset. Raises `invalid_argument` for an `AMUX_HUB` that is neither an absolute path nor an
    `ssh://` address, `hub_unavailable` if nothing says where a private Hub would be.
    """
    named = environ.get("AMUX_HUB", "")
    if named.startswith("ssh://"):
        from amux import dial

        return Endpoint("ssh", "", "AMUX_HUB names it", dial.parse(named), named=True)
    if named:
        if not named.startswith("/") or "\0" in named:
            raise AmuxError(
                "invalid_argument",
                f"AMUX_HUB is {named!r}: wanted is the absolute path of a hub.sock, or ssh://[user@]host[:port]",
                found=named,
            )
        return Endpoint(_kind(named), named, "AMUX_HUB names it", named=True)
    system = os.path.join(SYSTEM_DIRECTORY, SOCKETS["hub"])
    if _exists(system):
        return Endpoint("system", system, "its socket exists and AMUX_HUB is not set")
    path, why = private_path(environ)
    return Endpoint("private", path, f"AMUX_HUB is not set, there is no {system}, and {why}")


def private_path(environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """Where this user's private Hub listens (the path of its hub.sock), and what said so."""
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if runtime.startswith("/"):  # a relative one is to be ignored, XDG Base Directory Specification
        also = " (it comes before AMUX_HOME)" if environ.get("AMUX_HOME") else ""
        return os.path.join(runtime, "amux", SOCKETS["hub"]), f"XDG_RUNTIME_DIR is set{also}"
    state = environ.get("AMUX_HOME", "")
    if state:
        if not state.startswith("/"):
            raise AmuxError("invalid_argument", f"AMUX_HOME is {state!r}: wanted is an absolute path", found=state)
        return os.path.join(state, "run", SOCKETS["hub"]), "AMUX_HOME is set"
    home = environ.get("HOME", "")
    if not home.startswith("/"):
        home = _account_home()
    why = "XDG_RUNTIME_DIR is relative, so ignored" if runtime else "XDG_RUNTIME_DIR is not set"
    return os.path.join(home, ".local/state/amux/run", SOCKETS["hub"]), why


def private_beside(where: Endpoint, environ: Mapping[str, str] = os.environ) -> str | None:
    """The line to export for a private Hub that runs beside the system's, when the system's was chosen."""
    if where.kind != "system" or where.named:
        return None
    try:
        path, _ = private_path(environ)
    except AmuxError:
        return None
    if not _exists(path):
        return None
    import shlex

    return f"export AMUX_HUB={shlex.quote(path)}"


def _account_home() -> str:
    import pwd

    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = ""
    if not home.startswith("/"):
        raise AmuxError(
            "hub_unavailable",
            f"UID {os.geteuid()} has no home directory and HOME is not set: set AMUX_HUB to a hub.sock",
        )
    return home


def _kind(path: str) -> str:
    directory, name = os.path.split(path)
    if name == SOCKETS["hub"] and os.path.realpath(directory) == SYSTEM_DIRECTORY:
        return "system"
    return "private"


def _exists(path: str) -> bool:
    """Whether something has this name; one that may not be looked at does exist."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True
