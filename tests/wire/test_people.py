"""Two made-up people on one wire: who is calling, whose limits count, and what a drain leaves undone (nothing)."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack
from typing import Any

import pytest

from tests.harness import Channel, until
from tests.wire.inprocess import PEOPLE, Wire

GET = "io.amux.Memory.Get"


def _hold(wire: Wire, name: str, count: int) -> list[Channel]:
    """`count` calls of `name` that run until the memory's `go`."""
    before = wire.memory.holding
    channels = []
    for _ in range(count):
        channel = wire.connect(name)
        channel.send(json.dumps({"method": GET, "parameters": {"path": "hold.md"}}).encode() + b"\0")
        channels.append(channel)
    until(lambda: wire.memory.holding == before + count, f"{count} calls of {name} run")
    return channels


def test_s2_each_call_reaches_the_scope_of_its_own_caller(wire: Wire) -> None:
    wire.start()
    for name in ("alice", "bob", "alice"):
        assert wire.call(name, GET, path="a.md")["parameters"]["scope"] == f"principal:{name}"
        who = wire.call(name, "io.amux.Hub.WhoAmI")["parameters"]
        assert (who["principal"], who["binding"]) == (name, f"principal:{name}")
        with wire.connect(name) as channel:
            channel.send(
                json.dumps({"method": GET, "principal": "root", "uid": 0, "parameters": {"path": "a.md"}}).encode()
                + b"\0"
            )
            answer = channel.receive()
            assert answer is not None and answer["parameters"]["scope"] == f"principal:{name}"
    assert [caller.principal for caller, _, _ in wire.memory.calls] == [
        "alice",
        "alice",
        "bob",
        "bob",
        "alice",
        "alice",
    ]


def test_s2_only_administrators_see_the_home_and_the_settings(wire: Wire) -> None:
    wire.start()
    status = wire.call("alice", "io.amux.Hub.GetStatus")["parameters"]
    assert "home" not in status and "config_file" not in status
    for method, parameters in (
        ("ListSettings", {}),
        ("GetSetting", {"key": "home"}),
        ("SetSetting", {"key": "memory.enabled", "value": "true"}),
    ):
        answer = wire.call("alice", f"io.amux.Admin.{method}", **parameters)
        assert answer["error"] == "io.amux.Hub.Forbidden"


@pytest.mark.parametrize("name", ["mallory", "nobody"])
def test_s8_a_refused_peer_is_told_at_its_call_and_its_connection_ends(wire: Wire, name: str) -> None:
    wire.start()
    with wire.connect(name) as channel:
        # Grammar comes before identity, and is no reason to close.
        assert channel.call(GET)["error"] == "io.amux.Hub.InvalidArgument"
        answer = channel.call(GET, path="a.md")
        assert answer["error"] == "io.amux.Hub.IdentityRefused"
        assert str(PEOPLE[name]) in answer["parameters"]["message"]
        assert channel.receive() is None
    assert not wire.memory.calls
    for method in ("io.amux.Hub.WhoAmI", "io.amux.Hub.GetStatus", "io.amux.Hub.GetCapabilities"):
        assert wire.call(name, method)["error"] == "io.amux.Hub.IdentityRefused"


def test_an_unexpected_exception_is_internal_logged_and_the_connection_goes_on(
    wire: Wire, caplog: pytest.LogCaptureFixture
) -> None:
    wire.start()
    with wire.connect("alice") as channel:
        for path in ("fault.md", "large.md"):
            answer = channel.call(GET, path=path)
            assert answer["error"] == "io.amux.Hub.Internal"
            assert "made up" not in json.dumps(answer)
        assert "error" not in channel.call(GET, path="a.md")
    assert "ZeroDivisionError" in caplog.text
    assert "OversizeError" in caplog.text


