"""The client of the materializer: a run directory of this account's own, for as long as its lock is held.

One connection to /run/amux/launch.sock, four lines of JSON: the request, `{"run": PATH}`, `{"locked": true}`,
`{"ok": true}` (docs/reference/amux-materializer.md). The helper serves the UID that it reads from the connection;
here only root may be listening, and its path is matched whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import stat
import struct

from amux.errors import CODES, AmuxError
from amux.launch.find import runnable

SOCKET = "/run/amux/launch.sock"
RUN = re.compile(r"/run/amux-launches/[0-9a-f]{32}")
LAUNCH_BIN = "/usr/lib/amux/launch-bin"
COPY = "agent-config/memory/amux.pyz"
SECONDS = 30.0
LINE_BYTES = 4096


def open_launch(
    session: str, binding: str, path: str = SOCKET, owner: int = 0, run: re.Pattern[str] = RUN, bin_: str = LAUNCH_BIN
) -> tuple[str, int]:
    """The run directory of a new launch, and the descriptor that holds its lock. Raises AmuxError.

    The descriptor is not inheritable yet. The launch ends when the last process that has it is gone.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(SECONDS)
        try:
            connection.connect(path)
        except OSError as error:
            raise AmuxError(
                "hub_unavailable",
                f"the materializer does not answer at {path} ({error.strerror}): sudo systemctl start "
                "amux-materializer.socket, or use another --isolation",
                path=path,
            ) from error
        _check_listener(connection, path, owner)
        try:
            directory, lock = _converse(connection, session, binding, run)
        except (OSError, ValueError, RecursionError) as error:
            raise AmuxError(
                "hub_unavailable",
                f"the materializer at {path} did not do its part: {error}; see its journal",
                path=path,
            ) from error
    program, copy = os.path.join(bin_, "amux"), os.path.join(directory, COPY)
    for path, there in ((program, runnable(program)), (copy, os.path.isfile(copy))):
        if not there:
            os.close(lock)
            raise AmuxError(
                "not_found",
                f"{path} is missing: the agent would have no way to its memory; reinstall amux-hub",
                path=path,
            )
    return directory, lock


def _check_listener(connection: socket.socket, path: str, owner: int) -> None:
    """SO_PEERCRED of a connection that we made names the listener, unix(7)."""
    uid = struct.unpack("iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
    if uid != owner:
        raise AmuxError(
            "identity_refused",
            f"UID {uid} listens at {path}, but the materializer is root's: nothing was sent; find out who put that "
            "socket there",
            path=path,
            found=uid,
        )


def _converse(connection: socket.socket, session: str, binding: str, run: re.Pattern[str]) -> tuple[str, int]:
    _say(connection, {"amux": 1, "session": session, "binding": binding})
    with connection.makefile("rb", buffering=0) as lines:
        answer = _hear(lines.readline(LINE_BYTES))
        directory = answer.get("run")
        if not isinstance(directory, str) or run.fullmatch(directory) is None:
            raise ValueError(f"it named the directory {directory!r:.80}, which none can be")
        lock = _take(os.path.join(directory, "lock"))
        try:
            _say(connection, {"locked": True})
            if _hear(lines.readline(LINE_BYTES)).get("ok") is not True:
                raise ValueError("it did not confirm the lock")
        except BaseException:
            os.close(lock)
            raise
    return directory, lock


def _say(connection: socket.socket, value: dict[str, object]) -> None:
    """A helper that refuses the account answers and hangs up before it reads: then the answer is what counts."""
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(json.dumps(value, separators=(",", ":")).encode() + b"\n")


def _hear(line: bytes) -> dict[str, object]:
    """One line of the helper. Raises the error that it holds."""
    if not line.endswith(b"\n"):
        raise ValueError("it hung up, or said too much")
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError("it answered no object")
    error = value.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        raise AmuxError(code if code in CODES else "internal", f"the materializer refused: {error.get('message')}")
    return value


def _take(path: str) -> int:
    """Open the lock file, check that it is what it must be, lock it."""
    lock = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(lock)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
            raise ValueError("its lock is no file of this account")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock
