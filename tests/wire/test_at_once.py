"""Calls that need no waiting are answered within the event that brought them; nothing else about them differs."""

from __future__ import annotations

import json
import threading

from tests.wire.inprocess import Wire

GET = "io.amux.Memory.Get"


def test_calls_that_are_answered_at_once_do_not_nest_and_leave_the_others_their_turn(wire: Wire) -> None:
    wire.start()
    ready = json.dumps({"method": GET, "parameters": {"path": "ready.md"}}).encode() + b"\0"
    count = 5000  # more than Python nests
    with wire.connect("alice") as flooding, wire.connect("bob") as other:
        sender = threading.Thread(target=flooding.send, args=(ready * count,))
        sender.start()
        for _ in range(count // 2):
            answer = flooding.receive()
            assert answer is not None and answer["parameters"]["scope"] == "principal:alice"
        assert other.call(GET, path="ready.md")["parameters"]["scope"] == "principal:bob"
        for _ in range(count - count // 2):
            assert flooding.receive() is not None
        sender.join()
    assert wire.memory.calls == []
    assert wire.admission.requests == 0 and wire.admission.counters.requests_served >= count + 1


def test_what_fails_at_once_is_left_to_a_call_that_may_wait(wire: Wire) -> None:
    wire.start()
    assert wire.call("alice", GET, path="broken.md")["parameters"]["path"] == "broken.md"
    assert [method for _, method, _ in wire.memory.calls] == ["get"]
    assert wire.admission.requests == 0


def test_s2_nobody_is_answered_at_once_who_would_be_refused(wire: Wire) -> None:
    wire.start()
    assert wire.call("mallory", GET, path="ready.md")["error"] == "io.amux.Hub.IdentityRefused"


def test_another_version_is_not_answered_at_once(wire: Wire) -> None:
    wire.start()
    with wire.connect("alice") as channel:
        channel.send(json.dumps({"method": GET, "amux": "9.0", "parameters": {"path": "ready.md"}}).encode() + b"\0")
        answer = channel.receive()
        assert answer is not None and answer["error"] == "io.amux.Hub.VersionMismatch"


def test_a_one_way_call_is_answered_at_once_by_nothing(wire: Wire) -> None:
    wire.start()
    with wire.connect("alice") as channel:
        for oneway in (True, False):
            call = {"method": GET, "oneway": oneway, "parameters": {"path": "ready.md"}}
            channel.send(json.dumps(call).encode() + b"\0")
        assert channel.receive() is not None
        assert channel.call(GET, path="a.md")["parameters"]["path"] == "a.md"
