"""The plan of the adapter for Codex: its own memory off and read back, instructions merged, nothing of the user's lost.

tests/clients/test_launch_codex.py shows the same with the real program.
"""

from __future__ import annotations

import json
import os
import time
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux.errors import AmuxError
from amux.launch import codex, codex_rollouts, codex_server, codex_settings, codex_words, known, protocol
from amux.launch.agent import Request, Tool
from tests.harness import until
from tests.launch.launching import alive

CODEX = known.find("codex")
TEXT = protocol.of(CODEX)
FAKE = str(Path(__file__).with_name("fake_codex.py"))
NATIVE = "01a23c5a-a372-7992-a772-4d76f1d8c2cb"
OFF = {"features": {"memories": False}, "memories": {"use_memories": False, "generate_memories": False}}

Make = Callable[..., Request]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A request; `told` is what the program is told to answer."""

    def request(*arguments: str, native: str | None = None, hub: bool = True, **told: Any) -> Request:
        home, checkout = tmp_path / "home", tmp_path / "checkout"
        for made in (home / ".codex", checkout):
            made.mkdir(parents=True, exist_ok=True)
        told = {"record": str(tmp_path / "record"), "threads": [NATIVE], **told}
        environment = {
            "PATH": os.environ["PATH"],
            "CODEX_HOME": str(home / ".codex"),
            "AMUX_HUB": "/run/hub.sock",
            "AMUX_SESSION": "s-1",
            "FAKE_CODEX": json.dumps(told, ensure_ascii=False),
        }
        tool = Tool(("/opt/my amux/amux",), ("AMUX_HUB", "AMUX_SESSION", "AMUX_MEMORY_BINDING"))
        return Request(
            FAKE, arguments, environment, str(checkout), str(home), TEXT, tool, hub, native is not None, native
        )

    return request


def parted(request: Request) -> tuple[list[str], dict[str, Any], list[str]]:
    """The words in front of the overrides, what these come to, and the words behind them."""
    argv = list(CODEX.plan(request).argv)
    assert argv[0] == request.program
    first, last = argv.index("-c"), len(argv) - argv[::-1].index("-c") - 1
    settings: dict[str, Any] = {}
    for word, value in zip(argv[first : last + 2 : 2], argv[first + 1 : last + 2 : 2], strict=True):
        assert word == "-c"
        key, _, text = value.partition("=")
        found: Any = tomllib.loads(f"x={text}")["x"]
        for part in reversed(key.split(".")):  # quotes mean nothing to Codex there
            found = {part: found}
        lay(settings, found)
    return argv[1:first], settings, argv[last + 2 :]


def lay(below: dict[str, Any], above: dict[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict):
            lay(below.setdefault(key, {}), value)
        else:
            below[key] = value


def refusal(request: Request) -> AmuxError:
    with pytest.raises(AmuxError) as refused:
        CODEX.plan(request)
    return refused.value


def test_all_that_a_launch_sets(make: Make, tmp_path: Path) -> None:
    request = make()
    before, settings, after = parted(request)
    assert (before, after) == ([], [])
    assert settings == {
        **OFF,
        "mcp_servers": {
            "amux": {
                "command": "/opt/my amux/amux",
                "args": ["mcp"],
                "env_vars": ["AMUX_HUB", "AMUX_SESSION", "AMUX_MEMORY_BINDING"],
                "enabled": True,
                "required": True,
                "default_tools_approval_mode": "approve",
            }
        },
        "developer_instructions": TEXT,
    }
    record = json.loads((tmp_path / "record").read_text())
    assert record["cwd"] == request.directory
    (read,) = (message for message in record["asked"] if message.get("method") == "config/read")
    assert read["params"] == {"cwd": request.directory, "includeLayers": True}
    assert record["argv"][1] == "app-server"
    plan = CODEX.plan(request)
    overrides = [word for word in record["argv"][2:] if word != "-c"]
    assert [word for word in plan.argv[1:] if word != "-c"][: len(overrides)] == overrides
    assert not plan.set
    assert not plan.remove
    assert not plan.notices


def test_what_was_asked_has_ended(make: Make, tmp_path: Path) -> None:
    CODEX.plan(make(do="linger"))
    assert not alive(json.loads((tmp_path / "record").read_text())["pid"])
    child = int((tmp_path / "record.child").read_text())
    until(lambda: not alive(child), "it was killed, and so it ends")


@pytest.mark.parametrize(
    ("arguments", "before", "after"),
    [
        (("fix it",), [], ["--", "fix it"]),
        (("-m", "x", "--", "exec", "-s"), ["-m", "x"], ["--", "exec", "-s"]),
        (("-m=x", "exec", "--json", "-sread-only", "-"), ["-m=x", "exec", "--json", "-sread-only"], ["--", "-"]),
        (("e", "say", "resume"), ["e"], ["--", "say", "resume"]),
        (("exec", "-i", "a.png", "b.png", "--json"), ["exec", "-i", "a.png", "b.png", "--json"], []),
        (("--cd", ".", "--add-dir", "-x", ""), ["--cd", ".", "--add-dir", "-x"], ["--", ""]),
    ],
)
def test_arguments_arrive_whole(make: Make, arguments: tuple[str, ...], before: list[str], after: list[str]) -> None:
    found = parted(make(*arguments))
    assert (found[0], found[2]) == (before, after)


def test_resumed_it_is_codex_that_goes_on(make: Make) -> None:
    before, settings, after = parted(make("exec", "--json", "and now?", native=NATIVE))
    assert (before, after) == (["exec", "--json"], ["resume", NATIVE, "--", "and now?"])
    assert settings["developer_instructions"] == TEXT
    before, _, after = parted(make("-m", "x", native=NATIVE))
    assert (before, after) == (["resume", "-m", "x"], [NATIVE])


def test_a_conversation_of_ours_is_marked_or_does_not_go_on(make: Make, tmp_path: Path) -> None:
    CODEX.plan(make(native=NATIVE))
    asked = json.loads((tmp_path / "record").read_text())["asked"]
    assert {"threadId": NATIVE, "mode": "disabled"} in [message.get("params") for message in asked]
    assert refusal(make(native=NATIVE, threads=[])).code == "not_found"
    refused = refusal(make(native=NATIVE, refuse={"thread/memoryMode/set": "unknown variant"}))
    assert (refused.code, "unknown variant" in refused.message) == ("version_mismatch", True)


def test_without_the_hub_the_tools_are_no_condition(make: Make) -> None:
    request = make(native=NATIVE, hub=False)
    assert parted(request)[1]["mcp_servers"]["amux"]["required"] is False
    assert CODEX.plan(request).notices
    assert not CODEX.plan(replace(request, hub_answered=True)).notices


def test_a_launchs_own_overrides_come_after_the_users(make: Make) -> None:
    given = ("--enable", "memories", "exec", "-c", "memories.use_memories=true", "-cmodel='x'", "--disable=apps", "hi")
    before, settings, after = parted(make(*given))
    assert (before, after) == (["exec"], ["--", "hi"])
    assert (settings["features"], settings["memories"]) == ({"memories": False, "apps": False}, OFF["memories"])
    assert settings["model"] == "x"


INSTRUCTED = [
    ({"user": {"developer_instructions": "Of mine."}}, (), "Of mine."),
    ({"user": {"developer_instructions": "no"}, "project": {"developer_instructions": "Here."}}, (), "Here."),
    ({"user": {"developer_instructions": "no"}}, ("-c", 'developer_instructions="Now."'), "Now."),
    ({"user": {"developer_instructions": "no"}}, ("-p", "work"), "At work."),
    ({"user": {}, "project": {"developer_instructions": "Here."}}, ("-p", "work"), "Here."),
    (
        {"system": {"developer_instructions": "Host."}, "user": {"developer_instructions": "no"}},
        ("exec", "--ignore-user-config"),
        "Host.",
    ),
    ({"user": {"developer_instructions": f"Mine.\n\n{TEXT}"}}, (), "Mine."),
    ({"user": {}, "project": {"developer_instructions": "no"}}, ("exec", "--ignore-user-config"), None),
    ({"user": {"developer_instructions": " "}}, (), None),
]


@pytest.mark.parametrize(("layers", "arguments", "own"), INSTRUCTED)
def test_the_users_own_instructions_come_first(
    make: Make, layers: dict[str, Any], arguments: tuple[str, ...], own: str | None
) -> None:
    request = make(*arguments, layers=layers)
    Path(request.environment["CODEX_HOME"], "work.config.toml").write_text('developer_instructions = "At work."\n')
    assert parted(request)[1]["developer_instructions"] == (TEXT if own is None else f"{own}\n\n{TEXT}")


def test_n4_what_a_project_that_is_not_trusted_says_is_not_used(make: Make) -> None:
    server = {"command": "/opt/theirs", "env": {"AMUX_HUB": "/evil"}, "default_tools_approval_mode": "prompt"}
    evil = {"developer_instructions": "Of the project.", "mcp_servers": {"amux": server}}
    request = make(layers={"user": {"developer_instructions": "Of mine."}, "project": evil}, untrusted="project")
    settings = parted(request)[1]
    assert settings == {**parted(make())[1], "developer_instructions": f"Of mine.\n\n{TEXT}"}
    assert not CODEX.plan(request).notices


def test_layers_that_do_not_come_to_what_codex_reads_are_an_error(make: Make) -> None:
    """A later Codex might have other layers: then nobody knows what the user's own instructions are."""
    refused = refusal(make(layers={"user": {"developer_instructions": "Of mine."}}, untrusted="user", reason=None))
    assert (refused.code, "developer_instructions" in refused.message) == ("version_mismatch", True)