def test_c44_connections_are_capped_per_uid_and_others_are_unaffected(wire: Wire) -> None:
    wire.limits.connections_per_uid = 50
    wire.start()
    with ExitStack() as stack:
        channels = [stack.enter_context(wire.connect("alice")) for _ in range(500)]
        refused = []
        for channel in channels[50:]:
            answer = channel.receive()
            assert answer is not None and answer["error"] == "io.amux.Hub.LimitExceeded"
            refused.append(answer["parameters"])
            assert channel.receive() is None
        assert refused[0]["details"] == {"limit": "limits.connections_per_uid", "value": 50, "found": 51}
        for channel in channels[:50]:
            assert "error" not in channel.call(GET, path="a.md")
        assert "error" not in wire.call("bob", GET, path="a.md")
    until(lambda: wire.admission.connections == 0, "closed connections count no more")
    assert "error" not in wire.call("alice", GET, path="a.md")


def test_c44_the_total_is_busy_for_whoever_comes_last(wire: Wire) -> None:
    wire.limits.connections = 3
    wire.start()
    with ExitStack() as stack:
        channels = [stack.enter_context(wire.connect("alice")) for _ in range(3)]
        for channel in channels:
            assert "error" not in channel.call(GET, path="a.md")
        answer = stack.enter_context(wire.connect("bob")).receive()
        assert answer is not None and answer["error"] == "io.amux.Hub.Busy"
        assert answer["parameters"]["details"]["retry_after_ms"] > 0
        assert answer["parameters"]["details"]["limit"] == "limits.connections"


def test_c44_requests_wait_for_their_turn_and_then_are_busy(wire: Wire) -> None:
    wire.limits.requests_per_uid = 4
    wire.start()
    held = _hold(wire, "alice", 4)
    with wire.connect("alice") as waiting, wire.connect("alice") as late:
        waiting.send(json.dumps({"method": GET, "parameters": {"path": "a.md"}}).encode() + b"\0")
        until(lambda: wire.admission._uids[1001].waiting, "the fifth request waits")
        assert "error" not in wire.call("bob", GET, path="a.md")
        wire.limits.request_wait = 0.05
        answer = late.call(GET, path="b.md")
        assert answer["error"] == "io.amux.Hub.Busy"
        details = answer["parameters"]["details"]
        assert details["limit"] == "limits.requests_per_uid" and details["retry_after_ms"] > 0
        wire.soon(wire.memory.go.set)
        assert waiting.receive() == {"parameters": {"path": "a.md", "scope": "principal:alice"}}
        for channel in held:
            assert channel.receive() is not None
            channel.close()
    until(lambda: wire.admission.connections == 0, "everything is released")
    assert wire.admission.requests == 0 and not wire.admission._uids


def test_c44_a_flood_that_leaves_releases_everything(wire: Wire) -> None:
    wire.limits.requests_per_uid = 2
    wire.start()
    for channel in _hold(wire, "alice", 2):
        channel.close()
    for _ in range(50):
        with wire.connect("alice") as channel:
            channel.send(json.dumps({"method": GET, "parameters": {"path": "hold.md"}}).encode() + b"\0")
    until(lambda: len(wire.admission._uids[1001].waiting) == 50, "all wait although their peers left")
    wire.soon(wire.memory.go.set)
    until(lambda: not wire.admission._uids, "every slot is given back")
    assert wire.admission.requests == 0 and wire.admission.connections == 0


