"""Standard input and output of the commands: what is read, refused, closed, full or broken."""

from __future__ import annotations

import hashlib
import os
import socket

import pytest

from tests.cli.scripted import ScriptedHub
from tests.cli.tool import Result, Tool, put
from tests.harness import Hub, until


@pytest.mark.parametrize(
    ("content", "code", "status", "detail"),
    [
        (b"a\xffb", "invalid_content", 2, {"position": 1}),
        (b"ab\0", "invalid_content", 2, {"position": 2}),
        (b"\xed\xa0\x80", "invalid_content", 2, {"position": 0}),
        (b"x" * 65537, "limit_exceeded", 5, {"limit": "document_bytes", "value": 65536, "found": 65537}),
        (b"x" * 2_000_000, "limit_exceeded", 5, {"limit": "document_bytes", "value": 65536}),
    ],
    ids=["latin", "nul", "surrogate", "over", "far-over"],
)
def test_content_is_refused_before_it_is_sent(
    amux: Tool, scripted: ScriptedHub, content: bytes, code: str, status: int, detail: dict[str, object]
) -> None:
    words = ("memory", "upsert", "a.md", "--expected-revision", "absent")
    with amux.popen(*words, hub=scripted.path) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(content)
            process.stdin.close()
        except BrokenPipeError:
            pass
        process.stdin = None
        out, err = process.communicate(timeout=60)
    result = Result(process.returncode, out, err)
    assert (result.status, result.error["code"]) == (status, code)
    assert detail.items() <= result.error["details"].items()
    assert scripted.calls == []


def test_a_full_document_fits(amux: Tool, hub: Hub) -> None:
    """64 KiB of what JSON escapes at most: six bytes for one."""
    data = b"\x01" * 65536
    assert put(amux, hub, "full.md", data).json["revision"] == hashlib.sha256(data).hexdigest()
    assert amux.run("memory", "export", "full.md", hub=hub.sockets["hub"]).out == data


@pytest.mark.parametrize("file", ["/nonexistent", "/"])
def test_a_file_that_cannot_be_read(amux: Tool, shared_hub: Hub, file: str) -> None:
    words = ("memory", "upsert", "a.md", "--expected-revision", "absent", "--file", file)
    result = amux.run(*words, hub=shared_hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (2, "invalid_argument")
    assert file in result.error["message"]


def test_standard_input_closed(amux: Tool, shared_hub: Hub) -> None:
    words = ("memory", "upsert", "a.md", "--expected-revision", "absent")
    with amux.popen(*words, hub=shared_hub.sockets["hub"], stdin=None, preexec_fn=lambda: os.close(0)) as process:
        out, err = process.communicate(timeout=60)
    assert Result(process.returncode, out, err).error["code"] == "invalid_argument"


@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("words", [("memory", "show", "a.md"), ("memory", "list")])
def test_a_closed_output_is_never_the_hubs_connection(
    amux: Tool, scripted: ScriptedHub, closed: tuple[int, ...], words: tuple[str, ...]
) -> None:
    """The lowest free descriptor is what a socket gets: nothing but the call may be written into it (`list`
    prints each page before it asks for the next)."""
    after: list[bytes] = []

    def listen(connection: socket.socket) -> None:
        scripted.receive(connection)
        connection.sendall(b'{"parameters":{"exists":true,"content":"x"}}\0')
        after.append(connection.recv(1))

    scripted.then(listen)

    def close() -> None:
        for fd in closed:
            os.close(fd)

    with amux.popen(*words, hub=scripted.path, preexec_fn=close) as process:
        process.communicate(timeout=60)
    assert process.returncode == (1 if 1 in closed else 0)
    until(lambda: after, "the command ends its connection")
    assert after == [b""]


def test_a_broken_pipe_is_quiet(amux: Tool, hub: Hub) -> None:
    put(amux, hub, "big.md", b"line\n" * 13000)
    for words in (("export", "big.md"), ("show", "big.md"), ("list",), ("list", "--help")):
        read, write = os.pipe()
        os.close(read)
        with amux.popen("memory", *words, hub=hub.sockets["hub"], stdout=write) as process:
            os.close(write)
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (141, b"")


def test_a_full_disk_behind_standard_output_is_said(amux: Tool, hub: Hub) -> None:
    with open("/dev/full", "wb") as full:
        result = amux.run("memory", "list", hub=hub.sockets["hub"], stdout=full)
    assert result.status == 1
    assert b"No space left" in result.err