def test_without_a_home_of_codex_it_makes_its_own(make: Make, tmp_path: Path) -> None:
    """Codex refuses a CODEX_HOME that is not there, and makes the same place by itself without the variable."""
    request = make()
    os.rmdir(request.environment["CODEX_HOME"])
    assert CODEX.plan(request).remove == ["CODEX_HOME"]
    assert json.loads((tmp_path / "record").read_text())["home"] is None
    os.mkdir(request.environment["CODEX_HOME"])
    assert CODEX.plan(request).remove == []
    assert json.loads((tmp_path / "record").read_text())["home"] == request.environment["CODEX_HOME"]


def test_instructions_that_cannot_be_merged_are_an_error(make: Make) -> None:
    def own(text: str, kind: str = "user") -> dict[str, Any]:
        return {"layers": {"sessionFlags": {}, kind: {"developer_instructions": text}}}

    assert refusal(make(layers={"user": {"developer_instructions": "部" * 43000}})).code == "limit_exceeded"
    assert refusal(make(layers={"user": {"developer_instructions": protocol.BEGIN}})).code == "invalid_argument"
    refused = refusal(make(**own("By the administrator.", "legacyManagedConfigFile")))
    assert (refused.code, "legacyManagedConfigFile" in refused.message) == ("version_mismatch", True)