def test_s6_what_follows_a_running_call_waits_unread(wire: Wire) -> None:
    wire.start()
    channel = _hold(wire, "alice", 1)[0]
    call = json.dumps({"method": GET, "parameters": {"path": "a.md"}}).encode() + b"\0"
    channel.socket.setblocking(False)
    sent = 0
    with pytest.raises(BlockingIOError):  # the kernel's buffer fills, ours does not
        while sent < 100 * 1024 * 1024:
            sent += channel.socket.send(call * 1000)
    assert sent < 10 * 1024 * 1024
    assert not wire.memory.calls[1:]
    channel.socket.setblocking(True)
    channel.socket.settimeout(30)
    wire.soon(wire.memory.go.set)
    for _ in range(sent // len(call) + 1):
        answer = channel.receive()
        assert answer is not None and "error" not in answer
    channel.close()


def test_s5_an_idle_connection_is_closed_without_a_word(wire: Wire) -> None:
    wire.timeouts.idle = 0.1
    wire.start()
    with wire.connect("alice") as channel:
        assert "error" not in channel.call(GET, path="a.md")
        assert channel.receive() is None


# Draining


def _drain(wire: Wire) -> Any:
    async def drain() -> None:
        wire.admission.drain()
        await wire.server.drain()

    return asyncio.run_coroutine_threadsafe(drain(), wire._loop)


def test_a_drain_answers_what_runs_and_tells_the_rest_that_it_did_not_run(wire: Wire) -> None:
    wire.start()
    call = json.dumps({"method": GET, "parameters": {"path": "after.md"}}).encode() + b"\0"
    running = _hold(wire, "alice", 1)[0]
    running.send(call * 3)  # pipelined behind the one that runs
    wire.limits.requests_per_uid = 1
    waiting = wire.connect("alice")
    waiting.send(call)
    until(lambda: wire.admission._uids[1001].waiting, "a call waits for a slot")
    begun = wire.connect("bob")
    assert "error" not in begun.call(GET, path="a.md")
    begun.send(call[:7])
    idle = wire.connect("bob")
    assert "error" not in idle.call(GET, path="a.md")
    queued = wire.connect("bob")
    assert "error" not in queued.call(GET, path="a.md")
    ran = len(wire.memory.calls)

    drained = _drain(wire)
    assert idle.receive() is None
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        while True:
            idle.send(call)
    answer = waiting.receive()
    assert answer is not None and answer["error"] == "io.amux.Hub.ShuttingDown"
    assert waiting.receive() is None
    begun.send(call[7:])
    answer = begun.receive()
    assert answer is not None and answer["error"] == "io.amux.Hub.ShuttingDown"
    assert begun.receive() is None
    assert not drained.done()

    wire.soon(wire.memory.go.set)
    answer = running.receive()
    assert answer is not None and answer["parameters"]["path"] == "hold.md"
    for _ in range(3):
        answer = running.receive()
        assert answer is not None and answer["error"] == "io.amux.Hub.ShuttingDown"
    assert running.receive() is None
    drained.result(30)
    assert len(wire.memory.calls) == ran
    assert wire.admission.connections == 0


def test_a_call_that_was_queued_when_the_drain_began_is_answered(wire: Wire) -> None:
    """Sent, not yet read: the loop is kept busy meanwhile, so the call is certainly in the kernel's queue."""
    wire.start()
    channel = wire.connect("alice")
    assert "error" not in channel.call(GET, path="a.md")
    call = json.dumps({"method": GET, "parameters": {"path": "b.md"}}).encode() + b"\0"

    async def send_and_drain() -> None:
        channel.socket.send(call * 2 + call[:9])
        wire.admission.drain()
        await wire.server.drain()

    asyncio.run_coroutine_threadsafe(send_and_drain(), wire._loop).result(30)
    for _ in range(2):
        answer = channel.receive()
        assert answer is not None and answer["error"] == "io.amux.Hub.ShuttingDown"
    assert channel.receive() is None
    assert [parameters["path"] for _, _, parameters in wire.memory.calls] == ["a.md"]


def test_a_call_that_the_drain_cut_in_two_is_answered(wire: Wire) -> None:
    wire.start()
    channel = wire.connect("alice")
    assert "error" not in channel.call(GET, path="a.md")

    async def send_and_drain() -> None:
        channel.socket.send(b'{"method":')
        await wire.server.drain()

    asyncio.run_coroutine_threadsafe(send_and_drain(), wire._loop).result(30)
    answer = channel.receive()
    assert answer is not None and answer["error"] == "io.amux.Hub.ShuttingDown"
    assert channel.receive() is None


def test_a_peer_that_reads_nothing_cannot_hold_a_drain_up(wire: Wire) -> None:
    wire.timeouts.write = 0.2
    wire.start()
    channel = wire.connect("alice")
    describe = b'{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"io.amux.Hub"}}\0'
    channel.socket.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            channel.socket.send(describe * 100)
    _drain(wire).result(30)
    channel.close()


def test_descriptors_of_closed_connections_are_closed(wire: Wire) -> None:
    wire.start()
    with socket.socketpair()[0] as probe:
        lowest = probe.fileno()
    for _ in range(200):
        assert "error" not in wire.call("alice", GET, path="a.md")
    until(lambda: wire.admission.connections == 0, "all connections ended")
    with socket.socketpair()[0] as probe:
        assert probe.fileno() <= lowest + 2
