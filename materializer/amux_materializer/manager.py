"""The service manager: the one socket that it passes, sd_listen_fds(3), and what it is told, sd_notify(3).

Both protocols are a few lines, so they are written here rather than imported into a process of root's.
"""

from __future__ import annotations

import os
import socket

NAME = "launch"
FIRST_FD = 3


class UnfitError(Exception):
    """Not started as it must be; the message says what to do."""


def listener() -> socket.socket:
    """The socket `launch`, the only one that may be passed. Raises `UnfitError`."""
    env = os.environ
    if env.get("LISTEN_PID") != str(os.getpid()):
        raise UnfitError("no socket was passed: start it by systemctl start amux-materializer.socket")
    if env.get("LISTEN_FDS") != "1" or env.get("LISTEN_FDNAMES") != NAME:
        found = f"{env.get('LISTEN_FDS')} ({env.get('LISTEN_FDNAMES')})"
        raise UnfitError(f"one socket named {NAME} is wanted, found {found}: restore amux-materializer.socket")
    try:
        passed = socket.socket(fileno=FIRST_FD)
    except OSError as error:
        raise UnfitError(f"what was passed is no socket ({error.strerror}): restore amux-materializer.socket") from None
    stream = passed.family == socket.AF_UNIX and passed.type == socket.SOCK_STREAM
    if not stream or not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        raise UnfitError("what was passed is no listening Unix stream socket: restore amux-materializer.socket")
    passed.set_inheritable(False)
    return passed


class Notifier:
    """Datagrams to NOTIFY_SOCKET; nothing happens where there is none."""

    def __init__(self, address: str) -> None:
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def say(self, state: str) -> None:
        if self._address:
            self._socket.sendto(state.encode("ascii"), self._address)


def notifier() -> Notifier:
    return Notifier(os.environ.get("NOTIFY_SOCKET", ""))
