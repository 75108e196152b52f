"""Restarts under load: 8 command lines and 8 MCP conversations go on, and each is told the truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.clients import Client, CommandLine, Conversation
from tests.faults.ledger import Ledger, temporary_files
from tests.harness import Hub, until

EACH = 8
RESTARTS = 3
_UNCERTAIN = frozenset({"outcome_uncertain"})


class Load:
    """The 16 clients of a test, from the first call to the last."""

    def __init__(self, hub: Hub, allowed: frozenset[str] = _UNCERTAIN) -> None:
        self.hub = hub
        self.ledger = Ledger()
        kinds = {"cli": CommandLine, "mcp": Conversation}
        self.clients: list[Client] = [
            kind(hub, self.ledger, f"{name}{number}", allowed) for name, kind in kinds.items() for number in range(EACH)
        ]

    def __enter__(self) -> Load:
        for client in self.clients:
            client.start()
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.enough.set()
        for client in self.clients:
            client.join(60)

    def go_on(self, calls: int = 2) -> None:
        """Until every client had that many more calls answered."""
        before = [client.calls for client in self.clients]
        until(
            lambda: (
                self.failures()
                or all(client.calls >= count + calls for client, count in zip(self.clients, before, strict=True))
            ),
            "every client goes on",
        )
        assert not self.failures()

    def failures(self) -> list[str]:
        return [failure for client in self.clients for failure in client.failures]

    def told(self) -> Counter[str]:
        return sum((client.told for client in self.clients), Counter())

    def settle(self) -> None:
        """After the last call: no client hangs or failed, and the files are what the clients know."""
        assert not [client.name for client in self.clients if client.is_alive()]
        assert not self.failures()
        memory = self.hub.home / "memory"
        self.ledger.settle(memory / "global")
        assert temporary_files(memory) == []
        calls = sum(client.calls for client in self.clients)
        print(f"\n{calls} calls, {self.ledger.acknowledged} writes acknowledged and there; told {dict(self.told())}")


def _kill(hub: Hub) -> None:
    hub.kill()
    hub.start()


@pytest.mark.parametrize("again", [lambda hub: hub.restart(), _kill], ids=["in order", "killed"])
def test_c5_c37_restarts_under_load_with_sockets_that_somebody_holds(
    tmp_path: Path, again: Callable[[Hub], object]
) -> None:
    with Hub(tmp_path / "hub", held=True) as hub:
        with Load(hub) as load:
            for _ in range(RESTARTS):
                load.go_on()
                again(hub)
            load.go_on()
        load.settle()
        if again is not _kill:
            # A Hub that stops in order answers what it runs, and says what it did not run.
            assert not load.told()


def test_c5_c37_restarts_of_a_private_hub_are_clear_errors_and_lose_nothing(tmp_path: Path) -> None:
    allowed = frozenset({"hub_unavailable", "outcome_uncertain", "shutting_down"})
    with Hub(tmp_path / "hub") as hub:
        with Load(hub, allowed) as load:
            for stop in (hub.stop, hub.kill):
                load.go_on()
                before = load.told()["hub_unavailable"]
                stop()
                # Long enough that somebody meets a Hub that is not there.
                until(lambda before=before: load.told()["hub_unavailable"] > before, "a client finds no Hub")
                hub.start()
            load.go_on()
        load.settle()
        unavailable = [text for client in load.clients for text in client.messages if "hub_unavailable" in text]
        # Which Hub, whatever went wrong with it; and what to start, where none is there.
        assert all(str(hub.runtime) in text and "\n" not in text for text in unavailable), unavailable
        assert any(text.endswith("start it with: amux-hub") for text in unavailable), unavailable
