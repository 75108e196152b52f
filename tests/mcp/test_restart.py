"""Restarts of a real Hub in the middle of MCP conversations, with and without somebody who holds its sockets."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Hub, until
from tests.mcp.peers import Relay, ToolError, text_of

CLIENTS = 8
RESTARTS = 3


@pytest.mark.parametrize("modern", [False, True], ids=["initialize", "discover"])
def test_a_conversation_goes_on_across_a_restart(held_hub: Hub, modern: bool) -> None:
    with Relay(held_hub, modern=modern) as relay:
        relay.open()
        tools = relay.rpc("tools/list")
        first = relay.tool("memory_upsert", path="a.md", content="one\n", expected_revision="absent")
        held_hub.restart()
        assert relay.tool("memory_get", path="a.md")["content"] == "one\n"
        held_hub.stop()
        # No Hub runs: the call waits in the socket that somebody holds.
        name = relay.start_tool("memory_upsert", path="a.md", content="two\n", expected_revision=first["revision"])
        held_hub.start()
        text_of(relay.answer(name)["result"])
        assert relay.tool("memory_get", path="a.md")["content"] == "two\n"
        assert relay.rpc("tools/list") == tools
        assert relay.finish() == ""


def test_a_kill_ends_no_relay(held_hub: Hub) -> None:
    with Relay(held_hub) as relay:
        relay.open()
        written = relay.tool("memory_upsert", path="a.md", content="one\n", expected_revision="absent")
        held_hub.kill()
        name = relay.start_tool("memory_get", path="a.md")
        held_hub.start()
        assert relay.joined(text_of(relay.answer(name)["result"]))["revision"] == written["revision"]


class Writer(threading.Thread):
    """One MCP client that writes document after document, reading each back, until told to stop."""

    def __init__(self, hub: Hub, number: int) -> None:
        super().__init__()
        self.number = number
        self.relay = Relay(hub)
        self.stop = threading.Event()
        self.acknowledged: dict[str, str] = {}
        self.uncertain: set[str] = set()
        self.failures: list[str] = []
        self.count = 0

    def run(self) -> None:
        with self.relay as relay:
            relay.open()
            while not self.stop.is_set():
                self.count += 1
                path, content = f"w{self.number}/{self.count}.md", f"{self.number} {self.count}\n"
                try:
                    reply = relay.tool("memory_upsert", path=path, content=content, expected_revision="absent")
                    self.acknowledged[path] = content
                    assert relay.tool("memory_get", path=path)["revision"] == reply["revision"]
                except ToolError as error:
                    if error.code == "outcome_uncertain" and error.details["path"] == path:
                        self.uncertain.add(path)
                    else:
                        self.failures.append(str(error))
                except Exception as error:
                    self.failures.append(repr(error))
                    return


def _under_load(hub: Hub, disturb: Any) -> list[Writer]:
    writers = [Writer(hub, number) for number in range(CLIENTS)]
    for writer in writers:
        writer.start()
    try:
        for _ in range(RESTARTS):
            before = [writer.count for writer in writers]
            until(
                lambda before=before: all(
                    writer.count > count + 3 or not writer.is_alive()
                    for writer, count in zip(writers, before, strict=True)
                ),
                "writes of every client",
            )
            disturb(hub)
    finally:
        for writer in writers:
            writer.stop.set()
        for writer in writers:
            writer.join(60)
    assert not any(writer.is_alive() for writer in writers)
    return writers


def _stored(hub: Hub) -> dict[str, str]:
    scope = hub.home / "memory" / "global"
    return {str(path.relative_to(scope)): path.read_text() for path in scope.glob("w*/*.md")}


def test_restarts_under_load_fail_no_call_and_lose_no_write(held_hub: Hub) -> None:
    """A Hub that stops in order says what it did not run: nothing at all is uncertain."""
    writers = _under_load(held_hub, lambda hub: hub.restart())
    assert [failure for writer in writers for failure in writer.failures] == []
    assert [path for writer in writers for path in writer.uncertain] == []
    stored = _stored(held_hub)
    for writer in writers:
        assert writer.acknowledged.items() <= stored.items()


def test_kills_under_load_leave_only_uncertain_writes_and_lose_none(held_hub: Hub) -> None:
    def kill(hub: Hub) -> None:
        hub.kill()
        hub.start()

    writers = _under_load(held_hub, kill)
    assert [failure for writer in writers for failure in writer.failures] == []
    stored = _stored(held_hub)
    for writer in writers:
        assert writer.acknowledged.items() <= stored.items()
        for path in writer.uncertain:
            assert stored.get(path) in (None, f"{writer.number} {path.split('/')[1].removesuffix('.md')}\n")


def test_without_somebody_who_holds_the_sockets_errors_are_clear_and_nothing_is_lost(tmp_path: Path) -> None:
    with Hub(tmp_path / "hub") as hub, Relay(hub) as relay:
        relay.open()
        written = relay.tool("memory_upsert", path="a.md", content="one\n", expected_revision="absent")
        hub.stop()
        read = relay.start_tool("memory_get", path="a.md")
        write = relay.start_tool("memory_upsert", path="b.md", content="", expected_revision="absent")
        for name in (read, write):
            with pytest.raises(ToolError) as gone:
                text_of(relay.answer(name)["result"])
            assert gone.value.code == "hub_unavailable"
            assert "amux-hub" in gone.value.message
        hub.start()
        assert relay.tool("memory_get", path="a.md")["revision"] == written["revision"]
        assert relay.tool("memory_get", path="b.md")["exists"] is False
        assert relay.finish() == ""


def test_c19_nothing_but_messages_with_debug_and_warnings_on(tmp_path: Path) -> None:
    """`Relay` checks each line of standard output; here everything that could write there is on."""
    noisy = {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "always", "PYTHONVERBOSE": "0"}
    with (
        Hub(tmp_path / "hub", held=True, config={"log": {"level": "debug"}}, env=noisy) as hub,
        Relay(hub, env=noisy) as relay,
    ):
        secret = "a sentence that no log may repeat"
        for _ in range(12):  # more than the SDK keeps ahead of the first request
            relay.send({"jsonrpc": "2.0", "method": "notifications/odd", "params": {"text": secret}})
        relay.open()
        relay.tool("memory_upsert", path="private.md", content=secret, expected_revision="absent")
        relay.tool("memory_search", query="sentence")
        relay.send_bytes(b"no json\n")
        hub.restart()
        relay.tool("memory_get", path="private.md")
        relay.finish()
        assert secret not in hub.stderr
        assert "private.md" not in hub.stderr
        assert "sentence" not in hub.stderr
