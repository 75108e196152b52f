"""The client against a listener that misbehaves: deadlines, frames, and what may be repeated."""

from __future__ import annotations

import json
import socket
import threading
import time
from typing import Any

import pytest

from amux import client as client_module
from amux import limits
from amux.client import Client
from amux.endpoint import Endpoint
from amux.errors import CODES, AmuxError, varlink_name
from tests.cli.scripted import ScriptedHub, hangs_up
from tests.harness import Hub

GET = "io.amux.Memory.Get"
OK = {"parameters": {"path": "a.md"}}


def _client(scripted: ScriptedHub, reply_seconds: float = 30) -> Client:
    where = Endpoint("private", str(scripted.path), "a test says so")
    return Client(where, environ={}, reply_seconds=reply_seconds)


def _error(scripted: ScriptedHub, writes: str | None = None, reply_seconds: float = 30) -> AmuxError:
    with _client(scripted, reply_seconds) as client, pytest.raises(AmuxError) as caught:
        client.call(GET, {"path": "a.md"}, writes)
    return caught.value


def test_a_reply_in_single_bytes(scripted: ScriptedHub) -> None:
    def script(connection: socket.socket) -> None:
        scripted.receive(connection)
        for byte in json.dumps(OK).encode() + b"\0":
            connection.sendall(bytes([byte]))
        connection.recv(1)

    scripted.then(script)
    with _client(scripted) as client:
        assert client.call(GET, {"path": "a.md"}) == {"path": "a.md"}