@pytest.mark.parametrize("key", codex_settings.MEMORY_OFF)
def test_a_codex_whose_memory_stays_on_is_not_started(make: Make, key: str) -> None:
    table, name = key.split(".")
    refused = refusal(make(layers={"sessionFlags": {}, "legacyManagedConfigMdm": {table: {name: True}}}))
    assert (refused.code, key in refused.message) == ("version_mismatch", True)


def test_another_server_in_its_place_is_refused(make: Make) -> None:
    managed = {"mcp_servers": {"amux": {"command": "/opt/other"}}}
    assert refusal(make(layers={"sessionFlags": {}, "legacyManagedConfigMdm": managed})).code == "version_mismatch"


def test_a_codex_that_cannot_be_asked_is_not_started(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = refusal(make(do="die"))
    assert refused.code == "invalid_argument"
    assert "url is not supported for stdio in `mcp_servers.amux`" in refused.message
    assert "something else" not in refused.message
    assert refusal(make(refuse={"config/read": "unknown method"})).code == "version_mismatch"
    assert refusal(replace(make(), program="/nonexistent/codex")).code == "not_found"
    monkeypatch.setattr(codex_server, "REPLY_BYTES", 200_000)
    assert "bytes" in refusal(make(do="flood")).message
    monkeypatch.setattr(codex_server, "SECONDS", 0.5)
    assert "did not answer" in refusal(make(do="hang")).message


OWN = {"command": "amux", "args": ["mcp"], "env_vars": ["XDG_RUNTIME_DIR"], "required": True}
"""What docs/how-to/codex.md has people write."""


def test_the_users_own_server_gives_way_and_is_told_of(make: Make) -> None:
    def own(table: dict[str, Any]) -> Request:
        return make(layers={"user": {"mcp_servers": {"amux": table}}})

    assert not CODEX.plan(own(OWN)).notices
    assert "/opt/theirs" in " ".join(CODEX.plan(own({"command": "/opt/theirs"})).notices)
    assert "enabled_tools" in " ".join(CODEX.plan(own({**OWN, "enabled_tools": ["amux.memory_get"]})).notices)
    environment = {"AMUX_HUB": "/theirs", "AMUX_HOME": "/theirs", "KEPT": "a"}
    settings = parted(own({**OWN, "env": environment}))[1]
    assert settings["mcp_servers"]["amux"]["env"] == {"AMUX_HUB": "/run/hub.sock", "AMUX_HOME": ""}


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        ((), {"approval_policy": {"granular": {"mcp_elicitations": True}}}),
        ((), {"mcp_servers": {"amux": {**OWN, "default_tools_approval_mode": "prompt"}}}),
        ((), {"mcp_servers": {"amux": {**OWN, "tools": {"amux.memory_upsert": {"approval_mode": "prompt"}}}}}),
        (("-c", 'mcp_servers.amux.default_tools_approval_mode="prompt"'), {}),
    ],
)
def test_who_wants_to_be_asked_is_asked(make: Make, arguments: tuple[str, ...], settings: dict[str, Any]) -> None:
    request = make(*arguments, layers={"user": settings})
    assert 'mcp_servers.amux.default_tools_approval_mode="approve"' not in CODEX.plan(request).argv


