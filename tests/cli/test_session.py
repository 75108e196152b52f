"""`amux session`: for people and for programs, and its exit statuses."""

from __future__ import annotations

import pytest

from tests.cli.tool import Tool
from tests.harness import Hub

NEVER = "s-" + "a2" * 13


def _begin(hub: Hub) -> str:
    return str(hub.call("io.amux.Session.Begin", agent="pi", kind="task")["parameters"]["session"])


def test_list_show_and_end(amux: Tool, own_hub: Hub) -> None:
    assert amux.run("session", "list", hub=own_hub.sockets["hub"]).json == {"sessions": []}
    begun = {_begin(own_hub) for _ in range(40)}
    listed = amux.run("session", "list", hub=own_hub.sockets["hub"]).json["sessions"]
    assert {one["session"] for one in listed} == begun and len(listed) == 40
    used = [one["last_used"] for one in listed]
    assert used == sorted(used, reverse=True)
    session = listed[0]["session"]
    assert amux.run("session", "show", session, hub=own_hub.sockets["hub"]).json == listed[0]
    own_hub.call("io.amux.Session.SetNative", session=session, native="n1")
    assert amux.run("session", "show", session, hub=own_hub.sockets["hub"]).json == {**listed[0], "native": "n1"}
    assert amux.run("session", "end", session, hub=own_hub.sockets["hub"]).json == {"session": session}
    for command in ("show", "end"):
        result = amux.run("session", command, session, hub=own_hub.sockets["hub"])
        assert (result.status, result.error["code"]) == (3, "not_found")


@pytest.mark.parametrize(("words", "code"), [(["show", "s-1"], "invalid_argument"), (["end"], "invalid_argument")])
def test_what_is_no_session_is_a_usage_error(amux: Tool, hub: Hub, words: list[str], code: str) -> None:
    result = amux.run("session", *words, hub=hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (2, code)


def test_for_people(amux: Tool, own_hub: Hub) -> None:
    session, where = _begin(own_hub), own_hub.sockets["hub"]
    listed = amux.at_terminal("session", "list", hub=where)
    assert listed.out.decode().split()[:3] == [session, "pi", "task"]
    assert b"amux launch --resume SESSION" in listed.err
    shown = amux.at_terminal("session", "show", session, hub=where).out.decode()
    assert f"session       {session}\n" in shown and "conversation  not seen yet\n" in shown and "begun by" not in shown
    assert amux.at_terminal("session", "end", session, hub=where).out.decode().startswith(f"forgotten: {session}")
    assert amux.at_terminal("session", "list", hub=where).out == b""
