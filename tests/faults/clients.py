"""Clients as people have them, for restarts under load: the command line, and `amux mcp`.

Each goes on through everything: it writes, reads back what it wrote, searches; an uncertain write it reads again,
as it is told to. What it knows stands in a ledger that all share.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from typing import Any

from amux.errors import CODES
from tests.faults.ledger import Ledger, content, revision_of
from tests.faults.tool import AMUX
from tests.harness import Hub
from tests.mcp.peers import Relay, ToolError

_SIZES = (10, 2000, 30_000, 65_536)
_MOST = 12


class ToldError(Exception):
    """An answer that is an error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Client(threading.Thread):
    """Works until `enough` is set. `told` counts the errors by code, `allowed` are those that are no failure."""

    def __init__(self, hub: Hub, ledger: Ledger, name: str, allowed: frozenset[str]) -> None:
        super().__init__(name=name, daemon=True)
        self.hub, self.ledger = hub, ledger
        self.allowed = allowed
        self.enough = threading.Event()
        self.calls = 0
        """Calls that were answered without an error."""
        self.told: Counter[str] = Counter()
        self.messages: list[str] = []
        self.failures: list[str] = []
        self._random = random.Random(name)
        self._number = 0

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """`upsert`, `forget`, `get` or `search`. Raises ToldError."""
        raise NotImplementedError

    def run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.failures.append(f"{self.name}: {error!r}")

    def work(self) -> None:
        while not self.enough.is_set():
            step = self._random.choice((self._write, self._write, self._write, self._read, self._search))
            try:
                step()
                self.calls += 1
            except ToldError as error:
                self.told[error.code] += 1
                self.messages.append(str(error))
                if error.code not in self.allowed:
                    self.failures.append(f"{self.name}: {error}")

    def _own(self) -> list[str]:
        prefix = f"{self.name}/"
        known = list(self.ledger.documents)
        return [path for path in known if path.startswith(prefix) and path not in self.ledger.pending]

    def _write(self) -> None:
        self._number += 1
        own = self._own()
        path = f"{self.name}/{self._number % 7}/{self._number}.md"
        if own and (len(own) >= _MOST or self._random.random() < 0.6):
            path = self._random.choice(own)
        forget = path in own and (len(own) >= _MOST or self._random.random() < 0.3)
        text = content(path, self._number, self._random.choice(_SIZES))
        data = None if forget else text.encode()
        expected = revision_of(self.ledger.documents.get(path))
        self.ledger.sent(path, data)
        try:
            if forget:
                reply = self.call("forget", path=path, expected_revision=expected)
            else:
                reply = self.call("upsert", path=path, content=text, expected_revision=expected)
        except ToldError as error:
            if error.code != "outcome_uncertain":
                self.ledger.refused(path)
                raise
            self.told[error.code] += 1
            assert path in error.message
            self.ledger.learned(path, self.call("get", path=path)["revision"])
            return
        assert reply["revision"] == revision_of(data)
        self.ledger.done(path)

    def _read(self) -> None:
        own = self._own()
        path = self._random.choice(own) if own else f"{self.name}/none.md"
        assert self.call("get", path=path)["revision"] == revision_of(self.ledger.documents.get(path))

    def _search(self) -> None:
        own = self._own()
        found = self.call("search", query=f"{self.name}/", path_prefix=self.name, limit=20)
        # The bytes that a reply may have, or the time of a scan, may cut the list short.
        if not found["truncated"] and not found["incomplete"]:
            assert set(own) <= {match["path"] for match in found["matches"]}


class CommandLine(Client):
    """A process for each call."""

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        words, text = ["show" if method == "get" else method, arguments.get("path") or arguments["query"]], b""
        for name in ("expected_revision", "path_prefix", "limit"):
            if name in arguments:
                words += [f"--{name.replace('_', '-')}", str(arguments[name])]
        if "content" in arguments:
            text = arguments["content"].encode()
        done = AMUX.run("memory", *words, hub=self.hub.sockets["hub"], input=text)
        if done.status == 0:
            return done.json
        error = done.error
        assert done.out == b"" and done.status == CODES[error["code"]]
        raise ToldError(error["code"], error["message"])


class Conversation(Client):
    """One `amux mcp` for the whole time: its conversation goes on, whatever happens to the Hub."""

    def work(self) -> None:
        with Relay(self.hub) as self.relay:
            self.relay.open()
            super().work()
            assert self.relay.finish() == ""

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        while True:
            try:
                return self.relay.tool(f"memory_{method}", **arguments)
            except ToolError as error:
                # The pages of a long answer do not outlive the Hub that made it: "call the first tool again".
                if error.code != "continuation_expired" or method not in ("get", "search"):
                    raise ToldError(error.code, error.message) from error