def test_a_hub_over_ssh_needs_the_users_agent(make: Make) -> None:
    request = make()
    there = {**request.environment, "AMUX_HUB": "ssh://host"}
    assert "SSH_AUTH_SOCK" in parted(replace(request, environment=there))[1]["mcp_servers"]["amux"]["env_vars"]


@pytest.mark.parametrize(
    ("arguments", "against"),
    [
        (("resume",), "resume"),
        (("-m", "x", "fork", "--last"), "fork"),
        (("exec", "--json", "resume", "--last"), "exec resume"),
        (("e", "review"), "e review"),
        (("login",), "login"),
        (("mcp", "list"), "mcp"),
        (("--remote", "ws://host:1"), "--remote"),
        (("exec", "--last"), "--last"),
    ],
)
def test_other_conversations_and_commands_are_named(arguments: tuple[str, ...], against: str) -> None:
    assert CODEX.conflict(arguments) == against


@pytest.mark.parametrize(
    "arguments",
    [(), ("resume it please",), ("--", "resume"), ("exec", "go on", "resume"), ("-m", "resume"), ("exec", "--", "fork"),
     ("explain", "resume"), ("-c", "--last=1")],
)  # fmt: skip
def test_a_new_conversation_may_say_what_it_wants(arguments: tuple[str, ...]) -> None:
    assert CODEX.conflict(arguments) is None


WORDS = ["--model", "-s", "-i", "--image", "--json", "-x", "exec", "resume", "-", "x", "a=b", ""]


@given(st.lists(st.sampled_from(WORDS)), st.lists(st.sampled_from([*WORDS, "--", "-c"])))
def test_no_word_is_lost(arguments: list[str], words: list[str]) -> None:
    line = codex_words.parse([*arguments, "--json", "--", *words])
    kept = [*line.before, *line.options, *line.words, *([line.command] if line.command else [])]
    assert sorted(kept) == sorted([*arguments, "--json", *words])


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_quoted(text: str) -> None:
    assert tomllib.loads(f"x={codex.quoted(text)}") == {"x": text}
    assert "\n" not in codex.quoted(text)


def test_no_text_is_refused() -> None:
    with pytest.raises(AmuxError):
        codex.quoted("\udcff")


class Records:
    """Codex's records below a home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.now = time.time()

    def write(self, ago: float = -1, cwd: str = "/srv/shop", source: Any = "exec", text: str = protocol.BEGIN) -> Path:
        """One, begun some seconds ago (in a second, by default); its path."""
        moment = self.now - ago
        digits = f"{int(moment * 1000):012x}"
        native = (
            f"{digits[:8]}-{digits[8:]}-7{os.urandom(2).hex()[:3]}-a{os.urandom(2).hex()[:3]}-{os.urandom(6).hex()}"
        )
        directory = self.home / "sessions" / time.strftime("%Y/%m/%d", time.localtime(moment))
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S')}-{native}.jsonl"
        meta = {"type": "session_meta", "payload": {"id": native, "cwd": cwd, "source": source}}
        path.write_text(json.dumps(meta) + "\n" + json.dumps({"text": text}) + "\n")
        return path

    def begun(self, directory: str | None = "/srv/shop") -> str | None:
        return codex_rollouts.begun(str(self.home), directory, protocol.BEGIN, self.now)


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path)


def test_the_conversation_that_began_is_seen(records: Records) -> None:
    assert records.begun() is None
    records.write(ago=5)
    records.write(cwd="/srv/other")
    records.write(source={"subagent": {"thread_spawn": {}}})
    records.write(text="A bare Codex, at the same time.")
    records.write().write_text("{")
    assert records.begun() is None
    path = records.write()
    native = records.begun()
    assert native is not None
    assert CODEX.native.fullmatch(native)
    assert path.name.endswith(f"-{native}.jsonl")


def test_of_two_it_is_the_one_that_a_program_of_ours_holds_open(records: Records) -> None:
    paths = [records.write(), records.write()]
    assert records.begun() is None
    with paths[1].open():
        assert str(records.begun()) in paths[1].name
        with paths[0].open():
            assert records.begun() is None
