"""The Hub's side of MCP with odd messages and odd peers: malformed, pipelined, slow, cancelling, leaving."""

from __future__ import annotations

import array
import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from tests.harness import Hub, until
from tests.mcp.peers import Direct, ToolError, text_of

# Messages


@pytest.mark.parametrize(
    ("line", "code", "name"),
    [
        (b"nonsense", -32700, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","method":"ping"}', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":NaN}}', -32700, 7),
        (b'{"jsonrpc":"2.0","id":"a","method":"ping","params":{"x":"\\ud800"}}', -32700, "a"),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":' + b"[" * 20 + b"]" * 20 + b"}}", -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":' + b"[" * 9000 + b"]" * 9000 + b"}}", -32700, None),
        (b'{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}', -32700, None),
        (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
        (b'[{"jsonrpc":"2.0","id":7,"method":"ping"}]', -32600, None),
        (b"5", -32600, None),
    ],
)
def test_s6_a_message_that_is_none_is_answered_and_the_conversation_goes_on(
    shared_hub: Hub, line: bytes, code: int, name: Any
) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        peer.send_bytes(line + b"\n")
        answer = peer.receive()
        assert answer is not None
        assert answer["error"]["code"] == code
        if name is not None or code == -32600:
            assert answer["id"] == name
        peer.send_bytes(b"\r\n  \n")
        assert peer.rpc("ping") == {}


def test_crlf_ends_a_message_too(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n')
        assert peer.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_s6_a_message_of_more_than_512_kib_is_answered_once_and_closes(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        largest = {"path": "large.md", "content": "x" * (500 * 1024), "expected_revision": "absent"}
        with pytest.raises(ToolError) as refused:
            peer.tool("memory_upsert", **largest)
        assert refused.value.code == "limit_exceeded"
        try:
            for _ in range(20):
                peer.send_bytes(b"x" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it need not read all of it
        answer = peer.receive()
        assert answer is not None
        assert answer["error"]["data"]["code"] == "protocol_error"
        assert answer["error"]["data"]["details"]["value"] == limits.FRAME_BYTES
        assert peer.receive() is None


@pytest.mark.parametrize("ended", [True, False])
def test_s6_the_largest_message_is_served_and_one_byte_more_is_refused(shared_hub: Hub, ended: bool) -> None:
    def ping(size: int) -> bytes:
        head, tail = b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"_meta":{"x":"', b'"}}}'
        return head + b"x" * (size - len(head) - len(tail)) + tail

    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        peer.send_bytes(ping(limits.FRAME_BYTES) + b"\n")
        assert peer.answer(9)["result"] == {}
        peer.send_bytes(ping(limits.FRAME_BYTES + 1) + (b"\n" if ended else b""))
        answer = peer.receive()
        assert answer is not None and answer["error"]["data"]["details"]["value"] == limits.FRAME_BYTES
        assert peer.receive() is None


def test_s4_descriptors_are_never_received(shared_hub: Hub) -> None:
    held = f"/proc/{shared_hub.pid}/fd"
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        before = len(os.listdir(held))
        fds = array.array("i", [os.open("/dev/null", os.O_RDONLY) for _ in range(253)])
        message = b'{"jsonrpc":"2.0","id":5,"method":"ping"}\n'
        peer.socket.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        answer = peer.receive()
        assert answer is not None
        assert answer["error"]["data"]["code"] == "protocol_error"
        assert peer.receive() is None
        for fd in fds:
            os.close(fd)
        until(lambda: len(os.listdir(held)) <= before, "the Hub's descriptors")


# Many calls, slow and leaving peers


def test_c1_sixty_pipelined_upserts(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        names = [
            peer.start_tool("memory_upsert", path=f"c1/{n}.md", content=f"{n}\n", expected_revision="absent")
            for n in range(60)
        ]
        for name in names:
            text_of(peer.answer(name)["result"])
        stored = sorted(path.name for path in (shared_hub.home / "memory/global/c1").iterdir())
        assert stored == sorted(f"{n}.md" for n in range(60))
        names = [
            peer.start_tool("memory_upsert", path="c1/one.md", content=f"{n}\n", expected_revision="absent")
            for n in range(60)
        ]
        conflicts, revisions = [], []
        for name in names:
            try:
                revisions.append(json.loads(text_of(peer.answer(name)["result"]))["revision"])
            except ToolError as error:
                assert error.code == "conflict"
                conflicts.append(error.details["observed_revision"])
        assert len(revisions) == 1
        assert conflicts == revisions * 59


def test_s7_a_client_that_never_reads_is_dropped_and_holds_nobody_up(tmp_path: Path) -> None:
    with Hub(tmp_path / "hub", config={"timeouts": {"write": 0.3}}) as hub, Direct(hub.sockets["mcp"]) as peer:
        peer.open()
        peer.tool("memory_upsert", path="big.md", content="x" * 60_000, expected_revision="absent")
        slow = Direct(hub.sockets["mcp"])
        slow.open()
        slow.socket.settimeout(30)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                slow.start_tool("memory_get", path="big.md")
        assert peer.tool("memory_get", path="big.md")["size_bytes"] == 60_000
        slow.socket.close()
        peak = _peak_kib(hub.pid)
        assert peak < 200 * 1024


def test_a_write_that_is_cancelled_is_whole_or_absent_and_the_conversation_goes_on(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        content = "y" * 60_000
        for number in range(40):
            name = peer.start_tool(
                "memory_upsert", path=f"cancel/{number}.md", content=content, expected_revision="absent"
            )
            peer.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}})
        assert peer.rpc("ping") == {}
        for number in range(40):
            read = peer.tool("memory_get", path=f"cancel/{number}.md")
            assert read["size_bytes"] in (0, len(content))
        # Cancelled calls gave their slots back.
        for number in range(40):
            peer.tool("memory_get", path=f"cancel/{number}.md")


def test_calls_of_a_peer_that_left_end_and_free_their_slots(shared_hub: Hub) -> None:
    for number in range(10):
        with Direct(shared_hub.sockets["mcp"]) as peer:
            peer.open()
            for n in range(20):
                peer.start_tool("memory_upsert", path=f"left/{number}-{n}.md", content="z", expected_revision="absent")
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        for _ in range(20):
            peer.tool("memory_get", path="left/0-0.md")
    status = shared_hub.call("io.amux.Hub.GetStatus")
    assert "error" not in status


def _peak_kib(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
