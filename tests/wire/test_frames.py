"""Frames and their deadlines at a real Hub: each violation is answered once and ends one connection alone."""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from tests.harness import Channel, Hub, until

WHO = b'{"method":"io.amux.Hub.WhoAmI"}\0'
SOON = 0.3
"""A deadline of the tests, in seconds: waited for, never measured."""


def _is_violation(answer: dict[str, Any] | None) -> bool:
    return answer is not None and answer["error"] == "io.amux.Hub.ProtocolError"


def _serves(hub: Hub) -> None:
    assert hub.call("io.amux.Hub.WhoAmI")["parameters"]["uid"] == os.getuid()


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _resident(pid: int) -> int:
    """Bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


_VIOLATIONS = {
    "no JSON": b"hello\0",
    "nothing": b"\0",
    "a list": b"[]\0",
    "no method": b"{}\0",
    "duplicate keys": b'{"method":"io.amux.Hub.WhoAmI","method":"io.amux.Hub.GetStatus"}\0',
    "NaN": b'{"method":"io.amux.Hub.WhoAmI","x":NaN}\0',
    "lone surrogate": b'{"method":"io.amux.Hub.WhoAmI","x":"\\udc00"}\0',
    "depth": b'{"method":"io.amux.Hub.WhoAmI","x":' + b"[" * 16 + b"]" * 16 + b"}\0",
    "not UTF-8": b'{"method":"io.amux.Hub.WhoAmI","x":"\xff"}\0',
    "an MCP client": b'{"amux":1}\n{"jsonrpc":"2.0","id":1,"method":"initialize"}\n\0',
}


@pytest.mark.parametrize("data", _VIOLATIONS.values(), ids=_VIOLATIONS)
def test_s6_a_violation_is_answered_once_and_closes(hub: Hub, data: bytes) -> None:
    with hub.connect() as channel:
        assert "parameters" in channel.call("io.amux.Hub.WhoAmI")
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # closed before all of it was taken
            channel.send(data)
        answer = channel.receive()
        assert _is_violation(answer)
        assert channel.receive() is None
    _serves(hub)


def _call_of(size: int) -> bytes:
    """A call that nothing is wrong with but, perhaps, its size."""
    frame = b'{"method":"io.amux.Hub.WhoAmI","x":"'
    return frame + b"x" * (size - len(frame) - 2) + b'"}'


def test_s6_the_largest_frame_is_read(hub: Hub) -> None:
    with hub.connect() as channel:
        channel.send(_call_of(limits.FRAME_BYTES) + b"\0")
        answer = channel.receive()
        assert answer is not None and "error" not in answer


@pytest.mark.parametrize("end", [b"\0", b"", b"x" * 30_000 + b"\0"], ids=["ended", "without an end", "longer"])
def test_s6_one_byte_more_than_the_largest_frame_is_refused_for_its_size(hub: Hub, end: bytes) -> None:
    with hub.connect() as channel:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # closed before all of it was taken
            channel.send(_call_of(limits.FRAME_BYTES + 1) + end)
        answer = channel.receive()
        assert _is_violation(answer)
        assert answer is not None and str(limits.FRAME_BYTES) in answer["parameters"]["message"]
        assert channel.receive() is None
    _serves(hub)


def test_s6_giant_frames_leave_memory_flat(hub: Hub) -> None:
    def flood() -> None:
        for _ in range(30):
            with hub.connect() as channel:
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    channel.send(b"[" * (4 * limits.FRAME_BYTES))
                assert _is_violation(channel.receive())

    flood()
    before = _resident(hub.pid)
    flood()
    assert _resident(hub.pid) - before < 8 * limits.FRAME_BYTES


def test_s6_a_frame_may_come_in_pieces_and_frames_may_come_together(hub: Hub) -> None:
    with hub.connect() as channel:
        for index in range(len(WHO)):
            channel.send(WHO[index : index + 1])
        assert channel.receive() is not None
        channel.send(WHO * 3 + WHO[:10])
        assert [channel.receive() is not None for _ in range(3)] == [True] * 3
        channel.send(WHO[10:])
        assert channel.receive() is not None


def test_pipelined_calls_are_answered_in_order(hub: Hub) -> None:
    calls = [{"method": "io.amux.Admin.No" + "o" * (index % 50)} for index in range(4000)]
    data = b"".join(json.dumps(call).encode() + b"\0" for call in calls)
    with hub.connect() as channel:
        channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, len(data) * 2)
        channel.send(data)
        for _ in calls:
            answer = channel.receive()
            assert answer == {
                "error": "org.varlink.service.InterfaceNotFound",
                "parameters": {"interface": "io.amux.Admin"},
            }


def test_a_peer_that_sent_its_last_call_is_answered(hub: Hub) -> None:
    with hub.connect() as channel:
        channel.send(WHO + WHO)
        channel.socket.shutdown(socket.SHUT_WR)
        assert channel.receive() is not None
        assert channel.receive() is not None
        assert channel.receive() is None


def test_a_oneway_call_has_no_answer(hub: Hub) -> None:
    with hub.connect() as channel:
        channel.send(b'{"method":"io.amux.Hub.WhoAmI","oneway":true}\0{"method":"io.amux.Hub.Nope","oneway":true}\0')
        answer = channel.call("io.amux.Hub.GetStatus")
        assert "uptime_ms" in answer["parameters"]


def test_s2_no_field_of_a_call_says_who_calls(hub: Hub) -> None:
    plain = hub.call("io.amux.Hub.WhoAmI")
    forged = {"method": "io.amux.Hub.WhoAmI", "principal": "alice", "uid": 1001, "scope": "principal:alice"}
    with hub.connect() as channel:
        channel.send(json.dumps(forged).encode() + b"\0")
        assert channel.receive() == plain
    for name in ("principal", "uid", "scope", "caller"):
        answer = hub.call("io.amux.Hub.WhoAmI", **{name: "alice"})
        assert answer == {"error": "org.varlink.service.InvalidParameter", "parameters": {"parameter": name}}
        answer = hub.call("io.amux.Memory.Get", path="a.md", **{name: "alice"})
        assert answer["error"] == "io.amux.Hub.InvalidArgument"


@pytest.mark.parametrize("count", [1, 253])
@pytest.mark.parametrize("data", [b"{", WHO, b"\0"], ids=["a byte", "a call", "a NUL"])
def test_s4_descriptors_are_never_received(hub: Hub, count: int, data: bytes) -> None:
    before = _descriptors(hub.pid)
    with open("/dev/null", "rb") as null, hub.connect() as channel:
        assert "parameters" in channel.call("io.amux.Hub.WhoAmI")
        rights = array.array("i", [null.fileno()] * count)
        channel.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
        assert _is_violation(channel.receive())
        assert channel.receive() is None
    _serves(hub)
    until(lambda: _descriptors(hub.pid) <= before, "the Hub has no more descriptors than before")


def test_c46_only_the_credential_structure_counts(hub: Hub) -> None:
    plain = hub.call("io.amux.Hub.WhoAmI")
    for name in (b"\0uid=0;principal:alice", b"\0" + b"\xff" * 50, b"\0root\n1001:1001"):
        with socket.socket(socket.AF_UNIX) as odd:
            odd.bind(name)
            odd.connect(str(hub.sockets["hub"]))
            odd.sendall(WHO)
            assert json.loads(odd.recv(65536)[:-1]) == plain


def test_a_client_of_another_version_gets_one_typed_error(hub: Hub) -> None:
    with hub.connect() as channel:
        channel.send(b'{"method":"io.amux.Hub.WhoAmI","amux":"99.1"}\0' + WHO)
        answer = channel.receive()
        assert answer is not None and answer["error"] == "io.amux.Hub.VersionMismatch"
        assert "99.1" in answer["parameters"]["message"]
        answer = channel.receive()
        assert answer is not None and "error" not in answer


def test_unknown_names_and_wrong_types_are_typed_errors(hub: Hub) -> None:
    with hub.connect() as channel:
        for method in ("Nope", "Answer", "Render"):
            for interface in ("Hub", "Memory"):
                answer = channel.call(f"io.amux.{interface}.{method}")
                assert answer["error"] == "org.varlink.service.MethodNotFound"
        answer = channel.call("org.varlink.service.GetInterfaceDescription", interface=1)
        assert answer["error"] == "org.varlink.service.InvalidParameter"
        answer = channel.call("org.varlink.service.GetInterfaceDescription", interface="io.amux.No")
        assert answer["error"] == "org.varlink.service.InterfaceNotFound"
        answer = channel.call("io.amux.Hub.WhoAmI", **{"x" * 100_000: 1})
        assert answer["error"] == "org.varlink.service.InvalidParameter"
        answer = channel.call("io.amux.Memory.Get", path="a.md", offset=True)
        assert answer["error"] == "io.amux.Hub.InvalidArgument"


def test_every_interface_describes_itself(hub: Hub) -> None:
    with hub.connect("admin") as channel:
        names = channel.call("org.varlink.service.GetInfo")["parameters"]["interfaces"]
        assert names == ["io.amux.Admin", "io.amux.Hub", "io.amux.Memory", "io.amux.Session", "org.varlink.service"]
        for name in names:
            answer = channel.call("org.varlink.service.GetInterfaceDescription", interface=name)
            lines = answer["parameters"]["description"].splitlines()
            assert f"interface {name}" in lines
            for before, line in zip(["", *lines], lines, strict=False):
                if line.startswith(("method ", "error ")):
                    assert before.startswith("# "), f"{line} is not explained"
    assert hub.call("org.varlink.service.GetInfo")["parameters"]["interfaces"] == names[1:]


# Deadlines


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    deadlines = {"first_frame": SOON, "frame": SOON, "write": SOON}
    directory = tmp_path_factory.mktemp("hasty")
    with Hub(directory, mcp=False, config={"timeouts": deadlines, "limits": {"connections_per_uid": 500}}) as hub:
        yield hub


def test_s5_silent_and_slow_peers_are_closed_and_nobody_waits(hasty: Hub) -> None:
    silent = [hasty.connect() for _ in range(100)]
    slow = [hasty.connect() for _ in range(100)]
    for channel in slow:
        channel.send(WHO[:5])
    _serves(hasty)
    for channel in (*silent, *slow):
        assert _is_violation(channel.receive())
        assert channel.receive() is None
        channel.close()
    _serves(hasty)


def test_s5_a_byte_now_and_then_does_not_prolong_a_frame(hasty: Hub) -> None:
    with hasty.connect() as channel:
        channel.send(WHO)
        assert channel.receive() is not None
        channel.socket.settimeout(SOON / 10)
        sent = 0
        while True:
            try:
                channel.send(b" ")
                sent += 1
                answer = channel.receive()
                break
            except TimeoutError:
                continue
            except BrokenPipeError:
                answer = channel.receive()
                break
        assert _is_violation(answer)
        assert sent > 1


def test_s7_a_peer_that_never_reads_is_dropped(hasty: Hub) -> None:
    def dropped() -> int:
        count: int = hasty.call("io.amux.Hub.GetStatus")["parameters"]["connections_dropped"]
        return count

    before, resident = dropped(), _resident(hasty.pid)
    call = b'{"method":"org.varlink.service.GetInterfaceDescription","parameters":{"interface":"io.amux.Hub"}}\0'
    channels: list[Channel] = []
    for _ in range(20):
        channel = hasty.connect()
        channel.socket.setblocking(False)
        try:
            while True:
                channel.socket.send(call * 100)
        except BlockingIOError:
            pass
        channels.append(channel)
    until(lambda: dropped() >= before + len(channels), "every peer that does not read is dropped")
    _serves(hasty)
    assert _resident(hasty.pid) - resident < 16 * 1024 * 1024
    for channel in channels:
        channel.close()
