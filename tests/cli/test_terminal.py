"""What a person at a terminal sees: readable, escaped, on the right stream."""

from __future__ import annotations

import os
import re

import pytest

from amux import output
from amux.cli.status import _duration
from tests.cli.scripted import ScriptedHub
from tests.cli.tool import Tool
from tests.harness import Hub

HOSTILE = "\x1b[31mred\x07 \x9b2J \u202egnp.exe\u2066 \u200f end\rstart\x7f \U000e0041"


def put(hub: Hub, path: str, content: str) -> None:
    reply = hub.call("io.amux.Memory.Upsert", path=path, content=content, expected_revision="absent")
    assert "error" not in reply


def test_show_is_the_text_with_a_footer(amux: Tool, hub: Hub) -> None:
    put(hub, "a.md", "# 标题\r\n\ttwo\nlast")
    result = amux.at_terminal("memory", "show", "a.md", hub=hub.sockets["hub"])
    assert result.status == 0
    assert result.out.decode() == "# 标题\n\ttwo\nlast\n"
    footer = result.err.decode()
    assert footer.startswith("-- a.md: lines 1 to 3 of 3, ")
    assert "revision " in footer


def test_show_says_how_to_go_on(amux: Tool, hub: Hub) -> None:
    put(hub, "a.md", "line\n" * 5000)
    result = amux.at_terminal("memory", "show", "a.md", hub=hub.sockets["hub"])
    after = result.err.decode().rpartition("--offset ")[2].strip()
    rest = amux.at_terminal("memory", "show", "a.md", "--offset", after, hub=hub.sockets["hub"])
    assert rest.status == 0
    assert rest.out.startswith(b"line\n")


def test_show_of_a_missing_document(amux: Tool, shared_hub: Hub) -> None:
    result = amux.at_terminal("memory", "show", "no.md", hub=shared_hub.sockets["hub"])
    assert (result.status, result.out) == (0, b"")
    assert result.err == b"amux: there is no no.md (revision absent)\n"


@pytest.mark.parametrize("words", [("show", "a.md"), ("export", "a.md"), ("search", "red"), ("search", "end")])
def test_control_characters_never_reach_a_terminal(amux: Tool, hub: Hub, words: tuple[str, ...]) -> None:
    put(hub, "a.md", HOSTILE)
    result = amux.at_terminal("memory", *words, hub=hub.sockets["hub"], env={"NO_COLOR": "1"})
    assert result.status == 0
    shown = result.out.decode()
    assert shown.replace("\n", "").isprintable()
    if words[0] != "search":
        assert r"\x1b[31mred\x07 \x9b2J \u202egnp.exe\u2066 \u200f end\x0dstart\x7f \U000e0041" in shown


@pytest.mark.parametrize("words", [("show", "a.md"), ("search", "red"), ("search", "end")])
def test_json_at_a_terminal_holds_no_control_character_either(amux: Tool, hub: Hub, words: tuple[str, ...]) -> None:
    """JSON must escape those below U+0020 alone: U+009B begins a sequence too, and U+202E reorders."""
    put(hub, "a.md", HOSTILE)
    result = amux.at_terminal("memory", *words, "--json", hub=hub.sockets["hub"])
    assert result.out.decode().replace("\n", "").isprintable()
    text = result.json["content"] if words[0] == "show" else result.json["matches"][0]["snippet"]
    assert text in HOSTILE and not text.isprintable()


def test_piped_output_is_never_escaped(amux: Tool, hub: Hub) -> None:
    put(hub, "a.md", HOSTILE)
    assert amux.run("memory", "show", "a.md", hub=hub.sockets["hub"]).json["content"] == HOSTILE
    assert amux.run("memory", "export", "a.md", hub=hub.sockets["hub"]).out == HOSTILE.encode()


def test_an_error_is_one_escaped_line(amux: Tool, scripted: ScriptedHub) -> None:
    reply = {"error": "io.amux.Hub.Conflict", "parameters": {"message": "it \x1b[2J is\nso", "details": {}}}
    scripted.then(*[scripted.answers(reply)] * 3)
    result = amux.at_terminal("memory", "show", "a.md", hub=scripted.path)
    assert (result.status, result.out) == (4, b"")
    assert result.err == b"amux: it \\x1b[2J is\\x0aso\n"
    as_json = amux.at_terminal("memory", "show", "a.md", "--json", hub=scripted.path)
    assert as_json.error["message"] == "it \x1b[2J is\nso"
    assert amux.at_terminal("whoami", "--json", hub=scripted.path).error["code"] == "conflict"


def test_json_at_a_terminal(amux: Tool, hub: Hub) -> None:
    put(hub, "a.md", "x")
    for words in (("memory", "show", "a.md"), ("memory", "search", "x"), ("memory", "list"), ("status",)):
        result = amux.at_terminal(*words, "--json", hub=hub.sockets["hub"])
        assert result.json
        assert result.err == b""


def test_search_shows_path_line_and_the_hit(amux: Tool, hub: Hub) -> None:
    put(hub, "n/a.md", "first\nthe Deploy 部署 step\n")
    plain = amux.at_terminal("memory", "search", "deploy", "部署", hub=hub.sockets["hub"], env={"NO_COLOR": "1"})
    assert plain.out.decode() == "n/a.md:2: the Deploy 部署 step\n"
    assert plain.err == b"-- 1 found, 1 document scanned\n"
    marked = amux.at_terminal("memory", "search", "deploy", "部署", hub=hub.sockets["hub"])
    assert "the \x1b[1mDeploy\x1b[0m \x1b[1m部署\x1b[0m step" in marked.out.decode()
    dumb = amux.at_terminal("memory", "search", "deploy", hub=hub.sockets["hub"], env={"TERM": "dumb"})
    assert b"\x1b" not in dumb.out


