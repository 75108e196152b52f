"""A Hub that says what a test tells it to say: each method of io.amux.Session has one reply. For hostile values, and
for looking at what a launch asks."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.launch.launching import World

SESSION = "s-" + "a7" * 13
BINDING = "global"
NATIVE = "0b3d8a92-7a3e-4f0e-9d8e-3f6d1d6a4a11"
STATE = {"session": SESSION, "agent": "pi", "kind": "task", "isolation": "none", "binding": BINDING, "native": NATIVE}
"""The launch state of a conversation of Pi's."""


class TellingHub:
    """Listens at `path`; `replies[method]` are the parameters of the answer, or the error code as a text."""

    def __init__(self, path: Path, **replies: Any) -> None:
        self.path = path
        self.calls: list[tuple[str, dict[str, Any]]] = []
        begun = {"session": SESSION, "binding": BINDING}
        self.replies: dict[str, Any] = {
            "Begin": begun,
            "SetNative": {},
            "End": {},
            "GetStatus": {"memory_enabled_running": True},
            **replies,
        }
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        data = b""
        while part := connection.recv(65536):
            data += part
            if not data.endswith(b"\0"):
                continue
            call = json.loads(data[:-1])
            data = b""
            interface, _, method = call["method"].rpartition(".")
            assert interface == ("io.amux.Hub" if method == "GetStatus" else "io.amux.Session")
            self.calls.append((method, call["parameters"]))
            reply = self.replies[method]
            if isinstance(reply, str):
                name = "io.amux.Hub." + "".join(word.capitalize() for word in reply.split("_"))
                answer = {"error": name, "parameters": {"message": f"{reply} it is", "details": {}}}
            else:
                answer = {"parameters": reply}
            connection.sendall(json.dumps(answer).encode() + b"\0")

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [parameters for name, parameters in self.calls if name == method]

    def close(self) -> None:
        """Away, as a Hub that was stopped: its socket is gone."""
        if self.path.exists():
            self.path.unlink()
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._thread.join()

    def __enter__(self) -> TellingHub:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


Told = tuple[World, TellingHub]
"""A person and the Hub that tells them what a test wants."""


def instructions(world: World) -> str | None:
    """What the agent was given to append to its prompt."""
    argv: list[str] = world.started["argv"]
    return argv[argv.index("--append-system-prompt") + 1] if "--append-system-prompt" in argv else None
