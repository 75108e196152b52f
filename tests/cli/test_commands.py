"""Every command end to end, as a program calls it: pipes, JSON, exit statuses, a real Hub."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from amux.errors import CODES
from tests.cli.scripted import ScriptedHub
from tests.cli.tool import Result, Tool
from tests.harness import Hub, until


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def put(amux: Tool, hub: Hub, path: str, data: bytes, expected: str = "absent") -> Result:
    words = ("memory", "upsert", path, "--expected-revision", expected)
    return amux.run(*words, hub=hub.sockets["hub"], input=data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"# plain\n",
        b"no end",
        b"\xef\xbb\xbf---\r\ntitle: x\r\n---\r\n",
        b"lone\rcr\r",
        "部署 🧑🏽‍💻 é\n".encode(),
        b"\x01\x1b[31m\x7f\n",
    ],
    ids=["empty", "plain", "tail", "bom-crlf", "cr", "unicode", "controls"],
)
def test_raw_bytes_are_kept(amux: Tool, hub: Hub, tmp_path: Path, data: bytes) -> None:
    """Through standard input and --file, and back through export: the same bytes."""
    revision = sha256(data)
    assert put(amux, hub, "a/in.md", data).json == {"path": "a/in.md", "revision": revision}
    source = tmp_path / "source"
    source.write_bytes(data)
    words = ("memory", "upsert", "a/file.md", "--file", str(source), "--expected-revision=absent")
    assert amux.run(*words, hub=hub.sockets["hub"]).json["revision"] == revision
    for path in ("a/in.md", "a/file.md"):
        exported = amux.run("memory", "export", path, hub=hub.sockets["hub"])
        assert (exported.status, exported.out, exported.err) == (0, data, b"")
        assert (hub.home / "memory" / "global" / path).read_bytes() == data


def test_json_is_the_reply_unchanged(amux: Tool, hub: Hub) -> None:
    """The bytes are compact UTF-8, and the object is what the socket answers."""
    put(amux, hub, "笔记.md", "一行\n二行\n".encode())
    for words, method, parameters in (
        (("show", "笔记.md", "--start-line", "2"), "Get", {"path": "笔记.md", "start_line": 2}),
        (("show", "笔记.md", "--offset=3"), "Get", {"path": "笔记.md", "offset": 3}),
        (("search", "一行", "无", "--limit", "3"), "Search", {"query": "一行 无", "limit": 3}),
        (("list",), "List", {}),
    ):
        result = amux.run("memory", *words, hub=hub.sockets["hub"])
        assert result.json == hub.call(f"io.amux.Memory.{method}", "hub", **parameters)["parameters"]
        assert result.out.count(b"\n") == 1
        assert "笔记.md".encode() in result.out
        assert result.err == b""


def test_show_a_part(amux: Tool, hub: Hub) -> None:
    put(amux, hub, "p.md", b"one\ntwo\nthree\n")
    result = amux.run("memory", "show", "p.md", "--start-line", "2", "--end-line", "2", hub=hub.sockets["hub"])
    assert result.json["content"] == "two\n"
    result = amux.run("memory", "show", "p.md", "--offset", "8", hub=hub.sockets["hub"])
    assert result.json["content"] == "three\n"


def test_search_options(amux: Tool, hub: Hub) -> None:
    for path in ("x/1.md", "x/2.md", "y/3.md"):
        put(amux, hub, path, b"needle\n")
    result = amux.run("memory", "search", "needle", "--path-prefix", "x", "--limit", "1", hub=hub.sockets["hub"])
    assert [match["path"] for match in result.json["matches"]] == ["x/1.md"]
    # A keyword may look like an option: it stands behind `--`.
    assert amux.run("memory", "search", "--", "--limit", hub=hub.sockets["hub"]).json["matches"] == []


def test_forget(amux: Tool, hub: Hub) -> None:
    put(amux, hub, "gone.md", b"x")
    words = ("memory", "forget", "gone.md", "--expected-revision", sha256(b"x"))
    first = amux.run(*words, hub=hub.sockets["hub"]).json
    assert (first["path"], first["revision"], first.get("already_absent", False)) == ("gone.md", "absent", False)
    assert amux.run(*words, hub=hub.sockets["hub"]).json["already_absent"] is True


def test_done_is_0_for_an_empty_search_and_a_missing_document(amux: Tool, shared_hub: Hub) -> None:
    found = amux.run("memory", "search", "nothing-is-like-this", hub=shared_hub.sockets["hub"]).json
    assert found["matches"] == []
    shown = amux.run("memory", "show", "missing.md", hub=shared_hub.sockets["hub"]).json
    assert (shown["exists"], shown["revision"], shown["content"]) == (False, "absent", "")


def test_list_pages(amux: Tool, hub: Hub) -> None:
    paths = sorted(f"directory-with-a-long-name/document-{number:03}.md" for number in range(100))
    with hub.connect() as channel:
        for path in paths:
            channel.call("io.amux.Memory.Upsert", path=path, content="x", expected_revision="absent")
    page = amux.run("memory", "list", hub=hub.sockets["hub"]).json
    collected = [document["path"] for document in page["documents"]]
    assert 0 < len(collected) < 100
    assert page["total_documents"] == 100
    while page["next_after"]:
        page = amux.run("memory", "list", "--after", page["next_after"], hub=hub.sockets["hub"]).json
        collected += [document["path"] for document in page["documents"]]
    assert collected == paths
    every = amux.run("memory", "list", "--all", "--path-prefix", "directory-with-a-long-name", hub=hub.sockets["hub"])
    assert every.status == 0
    pages = [json.loads(line) for line in every.out.splitlines()]
    assert [document["path"] for page in pages for document in page["documents"]] == paths


def test_whoami(amux: Tool, shared_hub: Hub) -> None:
    reply = amux.run("whoami", hub=shared_hub.sockets["hub"]).json
    assert reply == shared_hub.call("io.amux.Hub.WhoAmI")["parameters"]
    assert reply["uid"] == os.geteuid()
    assert reply["scope"] == "global"


def test_config_and_status_show_saved_and_running_apart(amux: Tool, tmp_path: Path) -> None:
    with Hub(tmp_path / "hub", mcp=False, enabled=False) as hub:
        where = hub.sockets["hub"]
        before = amux.run("status", hub=where).json
        assert (before["memory_enabled_saved"], before["memory_enabled_running"]) == (False, False)
        refused = amux.run("memory", "show", "a.md", hub=where)
        assert (refused.status, refused.error["code"]) == (7, "memory_disabled")
        saved = amux.run("system", "config", "set", "memory.enabled", "true", hub=where).json
        assert (saved["value"], saved["running"]) == ("true", "false")
        between = amux.run("status", hub=where).json
        assert (between["memory_enabled_saved"], between["memory_enabled_running"]) == (True, False)
        assert amux.run("memory", "show", "a.md", hub=where).status == 7
        hub.restart()
        assert amux.run("memory", "show", "a.md", hub=where).status == 0
        listed = amux.run("system", "config", "list", hub=where).json["settings"]
        got = amux.run("system", "config", "get", "memory.enabled", hub=where).json
        assert {"value": "true", "running": "true"}.items() <= got.items()
        assert "memory.enabled" in [setting["key"] for setting in listed]


@pytest.mark.parametrize("words", [("show", "a.md"), ("search", "x"), ("list",), ("export", "a.md"), ("edit", "a.md")])
def test_every_read_is_refused_while_off(amux: Tool, off: Hub, words: tuple[str, ...]) -> None:
    result = amux.run("memory", *words, hub=off.sockets["hub"], env={"EDITOR": "true"})
    assert (result.status, result.error["code"]) == (7, "memory_disabled")


@pytest.mark.parametrize("name", ["upsert", "forget"])
def test_every_write_is_refused_while_off(amux: Tool, off: Hub, name: str) -> None:
    result = amux.run("memory", name, "a.md", "--expected-revision", "absent", hub=off.sockets["hub"])
    assert (result.status, result.error["code"]) == (7, "memory_disabled")


@pytest.fixture(scope="module")
def off(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Hub(tmp_path_factory.mktemp("off"), mcp=False, enabled=False) as running:
        yield running


def test_status_says_which_hub_and_why(amux: Tool, shared_hub: Hub) -> None:
    status = amux.run("status", hub=shared_hub.sockets["hub"]).json
    assert status["reachable"] is True
    assert str(shared_hub.sockets["hub"]) in status["hub"]
    assert "AMUX_HUB" in status["why"]
    assert status["version"] == status["client_version"]
    by_default = amux.run(
        "status", hub=None, env={"XDG_RUNTIME_DIR": str(shared_hub.sockets["hub"].parent.parent)}
    ).json
    assert "XDG_RUNTIME_DIR" in by_default["why"]


def test_status_works_while_the_hub_is_down(amux: Tool, short: Path) -> None:
    result = amux.run("status", hub=short / "hub.sock")
    assert result.status == 8
    facts = json.loads(result.out)
    assert facts["reachable"] is False
    assert str(short / "hub.sock") in facts["hub"]
    assert result.error["code"] == "hub_unavailable"
    assert "start it with: amux-hub" in result.error["message"]


@pytest.mark.parametrize(
    "words", [("memory", "show", "a.md"), ("memory", "list"), ("whoami",), ("mcp",), ("dial-stdio",)]
)
def test_a_missing_hub_gives_one_line_that_says_what_to_start(amux: Tool, short: Path, words: tuple[str, ...]) -> None:
    result = amux.run(*words, hub=None, env={"XDG_RUNTIME_DIR": str(short)})
    assert result.status == 8
    assert result.out == b""
    assert result.err.count(b"\n") == 1
    assert b"amux-hub" in result.err


@pytest.mark.parametrize("home", [None, "", "/nonexistent"])
def test_home_unset(amux: Tool, shared_hub: Hub, home: str | None) -> None:
    environment = amux.environment(shared_hub.sockets["hub"], None)
    del environment["HOME"]
    if home is not None:
        environment["HOME"] = home
    done = subprocess.run([*amux.command, "memory", "list"], env=environment, cwd="/", capture_output=True)
    assert done.returncode == 0


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "en_US.ISO-8859-1", "nonsense"])
def test_text_is_utf8_in_any_locale(amux: Tool, hub: Hub, locale: str) -> None:
    env = {"LC_ALL": locale}
    where = hub.sockets["hub"]
    words = ("memory", "upsert", "é部署.md", "--expected-revision", "absent")
    assert amux.run(*words, hub=where, env=env, input="ü 部署\n".encode()).json["path"] == "é部署.md"
    assert amux.run("memory", "show", "é部署.md", hub=where, env=env).json["content"] == "ü 部署\n"
    assert amux.run("memory", "search", "部署", hub=where, env=env).json["matches"][0]["snippet"] == "ü 部署"
    assert amux.run("memory", "export", "é部署.md", hub=where, env=env).out == "ü 部署\n".encode()


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
    assert put(amux, hub, "full.md", data).json["revision"] == sha256(data)
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


EXPORTED = "".join(f"{number} 行\n" for number in range(4000)).encode()


def test_export_joins_pages(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    put(amux, hub, "long.md", EXPORTED)
    assert amux.run("memory", "export", "long.md", hub=hub.sockets["hub"]).out == EXPORTED
    out = tmp_path / "out.md"
    out.write_bytes(b"old")
    result = amux.run("memory", "export", "long.md", "--output", str(out), hub=hub.sockets["hub"])
    assert (result.status, result.out) == (0, b"")
    assert out.read_bytes() == EXPORTED
    assert os.listdir(tmp_path) == ["out.md"]


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o600), (0o022, 0o600), (0o277, 0o400)])
def test_c23_export_respects_the_umask(amux: Tool, hub: Hub, tmp_path: Path, umask: int, mode: int) -> None:
    put(amux, hub, "a.md", b"x")
    out = tmp_path / "out.md"
    words = ("memory", "export", "a.md", "--output", str(out))
    assert amux.run(*words, hub=hub.sockets["hub"], umask=umask).status == 0
    assert stat.S_IMODE(out.stat().st_mode) == mode


def test_export_of_a_missing_document(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    result = amux.run("memory", "export", "no.md", "--output", str(out), hub=hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (3, "not_found")
    assert not out.exists()


def test_export_into_a_device_leaves_the_device(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    put(amux, hub, "a.md", b"through the pipe")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    collected: list[bytes] = []
    reader = threading.Thread(target=lambda: collected.append(pipe.read_bytes()))
    reader.start()
    assert amux.run("memory", "export", "a.md", "--output", str(pipe), hub=hub.sockets["hub"]).status == 0
    reader.join()
    assert collected == [b"through the pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["no/such/directory/out.md", "."])
def test_export_that_cannot_be_written(amux: Tool, hub: Hub, tmp_path: Path, name: str) -> None:
    put(amux, hub, "a.md", b"x")
    result = amux.run("memory", "export", "a.md", "--output", str(tmp_path / name), hub=hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (2, "invalid_argument")


def page(content: str, revision: str, **more: object) -> dict[str, Any]:
    return {"parameters": {"path": "a.md", "exists": True, "revision": revision, "content": content, **more}}


def failure(code: str) -> dict[str, Any]:
    name = "io.amux.Hub." + "".join(part.capitalize() for part in code.split("_"))
    return {"error": name, "parameters": {"message": "m", "details": {"revision": "c" * 64}}}


@pytest.mark.parametrize(
    "second",
    [
        page("new text", "b" * 64, truncated=False),
        {"parameters": {"path": "a.md", "exists": False, "revision": "absent", "content": "", "truncated": False}},
        failure("invalid_argument"),  # the offset lies beyond the new end, or inside a character
        failure("not_utf8"),
        failure("unsafe_file"),
    ],
    ids=["changed", "deleted", "shorter", "not-utf8", "link"],
)
def test_export_conflict_between_pages(
    amux: Tool, scripted: ScriptedHub, tmp_path: Path, second: dict[str, Any]
) -> None:
    first = page("old ", "a" * 64, truncated=True, next_offset=4)
    scripted.then(*[scripted.answers(first, second)] * 2)
    result = amux.run("memory", "export", "a.md", hub=scripted.path)
    assert (result.status, result.out, result.error["code"]) == (4, b"", "conflict")
    out = tmp_path / "out.md"
    result = amux.run("memory", "export", "a.md", "--output", str(out), hub=scripted.path)
    assert result.status == 4
    assert not out.exists()


def test_export_checks_what_it_joined(amux: Tool, scripted: ScriptedHub) -> None:
    scripted.then(scripted.answers(page("not this", "a" * 64, truncated=False)))
    result = amux.run("memory", "export", "a.md", hub=scripted.path)
    assert (result.status, result.out, result.error["code"]) == (1, b"", "protocol_error")


@pytest.mark.parametrize("code", sorted(set(CODES) - {"shutting_down"}))
def test_every_code_has_its_exit_status(amux: Tool, scripted: ScriptedHub, code: str) -> None:
    scripted.then(*[scripted.refuses(code, limit="x")] * 2)
    for words in (("memory", "show", "a.md"), ("whoami",)):
        result = amux.run(*words, hub=scripted.path)
        assert (result.status, result.out) == (CODES[code], b"")
        assert result.error == {"code": code, "message": f"{code} it is", "details": {"limit": "x"}}


def test_an_uncertain_write_exits_9(amux: Tool, scripted: ScriptedHub) -> None:
    scripted.then(scripted.sends(b"", wait=False))
    result = amux.run("memory", "forget", "a.md", "--expected-revision", "absent", hub=scripted.path)
    assert (result.status, result.error["code"]) == (9, "outcome_uncertain")
    assert result.error["details"]["path"] == "a.md"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense",),
        ("memory",),
        ("memory", "nonsense"),
        ("memory", "show"),
        ("memory", "show", "a.md", "b.md"),
        ("memory", "show", "a.md", "--nonsense"),
        ("memory", "show", "a.md", "--offset"),
        ("memory", "show", "a.md", "--offset", "x"),
        ("memory", "show", "a.md", "--offset", ""),
        ("memory", "show", "a.md", "--json=yes"),
        ("memory", "upsert", "a.md"),
        ("memory", "forget", "a.md"),
        ("memory", "search"),
        ("system", "config", "get"),
        ("completion", "tcsh"),
        ("dial-stdio", "--nonsense"),
        ("mcp", "--nonsense"),
    ],
    ids=" ".join,
)
def test_usage_errors_exit_2(amux: Tool, short: Path, words: tuple[str, ...]) -> None:
    """Before anything is connected, with one author of the message."""
    result = amux.run(*words, hub=short / "hub.sock")
    assert (result.status, result.out) == (2, b"")
    if words and words != ("memory",):
        assert result.error["code"] == "invalid_argument"
        assert "--help" in result.error["message"]
    else:
        assert b"Usage: amux" in result.err


@pytest.mark.parametrize(
    ("argument", "code"), [("show", "invalid_path"), ("search", "invalid_argument"), ("export", "invalid_path")]
)
def test_an_argument_that_is_not_utf8(amux: Tool, shared_hub: Hub, argument: str, code: str) -> None:
    word = os.fsdecode(b"a\xff.md")
    result = amux.run("memory", argument, word, hub=shared_hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (2, code)


def test_a_negative_number_is_the_hubs_to_refuse(amux: Tool, shared_hub: Hub) -> None:
    result = amux.run("memory", "show", "a.md", "--offset", "-1", hub=shared_hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (2, "invalid_argument")


def test_session_and_binding_are_sent(amux: Tool, shared_hub: Hub) -> None:
    where = shared_hub.sockets["hub"]
    bound = {"AMUX_SESSION": "s1", "AMUX_MEMORY_BINDING": "global"}
    assert amux.run("memory", "list", hub=where, env=bound).status == 0
    wrong = {"AMUX_MEMORY_BINDING": "principal:somebody"}
    for words in (("list",), ("show", "a.md"), ("search", "x")):
        result = amux.run("memory", *words, hub=where, env=wrong)
        assert (result.status, result.error["code"]) == (6, "binding_mismatch")
    result = amux.run("memory", "list", hub=where, env={"AMUX_SESSION": "s1"})
    assert (result.status, result.error["code"]) == (6, "binding_required")
    assert amux.run("status", hub=where, env=wrong).status == 0


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


def test_ctrl_c(amux: Tool, scripted: ScriptedHub) -> None:
    """130; and a write that had left says that its outcome is unknown."""
    arrived = threading.Event()

    def silent(connection: Any) -> None:
        scripted.receive(connection)
        arrived.set()
        connection.recv(1)

    for words, said in (
        (("show", "a.md"), b""),
        (("forget", "a.md", "--expected-revision", "absent"), b"read it again"),
    ):
        scripted.then(silent)
        arrived.clear()
        with amux.popen("memory", *words, hub=scripted.path) as process:
            assert arrived.wait(60)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, b"")
        assert said in err
        assert b"Traceback" not in err


def test_version(amux: Tool) -> None:
    result = amux.run("--version", hub=None)
    assert (result.status, result.out) == (0, b"amux 0.1.0\n")