def test_search_says_what_it_skipped(amux: Tool, hub: Hub) -> None:
    put(hub, "good.md", "word")
    (hub.home / "memory" / "global" / "bad.md").write_bytes(b"word \xff")
    result = amux.at_terminal("memory", "search", "word", hub=hub.sockets["hub"])
    assert b"good.md:1:" in result.out
    assert b"-- skipped bad.md: not_utf8" in result.err


def test_search_says_that_it_is_incomplete(amux: Tool, scripted: ScriptedHub) -> None:
    reply = {
        "matches": [],
        "scanned_files": 2,
        "incomplete": True,
        "incomplete_reason": "time",
        "truncated": True,
        "skipped_files": 5,
        "skipped": [],
    }
    scripted.then(scripted.answers({"parameters": reply}))
    result = amux.at_terminal("memory", "search", "x", hub=scripted.path)
    assert b"incomplete (time): narrow --path-prefix" in result.err
    assert b"more was found" in result.err
    assert b"skipped 5 more" in result.err


def test_writes_and_lists_in_words(amux: Tool, hub: Hub) -> None:
    where = hub.sockets["hub"]
    saved = amux.at_terminal("memory", "upsert", "a.md", "--expected-revision", "absent", hub=where, input=b"abc")
    assert saved.out.startswith(b"saved a.md, revision ba7816bf")
    listed = amux.at_terminal("memory", "list", hub=where)
    assert listed.out.split() == [b"3", b"ba7816bf8f01", b"a.md"]
    assert listed.err == b"-- 1 document, 3 bytes in all\n"
    revision = saved.out.split()[-1].decode()
    words = ("memory", "forget", "a.md", "--expected-revision", revision)
    assert amux.at_terminal(*words, hub=where).out == b"forgot a.md\n"
    assert amux.at_terminal(*words, hub=where).out == b"was already absent: a.md\n"


def test_a_file_that_is_not_read_is_listed_without_a_revision(amux: Tool, hub: Hub) -> None:
    put(hub, "a.md", "abc")
    scope = hub.home / "memory" / "global"
    os.link(scope / "a.md", scope / "b.md")
    listed = amux.at_terminal("memory", "list", hub=hub.sockets["hub"])
    assert listed.status == 0
    assert [line.split() for line in listed.out.splitlines()] == [[b"3", b"-", b"a.md"], [b"3", b"-", b"b.md"]]


def test_status_config_and_whoami_in_words(amux: Tool, own_hub: Hub) -> None:
    where = own_hub.sockets["hub"]
    saved = amux.at_terminal("system", "config", "set", "memory.enabled", "false", hub=where)
    assert b"memory.enabled = false" in saved.out
    assert b"running: true, until the Hub is restarted" in saved.out
    status = amux.at_terminal("status", hub=where).out.decode()
    assert "running: on, saved: off (in force after a restart of the Hub)" in status
    assert "AMUX_HUB names it" in status
    assert re.search(r"^running +yes, for \d+ s", status, re.MULTILINE)
    assert re.search(r"^connections +1 open, \d+ accepted, 0 refused, 0 dropped$", status, re.MULTILINE)
    assert "uptime" not in status
    assert b"scope" in amux.at_terminal("whoami", hub=where).out
    described = amux.at_terminal("system", "config", "get", "memory.enabled", hub=where).out
    assert b"the default is false" in described
    assert b"limits.free_bytes = " in amux.at_terminal("system", "config", "list", hub=where).out


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [(0, "0 s"), (59_999, "59 s"), (192_000, "3 min 12 s"), (3_600_000, "1 h 0 min"), (90_061_000, "1 d 1 h")],
)
def test_a_duration_in_words(milliseconds: int, shown: str) -> None:
    assert _duration(milliseconds) == shown


def test_a_usage_error_is_one_line_and_names_its_command(amux: Tool) -> None:
    """Also where click breaks the line, or has lost the command."""
    choices = amux.at_terminal("completion", hub=None).err.decode()
    assert choices.endswith("Choose from: bash, zsh, fish. See: amux completion --help\n")
    lost = amux.at_terminal("memory", "show", "a.md", "--offset", hub=None).err
    assert lost == b"amux: Option '--offset' requires an argument. See: amux memory show --help\n"


def test_a_part_without_a_line_is_called_so(amux: Tool, hub: Hub) -> None:
    put(hub, "a.md", "one\n")
    put(hub, "empty.md", "")
    beyond = amux.at_terminal("memory", "show", "a.md", "--start-line", "9", hub=hub.sockets["hub"])
    assert b"-- a.md: no such line (1 in all), 4 bytes" in beyond.err
    assert b"-- empty.md: empty, 0 bytes" in amux.at_terminal("memory", "show", "empty.md", hub=hub.sockets["hub"]).err


def test_a_narrow_locale_loses_nothing(amux: Tool, hub: Hub) -> None:
    """Characters that the terminal's encoding lacks are escaped, not replaced and no error."""
    put(hub, "a.md", "ü 部署")
    env = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
    result = amux.at_terminal("memory", "show", "a.md", hub=hub.sockets["hub"], env=env)
    assert result.status == 0
    assert result.out.decode() in ("ü 部署\n", "\\xfc \\u90e8\\u7f72\n")


def test_escaping_keeps_what_it_is_told() -> None:
    assert output.escape("plain 部署 é 🧑🏽‍💻") == "plain 部署 é 🧑🏽‍💻"
    assert output.escape("a\tb\nc") == r"a\x09b\x0ac"
    assert output.escape("a\tb\nc\x1b", "\n\t") == "a\tb\nc\\x1b"
    assert output.escape("\u2028\ud800") == r"\u2028\ud800"
