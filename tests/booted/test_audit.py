"""What an administrator can read afterwards: a record of every decision in the journal, and metrics; never content."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.booted.system import BASE, QUICK, TALK, Held, Maker, System

pytestmark = pytest.mark.parametrize("_installed", ["trixie"], indirect=True)
"""Nothing here depends on the suite's libraries; the other files run on both."""

SECRET = "quokka-7351"


def _uid(system: System, name: str) -> str:
    return system.machine.run("id", "-u", name).stdout.strip()


def _samples(system: System) -> dict[str, float]:
    text = system.machine.run("amux", "status", "--metrics").stdout
    lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


def test_each_write_has_a_record_with_who_what_and_which_revisions(system: System, person: Maker) -> None:
    alice = person("alice")
    first = system.write(alice, "plans/a.md", SECRET)
    second = system.call(alice, "Upsert", path="plans/a.md", content=SECRET * 2, expected_revision=first)["revision"]
    assert system.refusal(alice, "Upsert", path="plans/a.md", content="x", expected_revision=first).code == "Conflict"
    system.call(alice, "Forget", path="plans/a.md", expected_revision=second)
    common = {
        "AMUX_UID": _uid(system, alice),
        "AMUX_ACCOUNT": alice,
        "AMUX_PRINCIPAL": alice,
        "AMUX_SCOPE": f"principal:{alice}",
        "AMUX_PATH": "plans/a.md",
        "AMUX_OUTCOME": "ok",
    }
    system.audited("forget", principal=alice)
    found = [*system.audit("upsert", outcome="ok"), *system.audit("forget", outcome="ok")]
    assert [{name: one[name] for name in common} for one in found] == [common] * 3
    revisions = [(one["AMUX_BEFORE"], one["AMUX_REVISION"]) for one in found]
    assert revisions == [("absent", first), (first, second), (second, "absent")]
    conflict = system.audited("upsert", outcome="conflict", principal=alice)
    assert (conflict["AMUX_PATH"], conflict["AMUX_COUNT"]) == ("plans/a.md", "1")
    assert system.audit("enrol", principal=alice)[0]["AMUX_UID"] == common["AMUX_UID"]


def test_refusals_are_counted_a_record_for_each_uid_reason_and_second(system: System, person: Maker) -> None:
    alice = person("alice")
    uid = _uid(system, alice)
    first = system.write(alice, "a.md", "x")
    call = {"method": "io.amux.Memory.Upsert"}
    call["parameters"] = {"path": "a.md", "content": "y", "expected_revision": "absent"}  # type: ignore[assignment]
    lines = (json.dumps(call) + "\n") * 300
    command = ("python3", "-IS", "-c", TALK, "/run/amux/hub.sock")
    told = system.machine.run(*command, user=alice, stdin=lines).stdout.splitlines()
    assert len([line for line in told if first in line]) == 300

    def counted() -> list[int]:
        return [int(one["AMUX_COUNT"]) for one in system.audit("upsert", outcome="conflict", uid=uid)]

    system.machine.wait("all 300 in the audit", lambda: sum(counted()) == 300)
    seconds = {one["__REALTIME_TIMESTAMP"][:-6] for one in system.audit("upsert", outcome="conflict", uid=uid)}
    assert len(counted()) <= len(seconds) * 2, "in a second one record, or two where its end fell between them"


def test_no_record_holds_content_whatever_the_log_level(system: System, person: Maker) -> None:
    alice = person("alice")
    system.configure(BASE + QUICK + "log:\n  level: debug\n")
    revision = system.write(alice, "a.md", f"{SECRET}\n")
    system.call(alice, "Get", path="a.md")
    system.call(alice, "Search", query=SECRET)
    system.ask(alice, "Upsert", path="a.md", content=f"{SECRET} again", expected_revision="absent")
    system.ask(alice, "Upsert", path="MEMORY.md", content=f"{SECRET}\n" * 1000, expected_revision="absent")
    with Held(system.machine, alice, "mcp") as agent:
        agent.mcp()
        agent.initialize()
        assert SECRET in agent.tool("memory_get", path="a.md")["content"]
    system.call(alice, "Forget", path="a.md", expected_revision=revision)
    system.audited("forget", principal=alice)
    assert SECRET not in json.dumps(system.machine.journal("-u", "amux-hub", "-u", "amux-pam"))


def test_a_quiet_log_level_silences_no_record(system: System, person: Maker) -> None:
    alice = person("alice")
    system.configure(BASE + QUICK + "log:\n  level: error\n")
    system.write(alice, "a.md", "x")
    assert system.audited("upsert", principal=alice)["AMUX_OUTCOME"] == "ok"


def test_a_name_and_a_path_make_no_line_of_their_own(system: System, person: Maker) -> None:
    alice = person("alice")
    path = "a\u202eb\u2028AMUX_UID=0.md"
    assert system.refusal(alice, "Upsert", path=path, content="x", expected_revision="absent").code == "InvalidPath"
    forged = "x\nAMUX_AUDIT=upsert\nAMUX_UID=0"
    told = system.refusal(alice, "Get", path="a.md", session="s1", binding=f"principal:{forged}")
    assert told.code in ("InvalidArgument", "BindingMismatch")
    system.write(alice, "AMUX_UID=0.md", "x")
    assert system.audited("upsert", path="AMUX_UID=0.md")["AMUX_UID"] == _uid(system, alice)
    assert system.audit("upsert", uid="0") == []


def test_the_helper_is_a_second_witness(system: System, person: Maker) -> None:
    alice = person("alice")
    system.who(alice)
    found: list[dict[str, Any]] = system.machine.journal("-u", "amux-pam", "AMUX_AUDIT=verdict")
    own = [one for one in found if one["AMUX_UID"] == _uid(system, alice)]
    assert {(one["AMUX_NAME"], one["AMUX_CLASS"], one["_UID"]) for one in own} == {(alice, "allow", "0")}


def test_metrics_count_refusals_and_are_for_administrators(system: System, person: Maker) -> None:
    alice = person("alice")
    system.restart()
    before = _samples(system)
    for _ in range(3):
        system.refusal(4_100_000_000)
    system.write(alice, "a.md", "x")
    after = _samples(system)
    reason = 'amux_refusals_total{reason="identity_refused"}'
    assert after[reason] - before.get(reason, 0) == 3
    assert after["amux_requests_total"] > before["amux_requests_total"]
    assert after["amux_isolation"] == after["amux_memory_enabled"] == 1
    assert after["process_open_fds"] > 5 and after["process_resident_memory_bytes"] > 1e6
    assert alice not in system.machine.run("amux", "status", "--metrics").stdout
    assert system.refusal(alice, "io.amux.Hub.GetMetrics").code == "Forbidden"


@pytest.mark.parametrize("user", ["alice", None])
def test_a_user_cannot_read_the_audit_of_others(system: System, person: Maker, user: str | None) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(bob, "his.md", "x")
    system.audited("upsert", principal=bob)
    done = system.machine.run("journalctl", "-u", "amux-hub", "-o", "json", user=user and alice, check=False)
    assert ("his.md" in done.stdout) == (user is None)
