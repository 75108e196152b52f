"""One Varlink call over a socket, with the standard library alone.

Promises for every call: it ends within REPLY_SECONDS of being sent; a read that a restart of the Hub cut off
is sent once more; a write is never sent twice unless the Hub cannot have run it, and one whose outcome nobody
knows ends as `outcome_uncertain`; a Hub of the previous minor version is spoken to in its own. The frames are
those of https://varlink.org/Service: JSON ended by one NUL.
"""

from __future__ import annotations

import errno
import json
import os
import time

from amux import __version__, limits
from amux.endpoint import REFUSED_SECONDS
from amux.errors import AmuxError, from_varlink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from amux.endpoint import Connection, Endpoint

REPLY_SECONDS = 30.0
"""From the first byte of a call to the last of its answer. A search scans for 250 ms at most; a write waits
for its scope's lock and the disk."""

RESEND_SECONDS = 10.0
"""How long a call is repeated that the Hub answered with `shutting_down`: it ran nothing, so this is safe."""

MEMORY = "io.amux.Memory."
PROTOCOL = ".".join(__version__.split(".")[:2])
"""What a call says of itself first; the Hub refuses others than its own and the previous one."""


class _BrokenError(Exception):
    """An exchange that ended without a usable answer. `sent`: bytes left, the Hub may have run the call."""

    def __init__(self, error: AmuxError, sent: bool, again: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.sent = sent
        self.again = again


class Client:
    """Calls to one service of one Hub, one after another over one connection, opened when first needed."""

    def __init__(
        self,
        where: Endpoint,
        service: str = "hub",
        environ: Mapping[str, str] = os.environ,
        refused_seconds: float = REFUSED_SECONDS,
        reply_seconds: float = REPLY_SECONDS,
    ) -> None:
        self._where = where
        self._service = service
        self._environ = environ
        self._refused_seconds = refused_seconds
        self._reply_seconds = reply_seconds
        self._link: Connection | None = None
        self._sent = 0
        self._begun = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def call(self, method: str, parameters: dict[str, Any], writes: str | None = None) -> dict[str, Any]:
        """The parameters of the reply. `writes` is the path that the call changes, None if it changes none.

        Calls of io.amux.Memory carry AMUX_SESSION and AMUX_MEMORY_BINDING of the environment. Raises the
        AmuxError that the Hub answered, or `hub_unavailable`, `outcome_uncertain`, `protocol_error`.
        """
        frame, version = self._frame(method, parameters, PROTOCOL), PROTOCOL
        until = time.monotonic() + RESEND_SECONDS
        pause, broken = 0.02, False
        while True:
            try:
                reply = self._exchange(frame)
            except _BrokenError as failure:
                self.close()
                if failure.sent and writes is not None:
                    raise _uncertain(writes, failure.error.message) from failure
                if broken or not failure.again:
                    raise failure.error from failure
                broken = True
                continue
            except KeyboardInterrupt as interrupt:
                if writes is None or not self._begun:
                    raise
                raise KeyboardInterrupt(_uncertain(writes, "it was interrupted").message) from interrupt
            try:
                return _parameters(reply)
            except AmuxError as error:
                if version == PROTOCOL and _is_one_older(error):
                    version = str(error.details["hub"])  # it ran nothing: a write may be sent again too
                    frame = self._frame(method, parameters, version)
                    continue
                if error.code != "shutting_down" or time.monotonic() + pause > until:
                    raise
            self.close()
            time.sleep(pause)
            pause = min(pause * 2, 0.25)

    def _frame(self, method: str, parameters: dict[str, Any], version: str) -> bytes:
        if method.startswith(MEMORY):
            for name, variable in (("session", "AMUX_SESSION"), ("binding", "AMUX_MEMORY_BINDING")):
                value = self._environ.get(variable)
                if value:
                    parameters = {**parameters, name: value}
        call = {"method": method, "parameters": parameters, "amux": version}
        try:
            frame = json.dumps(call, ensure_ascii=False, separators=(",", ":")).encode() + b"\0"
        except UnicodeEncodeError as error:
            raise AmuxError("invalid_argument", f"an argument of {method} is not valid UTF-8 text") from error
        if len(frame) - 1 > limits.FRAME_BYTES:
            raise AmuxError(
                "limit_exceeded",
                f"the call {method} has {len(frame) - 1} bytes; one message has at most {limits.FRAME_BYTES}",
                limit="frame_bytes",
                value=limits.FRAME_BYTES,
                found=len(frame) - 1,
            )
        return frame

    def _exchange(self, frame: bytes) -> dict[str, Any]:
        """Send one frame and read the one that answers. Raises _BrokenError, or AmuxError before any byte left."""
        if self._link is None:
            self._link = self._where.connect(self._service, self._refused_seconds)
        link = self._link
        until = time.monotonic() + self._reply_seconds
        self._sent, self._begun = 0, False
        buffer = bytearray()
        try:
            try:
                while self._sent < len(frame):
                    link.socket.settimeout(max(until - time.monotonic(), 0.001))
                    self._begun = True  # a signal can come between the system call and the count of its bytes
                    self._sent += link.socket.send(frame[self._sent :])
            except ConnectionError:
                pass  # hung up, but perhaps not without a word: a limit is hit, or it stops and ran nothing
            while b"\0" not in buffer:
                if len(buffer) > limits.FRAME_BYTES:
                    raise _BrokenError(_odd(f"answered over {limits.FRAME_BYTES} bytes"), True, False)
                link.socket.settimeout(max(until - time.monotonic(), 0.001))
                data = link.socket.recv(65536)
                if not data:
                    raise ConnectionResetError
                buffer += data
        except TimeoutError as error:
            late = AmuxError("hub_unavailable", f"{self._where} did not answer within {self._reply_seconds:g} s")
            raise _BrokenError(late, self._sent > 0, False) from error
        except OSError as error:
            # A Unix socket closed with unread bytes resets its peer: ssh that cannot reach its host reads none.
            gone = link.hung_up(self._sent < len(frame) or error.errno == errno.ECONNRESET)
            sent = self._sent > 0 and not link.nothing_ran
            raise _BrokenError(gone, sent, gone.details.pop("retry", True) is True) from error
        return _decode(buffer)


def _decode(buffer: bytearray) -> dict[str, Any]:
    frame, _, rest = bytes(buffer).partition(b"\0")
    try:
        if rest:
            raise ValueError("more than one answer")
        reply = json.loads(frame.decode("utf-8"))
        if not isinstance(reply, dict) or not isinstance(reply.get("parameters", {}), dict):
            raise ValueError("not a Varlink reply")
    except (ValueError, RecursionError) as error:
        raise _BrokenError(_odd(f"answered what is no reply: {error}"), True, False) from error
    return reply


def _parameters(reply: dict[str, Any]) -> dict[str, Any]:
    parameters: dict[str, Any] = reply.get("parameters", {})
    if "error" in reply:
        raise from_varlink(str(reply["error"]), parameters)
    return parameters


def _is_one_older(error: AmuxError) -> bool:
    """Whether a Hub of the previous minor version refused ours: during an upgrade the client can be the newer."""
    major, minor = PROTOCOL.split(".")
    hub = error.details.get("hub")
    return error.code == "version_mismatch" and minor != "0" and hub == f"{major}.{int(minor) - 1}"


def _odd(what: str) -> AmuxError:
    return AmuxError("protocol_error", f"the Hub {what}: is something else listening there?")


def _uncertain(path: str, why: str) -> AmuxError:
    return AmuxError(
        "outcome_uncertain",
        f"whether {path} was changed is unknown ({why}): read it again before you repeat this",
        path=path,
    )
