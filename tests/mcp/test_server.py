"""The Hub's side of MCP, on mcp.sock itself: the first line, both eras, the tools, their arguments, the switch."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest

from amux.tools import TOOLS
from tests.harness import Hub, until
from tests.mcp.peers import HANDSHAKE, Direct, Relay, ToolError

MODERN = pytest.mark.parametrize("modern", [False, True], ids=["initialize", "discover"])


# The first line


def test_the_first_line_is_answered_with_the_version(shared_hub: Hub) -> None:
    for greeting in ({"amux": 1}, {"amux": 1, "binding": "global"}, {"amux": 1, "session": "s1", "binding": "global"}):
        with Direct(shared_hub.sockets["mcp"], greeting) as peer:
            assert peer.greeting == {"amux": 1, "version": "0.1.0"}
            peer.open()
            assert peer.tool("memory_get", path="nothing.md")["exists"] is False


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"amux":1,"session":"s1"}', "binding_required"),
        (b'{"amux":1,"binding":"principal:alice"}', "binding_mismatch"),
        (b'{"amux":1,"session":"s1","binding":"principal:alice"}', "binding_mismatch"),
        (b'{"amux":1,"binding":"everybody"}', "invalid_argument"),
        (b'{"amux":1,"session":"../x","binding":"global"}', "invalid_argument"),
        (b'{"amux":1,"principal":"alice"}', "invalid_argument"),
        (b'{"amux":1,"binding":null}', "invalid_argument"),
        (b'{"amux":1,"binding":7}', "invalid_argument"),
        (b'{"amux":1,"amux":1}', "invalid_argument"),
        (b'{"amux":true}', "invalid_argument"),
        (b'{"amux":"1"}', "invalid_argument"),
        (b"{}", "invalid_argument"),
        (b"[1]", "invalid_argument"),
        (b"GET / HTTP/1.1", "invalid_argument"),
        (b"\xff\xfe", "invalid_argument"),
        (b"", "invalid_argument"),
        (b'{"amux":2}', "version_mismatch"),
        (b'{"amux":1,"session":"' + b"s" * 1024 + b'"}', "protocol_error"),
    ],
)
def test_a_first_line_that_is_refused_is_answered_once_and_closed(shared_hub: Hub, line: bytes, code: str) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(shared_hub.sockets["mcp"]))
        connection.sendall(line + b"\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        data = _until_closed(connection)
    assert data.count(b"\n") == 1
    assert json.loads(data)["error"]["code"] == code


def test_s2_no_field_of_the_first_line_names_the_caller(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"], {"amux": 1, "uid": 0}) as peer:
        assert peer.greeting is not None
        assert peer.greeting["error"]["code"] == "invalid_argument"


def test_s5_a_first_line_that_does_not_come_in_time(tmp_path: Path) -> None:
    with Hub(tmp_path / "hub", config={"timeouts": {"first_frame": 0.2}}) as hub:
        for begun in (b"", b'{"amux"'):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(30)
                connection.connect(str(hub.sockets["mcp"]))
                connection.sendall(begun)
                assert json.loads(_until_closed(connection))["error"]["code"] == "protocol_error"


def test_s5_a_message_that_does_not_end_in_time(tmp_path: Path) -> None:
    with Hub(tmp_path / "hub", config={"timeouts": {"frame": 0.2}}) as hub, Direct(hub.sockets["mcp"]) as peer:
        peer.open()
        peer.send_bytes(b'{"jsonrpc":"2.0",')
        message = peer.receive()
        assert message is not None
        assert message["error"]["data"]["code"] == "protocol_error"
        assert peer.receive() is None


def test_a_connection_over_the_limit_is_told_in_one_line(tmp_path: Path) -> None:
    with (
        Hub(tmp_path / "hub", config={"limits": {"connections_per_uid": 2}}) as hub,
        Direct(hub.sockets["mcp"]),
        Direct(hub.sockets["mcp"]) as second,
    ):
        third = Direct(hub.sockets["mcp"])
        assert third.greeting is not None
        assert third.greeting["error"]["code"] == "limit_exceeded"
        assert third.greeting["error"]["details"]["limit"] == "limits.connections_per_uid"
        third.socket.close()
        second.socket.close()
        until(lambda: Direct(hub.sockets["mcp"]).greeting == {"amux": 1, "version": "0.1.0"}, "a free place")


# Both eras


@MODERN
def test_both_eras_list_the_table_of_tools_as_it_stands(shared_hub: Hub, modern: bool) -> None:
    with Direct(shared_hub.sockets["mcp"], modern=modern) as peer:
        opened = peer.open()
        assert opened["capabilities"]["tools"] is not None
        assert opened["instructions"].startswith("Long-term memory")
        listed = peer.rpc("tools/list")
        # The order of keys too: byte for byte.
        assert json.dumps(listed["tools"]) == json.dumps(TOOLS)
        if modern:
            assert (listed["ttlMs"], listed["cacheScope"]) == (3_600_000, "public")
            assert listed["resultType"] == "complete"


def test_the_table_of_tools_is_what_the_sdk_calls_tools() -> None:
    result = types.ListToolsResult.model_validate({"tools": TOOLS})
    assert [tool.name for tool in result.tools] == [tool["name"] for tool in TOOLS]
    for tool in result.tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in ("amux.memory_upsert", "amux.memory_forget"))


def test_the_era_is_that_of_the_first_request(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"], modern=True) as peer:
        peer.open()
        answer = peer.answer(peer.request("initialize", HANDSHAKE))
        assert answer["error"]["code"] == -32022


@MODERN
def test_the_four_operations(shared_hub: Hub, modern: bool) -> None:
    path = f"four/{modern}.md"
    with Direct(shared_hub.sockets["mcp"], modern=modern) as peer:
        peer.open()
        written = peer.tool("memory_upsert", path=path, content="# 部署\n\nuse tabs\n", expected_revision="absent")
        read = peer.tool("memory_get", path=path)
        assert read["content"] == "# 部署\n\nuse tabs\n"
        assert read["revision"] == written["revision"]
        found = peer.tool("memory_search", query="部署", path_prefix=path)
        assert [match["path"] for match in found["matches"]] == [path]
        with pytest.raises(ToolError) as conflict:
            peer.tool("memory_upsert", path=path, content="x", expected_revision="absent")
        assert conflict.value.code == "conflict"
        assert conflict.value.details["observed_revision"] == written["revision"]
        assert peer.tool("memory_forget", path=path, expected_revision=written["revision"])["revision"] == "absent"
        assert peer.tool("memory_forget", path=path, expected_revision="absent")["already_absent"] is True


# Arguments


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_get", {"path": "a.md", "session": "s1"}),
        ("memory_get", {"path": "a.md", "binding": "principal:bob"}),
        ("memory_get", {"path": "a.md", "principal": "bob"}),
        ("memory_search", {"query": "x", "regex": True}),
        ("memory_upsert", {"path": "a.md", "content": "x", "expected_revision": "absent", "force": True}),
        ("memory_forget", {"path": "a.md", "expected_revision": "absent", "x": None}),
        ("result_continue", {"continuation": "x", "page": 2}),
        ("result_continue", {}),
        ("result_continue", {"continuation": 5}),
        ("memory_get", {}),
        ("memory_get", {"path": 5}),
        ("memory_get", {"path": "a.md", "offset": True}),
        ("memory_get", {"path": "a.md", "start_line": 1.5}),
    ],
)
def test_wrong_and_unknown_arguments_are_results_with_is_error(
    shared_hub: Hub, tool: str, arguments: dict[str, Any]
) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        with pytest.raises(ToolError) as refused:
            peer.tool(tool, **arguments)
        assert refused.value.code == "invalid_argument"
        assert set(refused.value.details) <= {"argument", "value"}


def test_an_error_never_exceeds_a_page(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        for path in ("x" * 100_000 + ".md", '"' * 5000 + ".md", "部" * 4000 + ".md", "\x01" * 3000):
            with pytest.raises(ToolError) as refused:  # `text_of` asserts the length
                peer.tool("memory_get", path=path)
            assert refused.value.code == "invalid_path"
        with pytest.raises(ToolError) as refused:
            peer.tool("memory_get", **{"path": "a.md", "y" * 100_000: 1})
        assert refused.value.code == "invalid_argument"


def test_an_unknown_tool_is_a_protocol_error(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        for name in ("amux.memory_list", "memory_get", ""):
            answer = peer.answer(peer.request("tools/call", {"name": name, "arguments": {}}))
            assert answer["error"]["code"] == -32602
        assert peer.rpc("ping") == {}


# The switch


def test_while_off_the_tools_are_listed_and_every_call_answers_memory_disabled(tmp_path: Path) -> None:
    bound = {"AMUX_SESSION": "s1", "AMUX_MEMORY_BINDING": "global"}
    with Hub(tmp_path / "hub", held=True) as hub, Relay(hub, env=bound) as relay:
        relay.open()
        before = json.dumps(relay.rpc("tools/list"))
        written = relay.tool("memory_upsert", path="kept.md", content='"' * 9000, expected_revision="absent")
        page = json.loads(relay.block("memory_get", path="kept.md"))
        hub.stop()
        hub.save_settings({"memory": {"enabled": False}})
        hub.start()
        assert json.dumps(relay.rpc("tools/list")) == before
        calls: list[tuple[str, dict[str, Any]]] = [
            ("memory_get", {"path": "kept.md"}),
            ("memory_search", {"query": "x"}),
            ("memory_upsert", {"path": "n.md", "content": "", "expected_revision": "absent"}),
            ("memory_forget", {"path": "kept.md", "expected_revision": written["revision"]}),
            ("result_continue", {"continuation": page["continuation"]}),
        ]
        for tool, arguments in calls:
            with pytest.raises(ToolError) as refused:
                relay.tool(tool, **arguments)
            assert refused.value.code == "memory_disabled"
        # A new relay of the same session lists the tools too.
        with Relay(hub, env=bound) as another:
            another.open()
            assert json.dumps(another.rpc("tools/list")) == before
        hub.stop()
        hub.save_settings({"memory": {"enabled": True}})
        hub.start()
        assert relay.tool("memory_get", path="kept.md")["revision"] == written["revision"]
        assert json.dumps(relay.rpc("tools/list")) == before


def _until_closed(connection: socket.socket) -> bytes:
    data = b""
    while True:
        try:
            part = connection.recv(65536)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part
