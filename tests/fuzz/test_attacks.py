"""One hostile UID against a running Hub: what it sends costs itself, not the Hub and not the others.

Each of these once held the loop up, or made the Hub grow by hundreds of MiB, or might have.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from tests.fuzz.watch import descriptors, disconnected
from tests.harness import NAMES, WAIT_SECONDS, Hub

QUICK = {"timeouts": {"first_frame": 0.5, "frame": 0.5, "write": 0.5}}
WHO = b'{"method":"io.amux.Hub.WhoAmI"}\0'
FIRST_LINE = b'{"amux":1}\n'
_MIB = 1024 * 1024


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A Hub whose deadlines are short."""
    with Hub(tmp_path_factory.mktemp("quick"), config=QUICK) as running:
        yield running


def connect(hub: Hub, name: str, data: bytes = b"") -> socket.socket:
    connected = socket.socket(socket.AF_UNIX)
    connected.settimeout(WAIT_SECONDS)
    connected.connect(str(hub.sockets[name]))
    if data:
        connected.sendall(data)
    return connected


def everything(connected: socket.socket) -> bytes:
    """What comes until the end of the stream; a reset is an end."""
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while data := connected.recv(1 << 20):
            received += data
    return received


def call_of(tool: str, number: int, **arguments: Any) -> bytes:
    parameters = {"name": f"amux.{tool}", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": parameters}
    return json.dumps(message).encode() + b"\n"


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "0"}},
}
HELLO = FIRST_LINE + json.dumps(INITIALIZE).encode() + b"\n"


def peak(hub: Hub) -> int:
    """The most resident bytes that the Hub ever had, proc_pid_status(5)."""
    for line in Path(f"/proc/{hub.pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def serves(hub: Hub) -> None:
    assert hub.call("io.amux.Memory.Get", path="none.md")["parameters"]["exists"] is False
    assert hub.call("io.amux.Hub.WhoAmI", socket_name="admin")["parameters"]["uid"] == os.getuid()
    with connect(hub, "mcp", FIRST_LINE) as line:
        assert line.recv(100).startswith(b'{"amux":1,"version":')


@pytest.mark.parametrize("name", NAMES)
def test_s5_slow_and_half_open_peers_on_every_socket_are_closed(quick: Hub, name: str) -> None:
    """A byte now and then, a first message that does not end, and nothing at all: told why, and closed."""
    slow = [connect(quick, name, b"{") for _ in range(20)]
    half = [connect(quick, name, FIRST_LINE[:-1]) for _ in range(20)]
    silent = [connect(quick, name) for _ in range(20)]
    alive = set(slow)
    while alive:
        for one in list(alive):
            try:
                one.send(b" ")
            except (BrokenPipeError, ConnectionResetError):
                alive.discard(one)
        serves(quick)
    for one in (*slow, *half, *silent):
        assert b"0.5 s" in everything(one)
        one.close()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"{", WHO, FIRST_LINE, HELLO])
def test_s4_253_descriptors_with_every_byte_are_not_received(hub: Hub, name: str, data: bytes) -> None:
    before = descriptors(hub.pid, "/dev/null")
    with connect(hub, name) as connected, Path("/dev/null").open("rb") as null:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null.fileno()] * 253))]
        for at in range(len(data)):
            try:
                connected.sendmsg([data[at : at + 1]], rights)
            except OSError:  # it is closed, or too many descriptors are on their way (ETOOMANYREFS)
                break
        assert b"descriptors" in everything(connected)
    assert descriptors(hub.pid, "/dev/null") == before
    serves(hub)


def test_c44_a_flood_of_connections_over_all_sockets_is_told_and_leaves_nothing(hub: Hub) -> None:
    before = descriptors(hub.pid, "socket")
    held = [(name, connect(hub, name)) for name in NAMES for _ in range(130)]
    refused = 0
    for name, one in held:
        with contextlib.suppress(BrokenPipeError):
            one.sendall(FIRST_LINE if name == "mcp" else WHO)
        answer = one.recv(65536)
        refused += b"connections open and may have 128" in answer
        assert b"may have 128" in answer or b'"version"' in answer or b'"uid"' in answer
    assert refused == len(held) - 128
    for _, one in held:
        one.close()
    disconnected(hub, before)
    serves(hub)


