"""A listener that plays a Hub's misbehaviour: each connection runs the next script.

A script is a function of the connected socket. Used only for what a real Hub does not do on demand: answer
half a frame, too much, nothing, or hang up at a chosen byte.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

Script = Callable[[socket.socket], None]


class ScriptedHub:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.calls: list[dict[str, Any]] = []
        self._scripts: list[Script] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> ScriptedHub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def then(self, *scripts: Script) -> ScriptedHub:
        """Add what the next connections meet."""
        self._scripts += scripts
        return self

    @property
    def left(self) -> int:
        """How many scripts no connection has met."""
        return len(self._scripts)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                if self._scripts:
                    self._scripts.pop(0)(connection)

    def receive(self, connection: socket.socket) -> dict[str, Any]:
        """One call; it is remembered in `calls`."""
        data = b""
        while not data.endswith(b"\0"):
            part = connection.recv(65536)
            if not part:
                raise ConnectionResetError
            data += part
        call: dict[str, Any] = json.loads(data[:-1])
        self.calls.append(call)
        return call

    def answers(self, *replies: dict[str, Any]) -> Script:
        """Receive a call for each reply and send it."""

        def script(connection: socket.socket) -> None:
            for reply in replies:
                self.receive(connection)
                connection.sendall(json.dumps(reply).encode() + b"\0")
            connection.recv(1)

        return script

    def sends(self, data: bytes, wait: bool = True) -> Script:
        """Receive a call, send these bytes, and hang up (once the client did, if `wait`)."""

        def script(connection: socket.socket) -> None:
            self.receive(connection)
            connection.sendall(data)
            if wait:
                connection.recv(1)

        return script

    def refuses(self, code: str, **details: object) -> Script:
        name = "io.amux.Hub." + "".join(part.capitalize() for part in code.split("_"))
        return self.answers({"error": name, "parameters": {"message": f"{code} it is", "details": details}})


def hangs_up(connection: socket.socket) -> None:
    """Close at once, without reading."""
