"""ssh to a Hub elsewhere: the address, the client's side, and `amux dial-stdio`, which is the other side.

Promises that no part of an address can become an option or a command of ssh, and that bytes pass unchanged.
Must not import subprocess or asyncio: `dial-stdio` is part of every remote call.
"""

from __future__ import annotations

import os
import select
import socket

from amux.errors import EXIT_OK, EXIT_REFUSED, EXIT_UNAVAILABLE, EXIT_USAGE, AmuxError

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_IPV6 = frozenset("0123456789abcdefABCDEF:.")

SSH_FAILED = 255
COMMAND_MISSING = 127
_NOT_CONNECTED = frozenset({COMMAND_MISSING, EXIT_USAGE, EXIT_REFUSED, EXIT_UNAVAILABLE})
"""What the remote shell and `dial-stdio` end with before they are joined to a Hub."""

CHUNK = 64 * 1024
PIPE_CHUNK = select.PIPE_BUF
"""What a pipe that polls writable takes without blocking, pipe(7)."""


class Remote:
    """One `ssh://[user@]host[:port]`, taken apart; every part is safe as an argument of ssh."""

    __slots__ = ("host", "port", "user")

    def __init__(self, user: str, host: str, port: int) -> None:
        self.user = user
        self.host = host
        self.port = port

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{user}{host}{f':{self.port}' if self.port else ''}"

    def argv(self, service: str) -> list[str]:
        """The ssh command for "hub" or "mcp". Raises `forbidden` for "admin"."""
        if service == "admin":
            raise AmuxError(
                "forbidden",
                f"administration does not go through AMUX_HUB={self}: log in there and use sudo amux",
            )
        command = ["ssh", "-T", "-o", "BatchMode=yes"]
        if self.port:
            command += ["-p", str(self.port)]
        if self.user:
            command += ["-l", self.user]
        return [*command, "--", self.host, "amux", "dial-stdio", *(["--mcp"] if service == "mcp" else [])]


def parse(url: str) -> Remote:
    """Take an `ssh://` address apart. Raises `invalid_argument` for anything but `ssh://[user@]host[:port]`.

    A user or a host beginning with a hyphen is refused although `--` stands before them: ssh hands both on to
    configuration (`ProxyCommand %h %r`) where no `--` helps.
    """
    user, at, address = url.removeprefix("ssh://").rpartition("@")
    if address.startswith("["):
        host, bracket, port = address[1:].partition("]")
        good = bool(bracket) and ":" in host and set(host) <= _IPV6 and port[:1] in ("", ":")
        colon, port = port[:1], port[1:]
    else:
        host, colon, port = address.partition(":")
        good = set(host) <= _NAME
    good = good and bool(host) and not host.startswith("-")
    good = good and set(user) <= _NAME and not user.startswith("-") and bool(user) == bool(at)
    if colon:
        good = good and port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536
    if not good:
        raise AmuxError("invalid_argument", f"AMUX_HUB is {url!r}: wanted is ssh://[user@]host[:port]", found=url)
    return Remote(user, host, int(port) if colon else 0)


def start(remote: Remote, service: str) -> tuple[socket.socket, int]:
    """Start ssh; answer our end of its standard input and output, and its pid. Its stderr is ours."""
    argv = remote.argv(service)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        child = os.posix_spawnp(
            "ssh",
            argv,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 0),
                (os.POSIX_SPAWN_DUP2, theirs.fileno(), 1),
            ],
        )
    except OSError as error:
        ours.close()
        raise AmuxError("hub_unavailable", f"AMUX_HUB is {remote}, but ssh cannot be run: {error.strerror}") from error
    finally:
        theirs.close()
    return ours, child


def ended(remote: Remote, child: int) -> tuple[AmuxError, bool]:
    """Wait for the ssh child; what its end means, and whether nothing that was sent can have reached a Hub.

    ssh exits as the remote command did, or with 255 of its own, which may also come in the middle of a call.
    """
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except ChildProcessError:
        status = 0
    if status == SSH_FAILED:
        text = f"ssh could not reach {remote}: its own message stands above; try: ssh {remote.host} true"
    elif status == COMMAND_MISSING:
        text = f"there is no amux on the PATH of {remote}: install it there"
    elif status:
        text = f"amux dial-stdio on {remote} ended with {status}: its own message stands above"
    else:
        text = f"the Hub at {remote} closed the connection before it answered"
    return AmuxError("hub_unavailable", text, retry=status == 0), status in _NOT_CONNECTED


def main(argv: list[str]) -> int:
    """`amux dial-stdio [--mcp]`: join standard input and output to a Hub of this machine."""
    from amux import endpoint, output

    if argv not in ([], ["--mcp"]):
        output.line(2, f"amux dial-stdio: unknown arguments {' '.join(argv)!r}; it takes only --mcp")
        return EXIT_USAGE
    try:
        where = endpoint.choose()
        if where.remote is not None:
            raise AmuxError(
                "invalid_argument",
                f"AMUX_HUB is {where.remote} where dial-stdio runs: it joins Hubs of its own machine only",
            )
        link = where.connect("mcp" if argv else "hub")
    except AmuxError as error:
        output.line(2, f"amux dial-stdio: {error.message}")
        return error.exit_status
    return splice(link.socket, 0, 1)


def splice(hub: socket.socket, source: int, sink: int) -> int:
    """Pass bytes both ways with bounded buffers; neither direction can hold the other up.

    Ends when the Hub hangs up and all it said is written, or when nobody reads `sink` any more. The end of
    `source` only closes that direction: the answer to the last call is still to come. `source` and `sink` are
    shared with other processes, so they stay blocking: each write is what fits after poll(2).
    """
    to_hub, to_sink = b"", b""
    source_open, hub_open = True, True
    while hub_open or to_sink:
        poll = select.poll()
        hub_events = (0 if to_sink or not hub_open else select.POLLIN) | (select.POLLOUT if to_hub else 0)
        if hub_events:
            poll.register(hub, hub_events)
        if source_open and not to_hub:
            poll.register(source, select.POLLIN)
        # Even without events: poll tells when nobody reads it any more.
        poll.register(sink, select.POLLOUT if to_sink else 0)
        for fd, events in poll.poll():
            if fd == source:
                to_hub = _read(source)
                if not to_hub:
                    source_open = False
                    _half_close(hub)
            elif fd == sink:
                if events & ~select.POLLOUT:
                    return EXIT_OK
                try:
                    to_sink = to_sink[os.write(sink, to_sink[:PIPE_CHUNK]) :]
                except OSError:  # it went away since poll(2) looked
                    return EXIT_OK
            else:
                if events & select.POLLOUT and to_hub:
                    to_hub = _send(hub, to_hub)
                if events & ~select.POLLOUT and hub_open and not to_sink:
                    to_sink = _receive(hub)
                    hub_open = bool(to_sink)
    return EXIT_OK


def _read(source: int) -> bytes:
    try:
        return os.read(source, CHUNK)
    except OSError:  # closed, or a terminal that went away: the same as its end
        return b""


def _half_close(hub: socket.socket) -> None:
    try:
        hub.shutdown(socket.SHUT_WR)
    except OSError:  # the Hub went away first: the read side will say so
        return


def _send(hub: socket.socket, data: bytes) -> bytes:
    """What is left of `data`; nothing once the Hub went away (the read side ends the loop)."""
    try:
        return data[hub.send(data, socket.MSG_DONTWAIT) :]
    except BlockingIOError:
        return data
    except OSError:
        return b""


def _receive(hub: socket.socket) -> bytes:
    try:
        return hub.recv(CHUNK)
    except ConnectionResetError:
        return b""
