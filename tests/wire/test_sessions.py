"""io.amux.Session with two made-up people, and at a real Hub: whose a session is, what it keeps, what outlives what."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from amux.errors import AmuxError
from amux_hub.sessions import files, record
from amux_hub.store import write
from tests.harness import Hub
from tests.wire.inprocess import Wire

SESSION = "io.amux.Session."
NEVER = "s-" + "a2" * 13
OWN = ("Resume", "Show", "End", "SetNative")
"""Methods that name a session."""


def _begin(wire: Wire, who: str, **parameters: str) -> dict[str, Any]:
    return _begun(wire.call(who, SESSION + "Begin", **{"agent": "pi", **parameters}))


def _begin_at(hub: Hub) -> dict[str, Any]:
    return _begun(hub.call(SESSION + "Begin", agent="pi"))


def _begun(answer: dict[str, Any]) -> dict[str, Any]:
    assert "error" not in answer, answer
    state: dict[str, Any] = answer["parameters"]
    return state


def _named(method: str, session: str) -> dict[str, str]:
    return {"session": session, **({"native": "n1"} if method == "SetNative" else {})}


def _code(answer: dict[str, Any]) -> str:
    return str(answer["error"]).rpartition(".")[2]


# Two people


def test_a_session_is_bound_to_the_scope_of_who_began_it(wire: Wire) -> None:
    wire.start()
    begun = _begin(wire, "alice", kind="task", isolation="dac", parent=NEVER)
    assert re.fullmatch("s-[a-z2-7]{26}", begun["session"])
    assert begun == {"session": begun["session"], "binding": "principal:alice"}
    resumed = wire.call("alice", SESSION + "Resume", session=begun["session"])["parameters"]
    assert resumed == wire.call("alice", SESSION + "Show", session=begun["session"])["parameters"]
    times = (resumed.pop("created"), resumed.pop("last_used"))
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times)
    assert resumed == {**begun, "agent": "pi", "kind": "task", "isolation": "dac", "parent": NEVER}
    plain = _begin(wire, "bob")
    shown = wire.call("bob", SESSION + "Show", session=plain["session"])["parameters"]
    assert (shown["kind"], shown["isolation"], shown["binding"]) == ("interactive", "none", "principal:bob")
    assert "native" not in shown and "parent" not in shown


@pytest.mark.parametrize("method", OWN)
def test_one_of_somebody_else_is_one_that_never_was(wire: Wire, method: str) -> None:
    wire.start()
    session = _begin(wire, "alice")["session"]
    theirs = wire.call("bob", SESSION + method, **_named(method, session))
    never = wire.call("bob", SESSION + method, **_named(method, NEVER))
    assert theirs["error"] == never["error"] == "io.amux.Hub.NotFound"
    assert json.dumps(theirs).replace(session, NEVER) == json.dumps(never)
    assert wire.call("bob", SESSION + "List")["parameters"] == {"sessions": []}
    assert "native" not in wire.call("alice", SESSION + "Resume", session=session)["parameters"]


@pytest.mark.parametrize("method", ["Begin", "List", *OWN])
def test_who_is_not_served_has_no_sessions(wire: Wire, method: str) -> None:
    wire.start()
    parameters = {"Begin": {"agent": "pi"}, "List": {}}.get(method, _named(method, NEVER))
    assert wire.call("mallory", SESSION + method, **parameters)["error"] == "io.amux.Hub.IdentityRefused"


def test_the_agents_own_id_is_told_once(wire: Wire) -> None:
    wire.start()
    session = _begin(wire, "alice")["session"]
    for native, outcome in (("n1", None), ("n1", None), ("n2", "Conflict"), ("n1", None)):
        answer = wire.call("alice", SESSION + "SetNative", session=session, native=native)
        assert (_code(answer) if "error" in answer else None) == outcome
    assert wire.call("alice", SESSION + "Resume", session=session)["parameters"]["native"] == "n1"


def test_an_ended_one_is_gone(wire: Wire) -> None:
    wire.start()
    session = _begin(wire, "alice")["session"]
    assert wire.call("alice", SESSION + "End", session=session) == {"parameters": {}}
    for method in OWN:
        assert _code(wire.call("alice", SESSION + method, **_named(method, session))) == "NotFound"
    assert not list((wire.directory / "sessions").iterdir())


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("Begin", {"agent": "Pi"}),
        ("Begin", {"agent": "pi\n"}),
        ("Begin", {"agent": "../pi"}),
        ("Begin", {"agent": "pi", "kind": "other"}),
        ("Begin", {"agent": "pi", "isolation": "off"}),
        ("Begin", {"agent": "pi", "parent": "s-1"}),
        ("Begin", {"agent": "pi", "principal": "bob"}),
        ("Begin", {"agent": True}),
        ("Begin", {}),
        ("Resume", {"session": NEVER + "\n"}),
        ("Resume", {"session": "../" + NEVER}),
        ("Resume", {"session": NEVER.upper()}),
        ("Show", {"session": ""}),
        ("End", {"session": "."}),
        ("List", {"after": "x"}),
        ("SetNative", {"session": NEVER, "native": ""}),
        ("SetNative", {"session": NEVER, "native": "a b"}),
        ("SetNative", {"session": NEVER, "native": "x" * 257}),
    ],
)
def test_values_are_matched_whole(wire: Wire, method: str, parameters: dict[str, Any]) -> None:
    wire.start()
    assert _code(wire.call("alice", SESSION + method, **parameters)) in ("InvalidArgument", "InvalidParameter")
    assert wire.call("alice", SESSION + "List")["parameters"] == {"sessions": []}


def test_the_one_used_longest_ago_goes_and_another_person_keeps_theirs(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SESSIONS", 3)
    wire.start()
    bobs = _begin(wire, "bob")["session"]
    first, second, third = (_begin(wire, "alice")["session"] for _ in range(3))
    assert "error" not in wire.call("alice", SESSION + "Resume", session=first)
    fourth = _begin(wire, "alice")["session"]
    assert _code(wire.call("alice", SESSION + "Resume", session=second)) == "NotFound"
    there = {path.name.removesuffix(".json") for path in (wire.directory / "sessions").iterdir()}
    assert there == {first, third, fourth, bobs}


def test_a_listing_goes_on_where_a_page_ended(wire: Wire) -> None:
    wire.start()
    with wire.connect("alice") as channel:
        begun = set()
        after: dict[str, str] = {}
        for _ in range(60):
            begun.add(channel.call(SESSION + "Begin", agent="pi")["parameters"]["session"])
        found: list[str] = []
        pages = 0
        while True:
            page = channel.call(SESSION + "List", **after)["parameters"]
            assert len(json.dumps(page, separators=(",", ":"))) <= limits.REPLY_BYTES
            found += [one["session"] for one in page["sessions"]]
            pages += 1
            assert pages < 20, "it goes on and on"
            if "next_after" not in page:
                break
            after = {"after": page["next_after"]}
    assert pages > 1 and len(found) == 60 and set(found) == begun


# A real Hub


def _restarted(hub: Hub, **settings: object) -> None:
    """With the switch, or hub.yaml, as said."""
    hub.stop()
    if "enabled" in settings:
        hub.save_settings({"memory": {"enabled": settings.pop("enabled")}})
    if settings:
        hub.write_config(settings)
    hub.start()


def test_it_outlives_the_hub_durably_and_privately(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        begun = _begin_at(hub)
        hub.call(SESSION + "SetNative", session=begun["session"], native="n1")
        hub.kill()
        hub.start()
        resumed = hub.call(SESSION + "Resume", session=begun["session"])["parameters"]
        assert (resumed["binding"], resumed["native"]) == (begun["binding"], "n1")
        directory = hub.home / "sessions"
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        (path,) = directory.iterdir()
        assert path.name == begun["session"] + ".json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_while_the_switch_is_off_none_begins_and_all_resume(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        session = _begin_at(hub)["session"]
        _restarted(hub, enabled=False)
        assert hub.call(SESSION + "Begin", agent="pi")["error"] == "io.amux.Hub.MemoryDisabled"
        assert hub.call(SESSION + "Begin", agent="")["error"] == "io.amux.Hub.InvalidArgument"
        assert hub.call(SESSION + "Resume", session=session)["parameters"]["binding"] == "global"
        assert "error" not in hub.call(SESSION + "SetNative", session=session, native="n1")
        assert len(hub.call(SESSION + "List")["parameters"]["sessions"]) == 1
        assert "error" not in hub.call(SESSION + "End", session=session)


def test_a_binding_that_is_not_the_callers_now_is_refused_and_kept(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        session = _begin_at(hub)["session"]
        _restarted(hub, isolation=True)
        assert hub.call(SESSION + "Resume", session=session)["error"] == "io.amux.Hub.BindingMismatch"
        assert hub.call(SESSION + "Show", session=session)["parameters"]["binding"] == "global"
        _restarted(hub, isolation=False)
        assert hub.call(SESSION + "Resume", session=session)["parameters"]["binding"] == "global"


def test_a_memory_call_may_name_a_session_that_is_not_kept(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        answer = hub.call("io.amux.Memory.Get", path="a.md", session=NEVER, binding="global")
        assert answer["parameters"]["exists"] is False
        assert not (hub.home / "sessions").exists()


def test_files_that_are_no_launch_state_harm_nobody(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        kept, moved, linked = (_begin_at(hub)["session"] for _ in range(3))
        hub.stop()
        directory = hub.home / "sessions"
        (directory / f"{moved}.json").rename(directory / f"{NEVER}.json")
        (directory / f"{linked}.json").rename(tmp_path / "elsewhere")
        (directory / f"{linked}.json").symlink_to(tmp_path / "elsewhere")
        (directory / f"s-{'b' * 26}.json").write_bytes(b"\xff")
        (directory / f"s-{'c' * 26}.json").write_text('{"id":' + "[" * 2000)
        (directory / "a\nb.json").mkdir()
        (directory / (".amux-tmp-" + "0" * 32)).write_text("a crash left this")
        hub.start()
        assert [one["session"] for one in hub.call(SESSION + "List")["parameters"]["sessions"]] == [kept]
        for gone in (moved, linked, NEVER):
            assert hub.call(SESSION + "Resume", session=gone)["error"] == "io.amux.Hub.NotFound"
        assert (tmp_path / "elsewhere").exists() and len(list(directory.iterdir())) == 6
        assert hub.stderr.count("is no launch state") == 5


def test_a_place_that_is_none_of_ours_is_an_error_each_time(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        (hub.home / "sessions").symlink_to(tmp_path)
        for _ in range(2):
            assert hub.call(SESSION + "Begin", agent="pi")["error"] == "io.amux.Hub.UnsafeFile"
        (hub.home / "sessions").unlink()
        assert _begin_at(hub)


# The file


STATE = {
    "id": NEVER,
    "principal": "alice",
    "binding": "global",
    "agent": "pi",
    "kind": "task",
    "isolation": "none",
    "created": "2026-01-02T03:04:05Z",
    "last_used": "2026-01-02T03:04:05Z",
    "native": "",
    "parent": "",
}


def _parsed(**changed: object) -> record.Session:
    return record.parse(json.dumps({**STATE, **changed}).encode(), NEVER + ".json")


@pytest.mark.parametrize(
    "changed",
    [
        {"agent": "Pi"},
        {"kind": ""},
        {"isolation": "off"},
        {"binding": "a/b"},
        {"binding": ""},
        {"principal": ""},
        {"native": "a b"},
        {"native": None},
        {"native": [[]]},
        {"parent": "x"},
        {"created": "yesterday"},
        {"last_used": "2026-01-02T03:04:05Z\n"},
        {"more": ""},
        {"id": "s-" + "b" * 26},
        {"principal": "x" * record.RECORD_BYTES},
    ],
)
def test_what_is_no_state_is_not_read_as_one(changed: dict[str, object]) -> None:
    assert record.parse(record.encode(_parsed()), NEVER + ".json") == _parsed()
    with pytest.raises(ValueError):
        _parsed(**changed)


def test_a_failed_write_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = files.Files(str(tmp_path))
    kept.put(_parsed())

    def fails(*_: object) -> None:
        raise AmuxError("storage_full", "no room")

    monkeypatch.setattr(write, "replace", fails)
    with pytest.raises(AmuxError):
        kept.put(_parsed(native="n1"))
    assert kept.get("alice", NEVER) == _parsed()
    kept.close()
