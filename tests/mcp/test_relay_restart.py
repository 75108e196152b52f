"""`amux mcp` against a Hub that stands still where the test wants it: what is sent again, and what is not."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from amux import endpoint, limits, relay
from tests.harness import until
from tests.mcp.fakehub import FakeHub, Link, again, opened
from tests.mcp.peers import Message, Peer, Relay, ToolError, protocol_message, text_of

WRITE = {"path": "notes/今日.md", "content": "x", "expected_revision": "absent"}


class Threaded(Peer):
    """The relay as an object in a thread, on pipes, so that a test can shorten its deadlines."""

    def __init__(self, hub_socket: Path) -> None:
        super().__init__()
        self._in, self._to = os.pipe()
        self._from, self._out = os.pipe()
        self._buffer = b""
        where = endpoint.Endpoint("private", str(hub_socket), "a test says so")
        self._relay = relay.Relay(where, b'{"amux":1}', self._in, self._out)
        self.status: int | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        self._relay.start()
        self.status = self._relay.run()

    def start(self, fake: FakeHub) -> Link:
        self._thread.start()
        return fake.accept()

    def send_bytes(self, data: bytes) -> None:
        os.write(self._to, data)

    def receive(self, seconds: float = 30) -> Message | None:
        while b"\n" not in self._buffer:
            data = os.read(self._from, 65536)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol_message(line)

    def finish(self) -> None:
        os.close(self._to)
        self._thread.join(30)
        assert self.status == 0
        for fd in (self._in, self._from, self._out):
            os.close(fd)


# Restarts


def test_a_read_is_sent_again_and_the_conversation_goes_on(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_get", path="a.md")
        link.expect("tools/call")
        link.close()
        link = again(fake)
        call = link.expect("tools/call")
        assert call["id"] == name
        link.text(call, "{}")
        assert text_of(client.answer(name)["result"]) == "{}"
        assert client.finish() == ""


def test_a_write_whose_bytes_left_is_uncertain_and_not_sent_again(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_upsert", **WRITE)
        link.expect("tools/call")
        link.close()
        with pytest.raises(ToolError) as unknown:
            text_of(client.answer(name)["result"])
        assert unknown.value.code == "outcome_uncertain"
        assert WRITE["path"] in unknown.value.message
        assert "read it again" in unknown.value.message
        assert unknown.value.details["path"] == WRITE["path"]
        name = client.start_tool("memory_get", path="notes/今日.md")
        link = again(fake)
        call = link.expect("tools/call")
        assert call["params"]["name"] == "amux.memory_get"
        link.text(call, "{}")
        client.answer(name)


def test_a_forget_and_an_unreadable_path_are_uncertain_too(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        names = [
            client.start_tool("memory_forget", path="a.md", expected_revision="absent"),
            client.start_tool("memory_upsert", path=7),
            client.request("tools/call", {"name": "amux.memory_upsert"}),
        ]
        for _ in names:
            link.expect("tools/call")
        link.close()
        for name in names:
            with pytest.raises(ToolError) as unknown:
                text_of(client.answer(name)["result"])
            assert unknown.value.code == "outcome_uncertain"


def test_a_write_of_which_no_byte_left_is_sent_again(fake: FakeHub) -> None:
    """The Hub reads nothing, so the second write waits in the relay when the connection ends."""
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        big = "y" * (limits.FRAME_BYTES - 4096)
        first = client.start_tool("memory_upsert", path="first.md", content=big, expected_revision="absent")
        second = client.start_tool("memory_upsert", path="second.md", content="z", expected_revision="absent")
        client.request("ping")  # behind both: once it is read from us, they were
        until(lambda: _unread(link) > 0, "the first bytes of the first write")
        link.close()
        with pytest.raises(ToolError) as unknown:
            text_of(client.answer(first)["result"])
        assert unknown.value.details["path"] == "first.md"
        link = again(fake)
        call = link.expect("tools/call")
        assert call["params"]["arguments"]["path"] == "second.md"
        link.text(call, '{"revision":"r"}')
        assert text_of(client.answer(second)["result"]) == '{"revision":"r"}'


def test_a_write_that_the_hub_refused_as_shutting_down_is_sent_to_the_next_one(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        running = client.start_tool("memory_upsert", **WRITE)
        begun = link.expect("tools/call")
        refused = client.start_tool("memory_upsert", **{**WRITE, "path": "refused.md"})
        link.shutting_down(link.expect("tools/call"))
        late = client.start_tool("memory_get", path="late.md")
        link.text(begun, '{"revision":"r"}')
        assert text_of(client.answer(running)["result"]) == '{"revision":"r"}'
        link.close()
        link = again(fake)
        paths = []
        for _ in range(2):
            call = link.expect("tools/call")
            paths.append(call["params"]["arguments"]["path"])
            link.text(call, '{"done":1}')
        assert sorted(paths) == ["late.md", "refused.md"]
        for name in (refused, late):
            assert text_of(client.answer(name)["result"]) == '{"done":1}'


def test_a_document_that_says_shutting_down_is_an_answer(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_get", path="a.md")
        text = json.dumps({"error": {"code": "shutting_down"}})
        link.text(link.expect("tools/call"), text)
        assert text_of(client.answer(name)["result"]) == text


def test_after_the_goodbye_nothing_unanswered_was_run(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_upsert", **WRITE)
        link.expect("tools/call")
        link.send({"amux": 1, "closing": True})
        link.close()
        link = again(fake)
        call = link.expect("tools/call")
        link.text(call, '{"revision":"r"}')
        assert text_of(client.answer(name)["result"]) == '{"revision":"r"}'


def test_a_hub_that_went_while_nothing_was_asked_is_not_missed(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        opened(fake, client).close()
        fake.gone()
        with pytest.raises(TimeoutError):
            client.receive(0.3)
        assert client.process.poll() is None
        fake.listen()
        name = client.request("ping")
        link = again(fake)
        link.answer(link.expect("ping"), {})
        assert client.answer(name)["result"] == {}


def test_the_handshake_itself_survives_a_restart(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = fake.accept()
        name = client.request("initialize", {"protocolVersion": "2025-11-25"})
        link.expect("initialize")
        link.close()
        link = fake.accept()
        request = link.expect("initialize")
        assert request["id"] == name
        link.answer(request, {"protocolVersion": "2025-11-25"})
        client.answer(name)


def test_the_era_of_2026_is_replayed_with_server_discover(fake: FakeHub) -> None:
    with Relay(fake.hub_socket, modern=True) as client:
        link = fake.accept()
        name = client.request("server/discover")
        link.answer(link.expect("server/discover"), {"supportedVersions": ["2026-07-28"]})
        client.answer(name)
        name = client.start_tool("memory_get", path="a.md")
        link.expect("tools/call")
        link.close()
        link = fake.accept()
        replayed = link.expect("server/discover")
        link.answer(replayed, {})
        link.text(link.expect("tools/call"), "{}")
        client.answer(name)
        write = client.start_tool("memory_upsert", **WRITE)
        link.expect("tools/call")
        link.close()
        result = client.answer(write)["result"]
        assert result["resultType"] == "complete"
        assert json.loads(result["content"][0]["text"])["error"]["code"] == "outcome_uncertain"


def test_a_probe_that_was_refused_is_not_replayed(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = fake.accept()
        name = client.request("server/discover")
        request = link.expect("server/discover")
        link.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no"}})
        assert "error" in client.answer(name)
        name = client.request("initialize", {"protocolVersion": "2025-11-25"})
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        link.handshake()
        client.answer(name)
        link.close()
        client.request("ping")
        again(fake).expect("ping")


# Deadlines, shortened


@pytest.fixture
def threaded(fake: FakeHub, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Threaded, Link]]:
    assert (relay.START_SECONDS, relay.RECONNECT_SECONDS) == (5.0, 10.0)
    monkeypatch.setattr(relay, "RECONNECT_SECONDS", 0.4)
    client = Threaded(fake.hub_socket)
    link = client.start(fake)
    yield client, link
    client.finish()


def test_when_no_hub_comes_back_every_call_is_answered(fake: FakeHub, threaded: tuple[Threaded, Link]) -> None:
    client, link = threaded
    fake.gone()
    link.close()
    listed = client.request("tools/list")
    read = client.start_tool("memory_get", path="a.md")
    write = client.start_tool("memory_upsert", **WRITE)  # no byte of it left
    answer = client.answer(listed)
    assert answer["error"]["data"]["code"] == "hub_unavailable"
    for name in (read, write):
        with pytest.raises(ToolError) as gone:
            text_of(client.answer(name)["result"])
        assert gone.value.code == "hub_unavailable"
        assert "start it with" in gone.value.message
    fake.listen()
    name = client.request("ping")
    link = fake.accept()
    link.answer(link.expect("ping"), {})
    assert client.answer(name)["result"] == {}


def test_a_hub_that_takes_connections_but_never_greets_is_not_waited_for(
    fake: FakeHub, threaded: tuple[Threaded, Link]
) -> None:
    client, link = threaded
    link.close()
    name = client.start_tool("memory_get", path="a.md")
    fake.accept(greet=False)
    with pytest.raises(ToolError) as gone:
        text_of(client.answer(name)["result"])
    assert gone.value.code == "hub_unavailable"


@pytest.mark.parametrize(("code", "waits"), [("binding_mismatch", False), ("busy", True), ("shutting_down", True)])
def test_a_refusal_on_the_way_back(fake: FakeHub, threaded: tuple[Threaded, Link], code: str, waits: bool) -> None:
    client, link = threaded
    link.close()
    name = client.start_tool("memory_get", path="a.md")
    link = fake.accept(greet=False)
    link.receive()
    link.send({"error": {"code": code, "message": "no", "details": {}}})
    link.close()
    if waits:
        link = fake.accept()
        link.text(link.expect("tools/call"), "{}")
        assert text_of(client.answer(name)["result"]) == "{}"
    else:
        with pytest.raises(ToolError) as refused:
            text_of(client.answer(name)["result"])
        assert refused.value.code == code


def test_a_read_that_ends_each_hub_is_not_sent_for_ever(fake: FakeHub, threaded: tuple[Threaded, Link]) -> None:
    client, link = threaded
    name = client.start_tool("memory_get", path="a.md")
    done: list[Message] = []
    reader = threading.Thread(target=lambda: done.append(client.answer(name)))
    reader.start()
    fake._listener.settimeout(0.2)
    now: Link | None = link
    times = 0
    while reader.is_alive():
        try:
            if now is None:
                now = fake.accept()
                now.socket.settimeout(0.2)
            now.expect("tools/call")
        except TimeoutError:
            continue  # it gave up between two Hubs
        now.close()
        now = None
        times += 1
    reader.join()
    assert json.loads(done[0]["result"]["content"][0]["text"])["error"]["code"] == "hub_unavailable"
    assert times > 1


def _unread(link: Link) -> int:
    value: int = struct.unpack("i", fcntl.ioctl(link.socket, termios.FIONREAD, b"\0" * 4))[0]
    return value