def test_c46_names_of_the_peer_mean_nothing_on_any_socket(hub: Hub, tmp_path: Path) -> None:
    names: tuple[bytes, ...] = (
        b"\0uid=0",
        b"\0\xff\xfe\n{}",
        b"\0" + b"a" * 107,
        os.fsencode(tmp_path)[:90] + b"/\xff\n",
    )
    for name in names:
        for number, target in enumerate(NAMES):
            with socket.socket(socket.AF_UNIX) as odd:
                odd.settimeout(WAIT_SECONDS)
                odd.bind(name[:105] + b"%d" % number)
                odd.connect(str(hub.sockets[target]))
                odd.sendall(FIRST_LINE if target == "mcp" else WHO)
                answer = odd.recv(65536)
                assert (b'"version"' in answer) if target == "mcp" else (b'"uid":%d,' % os.getuid() in answer)


def test_s6_ten_thousand_calls_in_one_go_are_answered(hub: Hub) -> None:
    pings = b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % number for number in range(10_000))

    def send(connected: socket.socket, data: bytes) -> None:
        connected.sendall(data)
        connected.shutdown(socket.SHUT_WR)

    for name, data, end, wanted in (("hub", WHO * 10_000, b"\0", 10_000), ("mcp", HELLO + pings, b"\n", 10_002)):
        with connect(hub, name) as connected:
            sender = threading.Thread(target=send, args=(connected, data))
            sender.start()
            answers = everything(connected)
            sender.join()
        assert answers.count(end) == wanted


def test_s6_after_a_violation_nothing_more_is_served(hub: Hub) -> None:
    write = {"path": "after.md", "content": "x", "expected_revision": "absent"}
    upsert = json.dumps({"method": "io.amux.Memory.Upsert", "parameters": write}).encode()
    with connect(hub, "hub", b"nothing\0" + (upsert + b"\0") * 10) as connected:
        answers = everything(connected)
    assert answers.count(b"\0") == 1 and b"ProtocolError" in answers
    with connect(hub, "mcp", b"nothing\n" + HELLO + call_of("memory_upsert", 1, **write)) as connected:
        answers = everything(connected)
    assert answers.count(b"\n") == 1 and b"invalid_argument" in answers
    assert hub.call("io.amux.Memory.Get", path="after.md")["parameters"]["exists"] is False


@pytest.mark.parametrize("element", ["{}", "[]", "0", '""', '{"":0}', "1.5", "null"])
def test_s6_a_message_of_very_many_values_is_refused_before_it_is_parsed(hub: Hub, element: str) -> None:
    """Half a MiB of `{},` took a quarter of a second and 20 MiB; 60 at once must not add up either."""
    before = peak(hub)
    many = "[" + ",".join([element] * (limits.FRAME_BYTES // (len(element) + 1) - 40)) + "]"
    frame = f'{{"method":"io.amux.Memory.List","parameters":{{"x":{many}}}}}'.encode() + b"\0"
    line = f'{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{many}}}}}'.encode() + b"\n"
    held = [connect(hub, "hub") for _ in range(30)] + [connect(hub, "mcp", HELLO) for _ in range(30)]
    for one in held:
        one.sendall(line if one in held[30:] else frame)
    for one in held[:30]:
        assert b"more than 1024 values" in everything(one)
        one.close()
    for one in held[30:]:
        one.sendall(b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
        one.shutdown(socket.SHUT_WR)
        answers = everything(one)
        assert b"more than 1024 values" in answers and b'"id":2,"result":{}' in answers
        one.close()
    assert peak(hub) - before < 64 * _MIB


def test_s6_long_calls_that_wait_do_not_pile_up_in_memory(hub: Hub) -> None:
    """16 calls of 400 KB on each of 40 connections, which is 256 MB: read as they are answered."""
    before = peak(hub)
    content = "x" * 400_000
    calls = [
        call_of("memory_upsert", number, path=f"{number}.md", content=content, expected_revision="absent")
        for number in range(16)
    ]

    def send(connected: socket.socket, answers: list[bytes]) -> None:
        for call in calls:
            connected.sendall(call)
        connected.shutdown(socket.SHUT_WR)
        answers.append(everything(connected))

    held = [connect(hub, "mcp", HELLO) for _ in range(40)]
    answers: list[bytes] = []
    threads = [threading.Thread(target=send, args=(one, answers)) for one in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in held:
        one.close()
    assert sum(answer.count(b"limit_exceeded") for answer in answers) == 40 * 16
    assert peak(hub) - before < 128 * _MIB


def test_s5_violations_that_differ_do_not_flood_the_log(hub: Hub) -> None:
    before = len(hub.stderr.splitlines())
    for number in range(200):
        with connect(hub, "hub", b" " * number + b"x\0") as connected:
            assert b"ProtocolError" in everything(connected)
    malformed = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}\n'
    with connect(hub, "mcp", HELLO + malformed * 200 + b"x\n" * 200) as connected:
        connected.shutdown(socket.SHUT_WR)
        assert everything(connected).count(b"\n") == 2 + 200
    assert len(hub.stderr.splitlines()) - before <= 3