def test_a_call_says_its_version_session_and_binding(scripted: ScriptedHub) -> None:
    scripted.then(scripted.answers(OK, OK, OK))
    environ = {"AMUX_SESSION": "s1", "AMUX_MEMORY_BINDING": "principal:alice"}
    with Client(Endpoint("private", str(scripted.path), ""), environ=environ) as client:
        client.call(GET, {"path": "备忘.md"})
        client.call("io.amux.Hub.GetStatus", {})
        client.call(GET, {"path": "b.md"}, writes="b.md")
    carried = {"session": "s1", "binding": "principal:alice"}
    assert scripted.calls == [
        {"method": GET, "parameters": {"path": "备忘.md", **carried}, "amux": "0.1"},
        {"method": "io.amux.Hub.GetStatus", "parameters": {}, "amux": "0.1"},
        {"method": GET, "parameters": {"path": "b.md", **carried}, "amux": "0.1"},
    ]


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_error_comes_back_as_its_code(scripted: ScriptedHub, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RESEND_SECONDS", 0.1)
    reply = {"error": varlink_name(code), "parameters": {"message": "why", "details": {"limit": "x"}}}
    attempts = 100 if code == "shutting_down" else 1
    scripted.then(*[scripted.answers(reply)] * attempts)
    error = _error(scripted)
    assert (error.code, error.message, error.details) == (code, "why", {"limit": "x"})


def test_an_unknown_error_is_a_protocol_error(scripted: ScriptedHub) -> None:
    scripted.then(scripted.answers({"error": "org.example.Odd", "parameters": {}}))
    assert _error(scripted).code == "protocol_error"


@pytest.mark.parametrize(
    "data",
    [
        b"no json\0",
        b"[]\0",
        b'{"parameters":[]}\0',
        b"\xff\0",
        b'"' * 3 + b"\0",
        b'{"parameters":{}}\0{"parameters":{}}\0',
        b"[" * 100_000 + b"\0",
        b"a" * (limits.FRAME_BYTES + 70_000),
    ],
    ids=["text", "list", "parameters", "utf8", "quotes", "two", "deep", "long"],
)
def test_an_odd_reply(scripted: ScriptedHub, data: bytes) -> None:
    """A read says so and is not repeated; a write may have happened."""
    scripted.then(scripted.sends(data), scripted.sends(data), scripted.answers(OK))
    assert _error(scripted).code == "protocol_error"
    assert scripted.left == 2
    assert _error(scripted, writes="a.md").code == "outcome_uncertain"


def test_a_read_is_repeated_once(scripted: ScriptedHub) -> None:
    scripted.then(scripted.sends(b'{"param', wait=False), scripted.answers(OK))
    with _client(scripted) as client:
        assert client.call(GET, {"path": "a.md"}) == {"path": "a.md"}
    assert scripted.calls[0] == scripted.calls[1]


def test_a_read_is_not_repeated_twice(scripted: ScriptedHub) -> None:
    scripted.then(*[scripted.sends(b"", wait=False)] * 2, scripted.answers(OK))
    assert _error(scripted).code == "hub_unavailable"
    assert scripted.left == 1


def test_a_write_that_left_is_uncertain_and_never_repeated(scripted: ScriptedHub) -> None:
    scripted.then(scripted.sends(b"", wait=False), scripted.answers(OK))
    error = _error(scripted, writes="a.md")
    assert error.code == "outcome_uncertain"
    assert error.details == {"path": "a.md"}
    assert "a.md" in error.message
    assert "read it again" in error.message
    assert scripted.left == 1


def test_a_write_of_which_no_byte_left_is_sent_again(scripted: ScriptedHub) -> None:
    """The Hub hung up while the connection was idle: the send itself fails."""
    closed = threading.Event()

    def one_answer(connection: socket.socket) -> None:
        scripted.receive(connection)
        connection.sendall(json.dumps(OK).encode() + b"\0")
        connection.close()
        closed.set()

    scripted.then(one_answer, scripted.answers(OK))
    with _client(scripted) as client:
        client.call(GET, {"path": "a.md"})
        assert closed.wait(30)
        client.call(GET, {"path": "b.md"}, writes="b.md")
    assert [call["parameters"]["path"] for call in scripted.calls] == ["a.md", "b.md"]


@pytest.mark.parametrize("writes", [None, "a.md"])
def test_shutting_down_is_sent_again(scripted: ScriptedHub, writes: str | None) -> None:
    """The Hub says so only of a call that it did not run."""
    scripted.then(*[scripted.refuses("shutting_down")] * 3, scripted.answers(OK))
    with _client(scripted) as client:
        assert client.call(GET, {"path": "a.md"}, writes) == {"path": "a.md"}
    assert len(scripted.calls) == 4


@pytest.mark.parametrize("writes", [None, "a.md"])
def test_a_hub_one_minor_version_older_is_spoken_to_in_its_own(
    scripted: ScriptedHub, writes: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It refused before it ran anything, so a write is repeated too."""
    monkeypatch.setattr(client_module, "PROTOCOL", "3.10")
    scripted.then(scripted.answers(_mismatch("3.9"), OK))
    with _client(scripted) as client:
        assert client.call(GET, {"path": "a.md"}, writes) == {"path": "a.md"}
    assert [call["amux"] for call in scripted.calls] == ["3.10", "3.9"]
    assert scripted.calls[0]["parameters"] == scripted.calls[1]["parameters"]


def test_the_older_version_is_tried_once(scripted: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROTOCOL", "3.10")
    scripted.then(scripted.answers(_mismatch("3.9"), _mismatch("3.9"), OK))
    assert _error(scripted).code == "version_mismatch"
    assert len(scripted.calls) == 2


@pytest.mark.parametrize(
    ("own", "hub"),
    [
        *(("3.10", hub) for hub in ("3.8", "3.10", "3.11", "2.9", "4.9", "3.9.0", "3.9\n", " 3.9", "3.09", "3", "")),
        *(("3.10", hub) for hub in (None, 3.9, True, ["3.9"], {"3.9": 1})),
        *(("3.0", hub) for hub in ("3.-1", "2.9", None)),
    ],
)
def test_any_other_hub_is_reported_in_its_words(
    scripted: ScriptedHub, own: str, hub: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PROTOCOL", own)
    scripted.then(scripted.answers(_mismatch(hub), OK))
    error = _error(scripted)
    assert (error.code, error.message) == ("version_mismatch", "install the same version")
    assert len(scripted.calls) == 1


@pytest.mark.parametrize("details", [None, [], "3.9", {}])
def test_a_mismatch_without_a_version(scripted: ScriptedHub, details: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PROTOCOL", "3.10")
    reply = _mismatch("3.9")
    reply["parameters"]["details"] = details
    scripted.then(scripted.answers(reply, OK))
    assert _error(scripted).code == "version_mismatch"
    assert len(scripted.calls) == 1


def _mismatch(hub: object) -> dict[str, Any]:
    parameters = {"message": "install the same version", "details": {"client": "x", "hub": hub}}
    return {"error": varlink_name("version_mismatch"), "parameters": parameters}


@pytest.mark.parametrize("step", [-1, 1], ids=["client older", "client newer"])
def test_a_real_hub_serves_a_client_one_minor_version_apart(
    hub: Hub, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All four operations: during an upgrade either side can be the newer."""
    major, minor = (int(part) for part in client_module.PROTOCOL.split("."))
    monkeypatch.setattr(client_module, "PROTOCOL", f"{major}.{max(minor + step, 0)}")
    memory, content = "io.amux.Memory.", "upgrades are calm\n"
    with Client(Endpoint("private", str(hub.sockets["hub"]), ""), environ={}) as client:
        new = {"path": "a.md", "content": content, "expected_revision": "absent"}
        revision = client.call(f"{memory}Upsert", new, "a.md")["revision"]
        assert client.call(f"{memory}Get", {"path": "a.md"})["content"] == content
        matches = client.call(f"{memory}Search", {"query": "calm"})["matches"]
        assert [match["path"] for match in matches] == ["a.md"]
        client.call(f"{memory}Forget", {"path": "a.md", "expected_revision": revision}, "a.md")
        assert not client.call(f"{memory}Get", {"path": "a.md"})["exists"]


def test_busy_is_reported_at_once(scripted: ScriptedHub) -> None:
    scripted.then(scripted.refuses("busy", retry_after_ms=250), scripted.answers(OK))
    error = _error(scripted)
    assert (error.code, error.details) == ("busy", {"retry_after_ms": 250})
    assert scripted.left == 1


def test_s7_a_silent_hub_meets_the_deadline(scripted: ScriptedHub) -> None:
    silent = scripted.sends(b"")
    scripted.then(silent, silent)
    error = _error(scripted, reply_seconds=0.2)
    assert error.code == "hub_unavailable"
    assert "did not answer" in error.message
    assert _error(scripted, writes="a.md", reply_seconds=0.2).code == "outcome_uncertain"


def test_a_dripping_hub_meets_the_deadline(scripted: ScriptedHub) -> None:
    """Each byte in time is not the answer in time."""
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        scripted.receive(connection)
        while not stop.wait(0.01):
            connection.sendall(b" ")

    scripted.then(drip)
    try:
        assert "did not answer" in _error(scripted, reply_seconds=0.3).message
    finally:
        stop.set()


def test_s7_a_hub_that_never_reads_meets_the_deadline(scripted: ScriptedHub) -> None:
    stop = threading.Event()

    def never_read(_connection: socket.socket) -> None:
        stop.wait(60)

    scripted.then(never_read)
    content = "a" * 500_000
    try:
        with _client(scripted, 0.3) as client, pytest.raises(AmuxError) as caught:
            client.call("io.amux.Memory.Upsert", {"content": content}, writes="a.md")
    finally:
        stop.set()
    assert caught.value.code == "outcome_uncertain"


def test_a_call_over_the_frame_is_refused_before_it_is_sent(scripted: ScriptedHub) -> None:
    with _client(scripted) as client, pytest.raises(AmuxError) as caught:
        client.call(GET, {"path": "a" * limits.FRAME_BYTES})
    assert caught.value.code == "limit_exceeded"
    assert caught.value.details["limit"] == "frame_bytes"
    assert scripted.calls == []


def test_a_hub_that_hangs_up_unread(scripted: ScriptedHub) -> None:
    scripted.then(hangs_up, hangs_up, scripted.answers(OK))
    assert _error(scripted).code == "hub_unavailable"


@pytest.mark.parametrize("code", ["busy", "identity_refused"])
@pytest.mark.parametrize("size", [10, 400_000])
def test_a_refusal_that_reads_nothing_is_heard(scripted: ScriptedHub, code: str, size: int) -> None:
    """Over a limit the Hub answers and hangs up at accept, whether or not our call has left by then."""

    def refuse(connection: socket.socket) -> None:
        reply = {"error": varlink_name(code), "parameters": {"message": "full", "details": {}}}
        connection.sendall(json.dumps(reply).encode() + b"\0")

    scripted.then(refuse)
    with _client(scripted) as client, pytest.raises(AmuxError) as caught:
        client.call(GET, {"path": "a" * size}, writes="a.md")
    assert (caught.value.code, caught.value.message) == (code, "full")


def test_the_budget_for_shutting_down_ends(scripted: ScriptedHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "RESEND_SECONDS", 0.3)
    scripted.then(*[scripted.refuses("shutting_down")] * 1000)
    before = time.monotonic()
    assert _error(scripted).code == "shutting_down"
    assert time.monotonic() - before < 30
