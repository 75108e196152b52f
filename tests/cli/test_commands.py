"""Every command end to end, as a program calls it: pipes, JSON, exit statuses, a real Hub."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from amux.errors import CODES
from tests.cli.scripted import ScriptedHub
from tests.cli.tool import Tool, put
from tests.harness import Hub


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


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


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("whoami",),
        ("system", "config", "list"),
        ("system", "config", "get", "memory.enabled"),
        ("admin", "usage"),
        ("admin", "connections"),
        ("session", "list"),
    ],
    ids=" ".join,
)
def test_all_that_is_no_memory_works_while_off(amux: Tool, off: Hub, words: tuple[str, ...]) -> None:
    assert amux.run(*words, hub=off.sockets["hub"]).json


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


@pytest.mark.parametrize("number", [str(2**63), "-" + str(2**63), "9" * 19, "9" * 30, "9" * 5000])
@pytest.mark.parametrize("option", ["--offset", "--start-line", "--end-line"])
def test_a_number_beyond_the_wire_is_a_usage_error(amux: Tool, shared_hub: Hub, option: str, number: str) -> None:
    result = amux.run("memory", "show", "a.md", option, number, hub=shared_hub.sockets["hub"])
    assert (result.status, result.out, result.error["code"]) == (2, b"", "invalid_argument")


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
