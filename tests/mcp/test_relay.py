"""`amux mcp` with its client: the first line, the start, standard input and output, odd messages (C19)."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from tests.mcp.fakehub import FakeHub, Link, again, opened
from tests.mcp.peers import AMUX, Relay, ToolError, text_of

WRITE = {"path": "notes/今日.md", "content": "x", "expected_revision": "absent"}


# What the relay says first


def test_the_first_line_carries_session_and_binding_of_the_environment(fake: FakeHub) -> None:
    env = {"AMUX_SESSION": "s-1", "AMUX_MEMORY_BINDING": "principal:älice"}
    with Relay(fake.hub_socket, env=env) as client:
        fake.accept()
        assert fake.greeting == {"amux": 1, "session": "s-1", "binding": "principal:älice"}
        client.finish()
    with Relay(fake.hub_socket, env={"AMUX_SESSION": "", "AMUX_MEMORY_BINDING": ""}) as client:
        fake.accept()
        assert fake.greeting == {"amux": 1}
        client.finish()


# Start


def _says(client: Relay, status: int) -> str:
    text = client.finish(status)
    assert text.count("\n") == 1 and text.startswith("amux mcp: ")
    return text


def test_c19_without_a_hub_it_ends_at_once_with_one_line_and_exit_8(short: Path) -> None:
    with Relay(short / "hub.sock") as client:
        assert "amux-hub" in _says(client, 8)


def test_c19_a_hub_that_does_not_answer_within_5_s(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        fake.accept(greet=False)
        assert "within 5 s" in _says(client, 8)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ({"error": {"code": "binding_mismatch", "message": "not yours", "details": {}}}, 6),
        ({"error": {"code": "identity_refused", "message": "who are you", "details": {}}}, 6),
        ({"error": {"code": "version_mismatch", "message": "too old", "details": {}}}, 8),
        ({"error": {"code": "something_new", "message": "x", "details": {}}}, 1),
        ({"hello": 1}, 1),
    ],
)
def test_c19_a_refused_start_says_why_and_exits_with_its_code(fake: FakeHub, answer: Any, status: int) -> None:
    with Relay(fake.hub_socket) as client:
        link = fake.accept(greet=False)
        link.receive()
        link.send(answer)
        text = _says(client, status)
        if status != 1:
            assert answer["error"]["message"] in text


def test_c19_a_hub_that_speaks_no_json_gets_no_line_through(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.request("ping")
        link.expect("ping")
        link.socket.sendall(b"Traceback (most recent call last):\n")
        link = again(fake)
        link.answer(link.expect("ping"), {})
        client.answer(name)


def test_over_ssh_a_failing_or_missing_ssh_ends_it_at_once(short: Path) -> None:
    (short / "ssh").write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
    (short / "ssh").chmod(0o755)
    env = {"AMUX_HUB": "ssh://host.example", "PATH": f"{short}:/usr/bin:/bin"}
    with Relay(short, env=env) as client:
        text = client.finish(8)
        assert text.startswith("Permission denied")
        assert text.splitlines()[1].startswith("amux mcp: ssh could not reach ssh://host.example")
    (short / "ssh").unlink()
    with Relay(short, env={**env, "PATH": str(short)}) as client:
        assert "ssh cannot be run" in _says(client, 8)


def test_closed_standard_descriptors_are_not_taken_by_the_connection(fake: FakeHub) -> None:
    done = subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *AMUX], env={"AMUX_HUB": str(fake.hub_socket)}
    )
    link = fake.accept()
    assert link.receive() is None
    assert done.wait(30) == 0


def test_arguments_are_refused(short: Path) -> None:
    with Relay(short / "hub.sock", command=[*AMUX, "x"]) as client:
        assert client.finish(2) != ""


# The client's side


def test_the_end_of_standard_input_waits_for_pending_answers(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_get", path="a.md")
        assert client.process.stdin is not None
        client.process.stdin.close()
        call = link.expect("tools/call")
        assert client.process.poll() is None
        link.text(call, "{}")
        assert client.answer(name)["result"]["isError"] is False
        assert client.receive() is None
        assert client.process.wait(30) == 0


def test_a_last_line_without_its_end_is_a_message(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        client.send_bytes(b'{"jsonrpc":"2.0","id":9,"method":"ping"}')
        assert client.process.stdin is not None
        client.process.stdin.close()
        link.answer(link.expect("ping"), {})
        assert client.answer(9)["result"] == {}


def test_ids_are_kept_apart_and_repeated_ones_answered_in_order(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        for name in (5, "5", 5):
            client.request("ping", name=name)
        pings = [link.expect("ping") for _ in range(3)]
        assert [ping["id"] for ping in pings] == [5, "5", 5]
        for number in (1, 0):
            link.answer(pings[number], {"n": number})
        answers = [client.receive(), client.receive()]
        assert [(answer or {})["id"] for answer in answers] == ["5", 5]
        link.close()  # of the three only the last is unanswered, and a number
        link = again(fake)
        ping = link.expect("ping")
        assert ping["id"] == 5 and not isinstance(ping["id"], str)
        link.answer(ping, {"n": 2})
        assert client.receive() == {"jsonrpc": "2.0", "id": 5, "result": {"n": 2}}
        assert client.finish() == ""


def test_lines_that_are_no_request_are_answered_here_and_the_conversation_goes_on(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        for line, code in [
            (b"nonsense", -32700),
            (b"\xff\xfe", -32700),
            (b"[" * 200_000, -32700),
            (b"[]", -32600),
            (b"7", -32600),
            (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
            (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        ]:
            client.send_bytes(line + b"\r\n\n")
            answer = client.receive()
            assert answer is not None
            assert (answer["id"], answer["error"]["code"]) == (None, code), line
        name = client.request("ping")
        link.answer(link.expect("ping"), {})
        client.answer(name)


def test_a_line_over_512_kib_is_answered_by_its_id_and_not_sent(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_upsert", **{**WRITE, "content": "x" * limits.FRAME_BYTES})
        with pytest.raises(ToolError) as refused:
            text_of(client.answer(name)["result"])
        assert refused.value.code == "limit_exceeded"
        assert refused.value.details["value"] == limits.FRAME_BYTES
        client.send_bytes(b'"' + b"x" * (6 * 1024 * 1024) + b'"\n')
        answer = client.receive()
        assert answer is not None
        assert answer["error"]["data"]["code"] == "limit_exceeded"
        name = client.request("ping")
        link.answer(link.expect("ping"), {})
        client.answer(name)


def test_a_call_that_was_cancelled_is_neither_waited_for_nor_sent_again(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        name = client.start_tool("memory_upsert", **WRITE)
        link.expect("tools/call")
        client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": name}})
        assert link.expect("notifications/cancelled")["params"] == {"requestId": name}
        link.close()
        other = client.request("ping")
        link = again(fake)
        link.answer(link.expect("ping"), {})
        client.answer(other)
        assert client.finish() == ""


def test_a_client_that_reads_late_gets_everything(fake: FakeHub) -> None:
    """Neither side waits for the other: the relay stops reading one while the other does not."""
    with Relay(fake.hub_socket) as client:
        link = opened(fake, client)
        names = [client.start_tool("memory_get", path=f"{n}.md") for n in range(300)]
        sender = threading.Thread(target=_serve, args=(link, 300, "é" * 3000))
        sender.start()
        for name in names:
            assert len(text_of(client.answer(name)["result"])) == 3000
        sender.join(30)
        assert not sender.is_alive()


def test_sigterm_and_a_closed_standard_output_end_it(fake: FakeHub) -> None:
    with Relay(fake.hub_socket) as client:
        opened(fake, client)
        client.process.send_signal(signal.SIGTERM)
        assert client.process.wait(30) == -signal.SIGTERM
    with Relay(fake.hub_socket) as client:
        opened(fake, client)
        assert client.process.stdout is not None
        client.process.stdout.close()
        assert client.process.wait(30) == 0


def _serve(link: Link, times: int, text: str) -> None:
    for _ in range(times):
        link.text(link.expect("tools/call"), text)
