"""Every request is answered under the id that its client gave it, however odd the message, through `amux mcp` too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amux import limits
from amux.relay_call import is_crowded
from amux_hub.mcp.ids import id_of
from amux_hub.wire import strictjson
from tests.harness import Hub
from tests.mcp.peers import Direct, Relay

CROWD = b",".join([b"0"] * (limits.JSON_VALUES + 1))
ODD = {
    "too many values, the id first": (
        b'{"jsonrpc":"2.0","id":%s,"method":"ping","params":{"a":[' + CROWD + b"]}}",
        -32700,
    ),
    "too many values, the id after the method": (
        b'{"jsonrpc": "2.0", "method": "ping", "id": %s, "params": {"id": 8, "a": [' + CROWD + b"]}}",
        -32700,
    ),
    "too many values, the id last": (
        b'{"method":"ping","params":{"id":8,"a":[' + CROWD + b'],"t":"\\",\\"id\\":9}"},"jsonrpc":"2.0","id":%s}',
        -32700,
    ),
    "too many values, the id before the version": (
        b'{"method":"ping","params":{"id":8,"a":[' + CROWD + b'],"t":1},"id":%s,"jsonrpc":"2.0"}',
        -32700,
    ),
    "too many values, the id before the method and the version": (
        b'{"params":{"id":8,"a":[' + CROWD + b']}, "id": %s , "method" : "ping", "jsonrpc": "2.0" }',
        -32700,
    ),
    "a request and an error": (b'{"jsonrpc":"2.0","id":%s,"method":"ping","error":{"code":1,"message":"x"}}', -32600),
    "a request and a result": (b'{"jsonrpc":"2.0","id":%s,"method":"ping","result":{}}', -32600),
    "a method that is none, and a result": (b'{"jsonrpc":"2.0","id":%s,"method":null,"result":{}}', -32600),
    "a method that is a number, and an error": (
        b'{"jsonrpc":"2.0","id":%s,"method":5,"error":{"code":1,"message":"x"}}',
        -32600,
    ),
}


@pytest.mark.parametrize("way", [Direct, Relay])
@pytest.mark.parametrize("name", [7, "7", 'a"\\b', "é" * (limits.ID_BYTES // 2)])
@pytest.mark.parametrize("odd", ODD)
def test_s6_an_odd_request_is_answered_by_its_id(shared_hub: Hub, way: type, odd: str, name: Any) -> None:
    line, code = ODD[odd]
    with way(shared_hub.sockets["mcp"] if way is Direct else shared_hub) as peer:
        peer.open()
        peer.send_bytes(line % json.dumps(name).encode() + b"\n")
        assert peer.answer(name)["error"]["code"] == code
        if isinstance(peer, Relay):
            peer.finish()  # nothing is left unanswered that it would wait for


@pytest.mark.parametrize("name", [7, "7"])
def test_s6_the_relay_finds_an_id_between_much_else(shared_hub: Hub, name: Any) -> None:
    """The Hub would look for it at the ends of the message alone."""
    crowd = json.loads(b"[" + CROWD + b"]")
    message = {"method": "ping", "params": {"a": crowd}, "id": name, "_meta": {"a": crowd, "id": 9}}
    assert id_of(json.dumps(message).encode()) is None
    with Relay(shared_hub) as peer:
        peer.open()
        peer.send(message)
        error = peer.answer(name)["error"]
        assert (error["code"], error["data"]["code"]) == (-32700, "protocol_error")
        peer.rpc("ping")
        peer.finish()


@pytest.mark.parametrize(("kind", "cost"), [(0, 1), ([], 2), ({}, 2), (",[{", 1), ({"a": {}}, 3)])
def test_s6_the_relay_counts_values_as_the_hub_does(kind: Any, cost: int) -> None:
    around = 5  # the brackets and commas of everything else
    for count in range(limits.JSON_VALUES - 10, limits.JSON_VALUES + 10):
        member = [kind] * (count // cost) + [0] * (count % cost)
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": member}}
        line = json.dumps(message).encode()
        wanted = count + around >= limits.JSON_VALUES
        assert (is_crowded(message, line), strictjson.crowded(line)) == (wanted, wanted)


def test_s6_an_id_that_is_not_found_is_none_of_another_message() -> None:
    assert id_of(b'{"jsonrpc":"2.0","params":{"id":8,"a":[' + CROWD + b'],"b":{"id":9}}}') is None
    assert id_of(b'{"params":{"a":[' + CROWD + b'],"id":9,"method":"x"}}') is None
    assert id_of(b'{"params":{"a":[' + CROWD + b'],"id":9},"method":"x","jsonrpc":"2.0"}') is None
    assert id_of(b'{"params":{"a":[' + CROWD + b']},"t":",\\"id\\":9,","method":"x","jsonrpc":"2.0"}') is None
    assert id_of(b'{"jsonrpc":"2.0","params":["' + b"," * 2000 + b'","id",9]}') is None


@pytest.mark.parametrize(("name", "other"), [(1, "1"), ("1", 1), ("1", " 1"), (1, 1.0), (1, True)])
def test_s6_a_cancellation_of_another_id_cancels_nothing(shared_hub: Hub, name: Any, other: Any) -> None:
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": other}}
    query = {"name": "amux.memory_search", "arguments": {"query": "x"}}
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        for _ in range(20):
            peer.request("tools/call", query, name)
            peer.send(cancel)
            assert "result" in peer.answer(name)


def test_s6_one_and_its_text_are_two_requests(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        for name in (1, "1", 1, "1"):
            peer.request("tools/call", {"name": "amux.memory_search", "arguments": {"query": "x"}}, name)
        for name in (1, 1, "1", "1"):
            answer = peer.answer(name)
            assert answer["id"] == name and type(answer["id"]) is type(name)


@pytest.mark.parametrize("way", [Direct, Relay])
@pytest.mark.parametrize("name", ["i" * (limits.ID_BYTES + 1), "é" * limits.ID_BYTES, "i" * 520_000])
def test_s6_an_id_that_is_too_long_is_refused(shared_hub: Hub, way: type, name: str) -> None:
    with way(shared_hub.sockets["mcp"] if way is Direct else shared_hub) as peer:
        peer.open()
        peer.request("tools/list", name=name)
        peer.rpc("ping")
        (refusal,) = peer.other
        assert refusal["id"] is None
        assert str(limits.ID_BYTES) in refusal["error"]["message"]
        if isinstance(peer, Relay):
            peer.finish()


LONG = "L" * 400_000


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        (LONG, {}),
        ("server/discover", {"_meta": {"io.modelcontextprotocol/protocolVersion": LONG}}),
        ("tools/call", {"name": LONG}),
        ("tools/list", {"cursor": LONG}),
        ("initialize", {"protocolVersion": LONG}),
    ],
)
def test_c18_an_error_repeats_no_long_text(shared_hub: Hub, modern: bool, method: str, parameters: Any) -> None:
    """The limit of a reply holds for what the SDK answers by itself too."""
    with Direct(shared_hub.sockets["mcp"], modern=modern) as peer:
        if not modern:
            peer.open()
        name = "é" * (limits.ID_BYTES // 2)
        peer.send({"jsonrpc": "2.0", "id": name, "method": method, "params": parameters})
        answer = peer.answer(name)
        assert "error" in answer
        assert len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()) <= limits.REPLY_BYTES
