"""One user against another's memory: whatever is claimed, the answer is that for something absent (C24, S2, D7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.booted.system import BASE, HOME, QUICK, Held, Maker, Reply, System, digest

pytestmark = pytest.mark.parametrize("_installed", ["bookworm"], indirect=True)
"""Nothing here depends on the suite's libraries; the other files run on both."""

SECRET = "the launch code is 7351\n"
PATH = "plans/launch.md"
ABSENT = "plans/absent.md"


@pytest.fixture
def hers(system: System, person: Maker) -> str:
    """alice's document; its revision. bob has a memory too, without it."""
    person("alice")
    person("bob")
    system.write("bob", "MEMORY.md", "bob's\n")
    return system.write("alice", PATH, SECRET)


def _alike(system: System, ask: Callable[[str], dict[str, Any]]) -> Reply:
    """What bob is told of alice's path, having compared it with what he is told of one that nobody has."""
    told, absent = (json.dumps(ask(path), sort_keys=True) for path in (PATH, ABSENT))
    assert told.replace(PATH, ABSENT) == absent
    assert "7351" not in told
    answer: Reply = json.loads(told)
    return answer


def test_c24_a_path_an_offset_and_a_revision_of_another_are_those_of_nothing(system: System, hers: str) -> None:
    asks: list[Callable[[str], dict[str, Any]]] = [
        lambda path: system.ask("bob", "Get", path=path),
        lambda path: system.ask("bob", "Get", path=path, offset=4),
        lambda path: system.ask("bob", "Get", path=path, start_line=1, end_line=1),
        lambda path: system.ask("bob", "List", path_prefix=path),
        lambda path: system.ask("bob", "List", after=path),
        lambda path: system.ask("bob", "Search", query="7351 launch"),
        lambda path: system.ask("bob", "Search", query="7351", path_prefix=path),
        lambda path: system.ask("bob", "Upsert", path=path, content="x", expected_revision=hers),
        lambda path: system.ask("bob", "Forget", path=path, expected_revision=hers),
    ]
    answers = [_alike(system, ask) for ask in asks]
    assert answers[-1]["parameters"]["already_absent"] is True
    assert system.read("alice", PATH) == SECRET


def test_c24_paths_that_lead_to_anothers_directory_are_refused(system: System, hers: str) -> None:
    for path in (
        f"../{digest('alice')}/{PATH}",
        f"{HOME}/memory/users/{digest('alice')}/{PATH}",
        f"..%2f{digest('alice')}/{PATH}",
        f"~alice/{PATH}",
    ):
        assert system.refusal("bob", "Get", path=path).code == "InvalidPath"
    for path in (f"{digest('alice')}/{PATH}", f"users/{digest('alice')}/{PATH}", f"principal:alice/{PATH}"):
        assert system.read("bob", path) is None


@pytest.mark.parametrize("field", ["scope", "principal", "uid", "account", "administrator", "user"])
def test_s2_no_field_of_a_request_names_the_caller(system: System, hers: str, field: str) -> None:
    for value in ("alice", "principal:alice", 0):
        told = system.refusal("bob", "Get", path=PATH, **{field: value})
        assert told.code == "InvalidArgument"
        assert f"'{field}' is no argument" in told.parameters["message"]
    assert system.call("bob", "io.amux.Hub.WhoAmI")["principal"] == "bob"


def test_s2_a_forged_binding_is_refused_like_that_of_nobody(system: System, hers: str) -> None:
    def told(binding: str) -> str:
        return str(system.refusal("bob", "Get", path=PATH, binding=binding, session="s1")).replace(binding, "…")

    assert "BindingMismatch" in told("principal:alice")
    assert told("principal:alice") == told("principal:nobody-at-all") == told("global")
    assert system.audited("get", outcome="binding_mismatch")["AMUX_PRINCIPAL"] == "bob"


def test_s2_over_mcp_a_forged_preamble_opens_nothing(system: System, hers: str) -> None:
    def told(**preamble: str) -> str:
        with Held(system.machine, "bob", "mcp") as agent:
            answer = json.dumps(agent.mcp(**preamble))
            return answer.replace("principal:alice", "…").replace("principal:nobody", "…")

    assert told(session="s1", binding="principal:alice") == told(session="s1", binding="principal:nobody")
    assert "binding_mismatch" in told(session="s1", binding="principal:alice")
    assert "invalid_argument" in told(principal="alice")
    with Held(system.machine, "bob", "mcp") as agent:
        agent.mcp()
        agent.initialize()
        assert agent.tool("memory_get", path=PATH)["exists"] is False
        assert agent.tool("memory_get", path=PATH, principal="alice")["error"]["code"] == "invalid_argument"


def test_c24_a_page_of_another_users_answer_cannot_be_had(system: System, hers: str) -> None:
    system.write("alice", "long.md", "7351 " * 4000)
    with Held(system.machine, "alice", "mcp") as one, Held(system.machine, "bob", "mcp") as other:
        for agent in (one, other):
            agent.mcp()
            agent.initialize()
        page = one.tool("memory_get", path="long.md")
        assert page["pages"] > 1
        told = other.tool("result_continue", continuation=page["continuation"])
        assert told["error"]["code"] == "continuation_expired"
        assert one.tool("result_continue", continuation=page["continuation"])["page"] == 2


def test_c24_no_directory_of_the_memory_opens_for_a_user(system: System, hers: str) -> None:
    for path in (HOME, f"{HOME}/memory", f"{HOME}/memory/users/{digest('alice')}/{PATH}", f"{HOME}/registry"):
        for reads in (("ls", path), ("cat", path)):
            done = system.machine.run(*reads, user="bob", check=False)
            assert "Permission denied" in done.stderr
            assert not done.stdout
    found = system.machine.run("find", HOME, "-not", "-user", "amux", "-o", "-perm", "/077", "-not", "-type", "l")
    assert found.stdout == ""


def test_d7_a_record_copied_over_anothers_opens_nothing(system: System, hers: str) -> None:
    ours, theirs = (f"{HOME}/registry/{digest(name)}.json" for name in ("alice", "bob"))
    before = system.machine.get(theirs)
    system.machine.run("cp", "-p", ours, theirs)
    system.reload()
    told = system.refusal("bob", "Get", path=PATH)
    assert told.code == "IdentityUnavailable"
    assert system.refusal("bob").code == "IdentityUnavailable"
    assert system.read("alice", PATH) == SECRET
    system.restart()
    assert system.refusal("bob").code == "IdentityUnavailable", "a Hub that starts with it knows no better"
    system.machine.put(before, theirs, 0o600, "amux:amux")
    system.restart()
    assert system.read("bob", "MEMORY.md") == "bob's\n"


def test_c24_with_isolation_off_the_private_memories_stay_shut(system: System, hers: str) -> None:
    system.configure(BASE.replace("isolation: true", "isolation: false") + QUICK)
    for name in ("alice", "bob"):
        assert system.read(name, PATH) is None
        assert system.refusal(name, "Get", path=PATH, binding="principal:alice").code == "BindingMismatch"
