"""A client that writes without a pause until its Hub is gone, and keeps a ledger of it."""

from __future__ import annotations

import random
import threading
from typing import Any

from tests.faults.ledger import Ledger, content, revision_of
from tests.harness import WAIT_SECONDS, Hub
from tests.mcp.peers import Direct, Message

SIZES = (1, 100, 2048, 4096, 4097, 20_000, 65_536)
_MOST = 24
"""Documents of one writer, so that checking them stays cheap."""


class Writer:
    """Writes below a directory of its own: new documents, new directories, replacements, removals.

    `run` answers when the connection ended; any error of the Hub is kept in `failure`.
    """

    def __init__(self, ledger: Ledger, name: str, seed: str) -> None:
        self.ledger = ledger
        self.name = name
        self.failure: BaseException | None = None
        self._random = random.Random(seed)
        self._number = 0

    def run(self, hub: Hub, mcp: bool = False) -> None:
        try:
            if mcp:
                with _Direct(hub.sockets["mcp"]) as peer:
                    peer.open()
                    while True:
                        self._one(lambda method, arguments: _by_mcp(peer, method, arguments))
            else:
                with hub.connect() as channel:
                    while True:
                        self._one(lambda method, arguments: _by_varlink(channel, method, arguments))
        except (ConnectionError, EOFError):
            pass
        except BaseException as error:
            self.failure = error

    def _one(self, call: Any) -> None:
        path, data = self._choose()
        before = revision_of(self.ledger.documents.get(path))
        arguments: dict[str, object] = {"path": path, "expected_revision": before}
        if data is not None:
            arguments["content"] = data.decode()
        self.ledger.sent(path, data)
        revision = call("forget" if data is None else "upsert", arguments)
        assert revision == revision_of(data), f"{path}: acknowledged with the revision {revision}"
        self.ledger.done(path)

    def _choose(self) -> tuple[str, bytes | None]:
        self._number += 1
        own = [path for path in self.ledger.documents if path.startswith(f"{self.name}/") and path.endswith(".md")]
        what = self._random.choice(("replace", "replace", "new", "nested", "forget"))
        if len(own) >= _MOST:
            what = "forget"
        if own and what in ("replace", "forget"):
            path = self._random.choice(own)
            if what == "forget":
                return path, None
        elif what == "nested":
            path = f"{self.name}/{self._number}/{self._random.randrange(3)}/deep.md"
        else:
            path = f"{self.name}/{self._number}.md"
        return path, content(path, self._number, self._random.choice(SIZES)).encode()


def _by_varlink(channel: Any, method: str, arguments: dict[str, object]) -> object:
    reply = channel.call(f"io.amux.Memory.{method.capitalize()}", **arguments)
    assert "error" not in reply, reply
    return reply["parameters"]["revision"]


class _Direct(Direct):
    """The end of the stream is an exception: here it is what every conversation comes to."""

    def receive(self, seconds: float = WAIT_SECONDS) -> Message | None:
        message = super().receive(seconds)
        if message is None:
            raise EOFError
        return message


def _by_mcp(peer: Direct, method: str, arguments: dict[str, object]) -> object:
    return peer.tool(f"memory_{method}", **arguments)["revision"]


class Load:
    """Several writers at once against one Hub, until it is gone."""

    def __init__(self, hub: Hub, writers: list[Writer], mcp: int = 0) -> None:
        """The first `mcp` of them speak MCP."""
        self._writers = writers
        self._threads = [
            threading.Thread(target=writer.run, args=(hub, index < mcp), daemon=True)
            for index, writer in enumerate(writers)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in self._threads), "a client hangs"
        for writer in self._writers:
            if writer.failure is not None:
                raise writer.failure
