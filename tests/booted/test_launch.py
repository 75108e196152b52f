"""Launches on an installed host: each person apart; whatever is killed, nothing is left of it and others live on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.booted import launching
from tests.booted.launching import PLACE, UNIT, Launched, runs, status, waiters
from tests.booted.system import Maker, System

THREE = (1 << 0) | (1 << 6) | (1 << 7)
"""CAP_CHOWN, CAP_SETGID, CAP_SETUID of capabilities(7)."""

HERS, HIS = "the word of alice is quartz", "the word of bob is basalt"

PRY = """
import json, os, sys
run, *processes = sys.argv[1:]
got = []
def attempt(what, do):
    try:
        do()
        got.append(what)
    except OSError:
        pass
attempt("all launches", lambda: os.listdir("/run/amux-launches"))
for name in ("", "/agent-config", "/agent-config/memory"):
    attempt("list " + name, lambda: os.listdir(run + name))
for name in ("/lock", "/agent-config/memory/amux.pyz", "/agent-config/memory/connection.json"):
    attempt("read " + name, lambda: open(run + name, "rb").close())
attempt("write", lambda: open(run + "/mine", "w").close())
for who, pid in zip(("agent", "launch", "waiter"), processes):
    for name in ("environ", "maps", "auxv"):
        attempt(who + " " + name, lambda: open(f"/proc/{pid}/{name}", "rb").read(1))
    attempt(who + " fd", lambda: os.listdir(f"/proc/{pid}/fd"))
    attempt(who + " cwd", lambda: os.readlink(f"/proc/{pid}/cwd"))
    attempt(who + " signal", lambda: os.kill(int(pid), 0))
print(json.dumps(got))
for pid in filter(str.isdigit, os.listdir("/proc")):
    attempt("", lambda: print(open(f"/proc/{pid}/cmdline", "rb").read()))
"""
"""What one account sees of the launch of another, and every command line."""


@pytest.fixture
def launch(system: System) -> Iterator[Callable[..., Launched]]:
    """`launch(user, *what_the_agent_does)`: going on, and ended after the test."""
    begun: list[Launched] = []

    def begin(user: str, *do: str, terminal: bool = False) -> Launched:
        begun.append(Launched(system, user, *do, terminal=terminal))
        return begun[-1]

    yield begin
    for one in begun:
        if one.started:
            one.end()
        else:
            one.process.kill()
            one.process.communicate()


Launch = Callable[..., Launched]


def test_m3_m5_c36_c41_two_people_launch_at_once_and_each_has_what_is_theirs_alone(
    system: System, person: Maker, launch: Launch
) -> None:
    alice, bob = person("alice"), person("bob")
    for user, text in ((alice, HERS), (bob, HIS)):
        system.write(user, "a.md", text + "\n")
    ask = "run=amux memory show a.md; amux whoami; which amux; chmod u+x $AMUX_RUN/agent-config/memory/amux.pyz; "
    ask += "$AMUX_RUN/agent-config/memory/amux.pyz --version; echo executed: $?"
    begun = [launch(alice, ask), launch(bob, ask)]
    first, second = (one.ready() for one in begun)
    assert first.run != second.run

    for one, own, others in ((first, HERS, HIS), (second, HIS, HERS)):
        said = one.said()["out"]
        assert own in said and others not in said
        assert f'"principal":"{one.user}"' in said
        assert launching.TOOL in said
        assert "executed: 126" in said, "the place is noexec, and the launch works"
        assert one.connection() == {
            "hub": "/run/amux/hub.sock",
            "session": system.call(one.user, "io.amux.Session.List")["sessions"][0]["session"],
            "binding": f"principal:{one.user}",
        }
        _is_the_caller_and_has_what_the_caller_has(system, one)
        _is_laid_out_as_promised(system, one)

    for one, other in ((first, second), (second, first)):
        (waiter,) = waiters(system, one.user)
        words = ("python3", "-IS", "-c", PRY, one.run, str(one.agent), str(one.launcher), str(waiter))
        mine, _, _ = system.machine.run(*words, user=one.user).stdout.partition("\n")
        assert {"read /lock", "agent environ", "launch fd", "list /agent-config/memory"} <= set(json.loads(mine))
        assert not {"waiter environ", "waiter fd", "waiter maps"} & set(json.loads(mine)), "not even their own account"
        theirs, _, lines = system.machine.run(*words, user=other.user).stdout.partition("\n")
        assert json.loads(theirs) == []
        shown = system.machine.run("systemctl", "show", "amux-*", user=other.user).stdout
        for told in (lines, shown):
            assert "quartz" not in told and "basalt" not in told and one.connection()["session"] not in told
        session = one.connection()["session"]
        assert system.refusal(other.user, "io.amux.Session.Show", session=session).code == "NotFound"
        named = {"path": "a.md", "session": session, "binding": f"principal:{one.user}"}
        assert system.refusal(other.user, "Get", **named).code == "BindingMismatch"

    for one in (first, second):
        uid = int(system.machine.run("id", "-u", one.user).stdout)
        one.end()
        assert [record["AMUX_RUN"] for record in launching.records(system, "launch", uid)] == [one.run]
        system.machine.wait("the record of its end", partial(launching.records, system, "end", uid))


def _is_the_caller_and_has_what_the_caller_has(system: System, one: Launched) -> None:
    """M5, M6: the agent against what the caller's own shell has."""
    own = system.machine.run("sh", "-c", "id -u; id -g; id -G; umask; ulimit -n; env", user=one.user)
    uid, gid, groups, umask, files, *env = own.stdout.splitlines()
    now = status(system, one.agent)
    assert (now["Uid"], now["Gid"]) == (" ".join([uid] * 4), " ".join([gid] * 4))
    assert set(now["Groups"].split()) == set(groups.split())
    assert {int(now[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert (one.started["umask"], one.started["limit"]) == (int(umask, 8), int(files))
    wanted = dict(line.partition("=")[::2] for line in env if not line.startswith(("_=", "PWD=", "OLDPWD=")))
    wanted["PATH"] = f"/usr/lib/amux/launch-bin:{wanted['PATH']}"
    home = wanted["HOME"]
    wanted |= {"AMUX_RUN": one.run, "CODEX_HOME": f"{home}/.codex", "PI_CODING_AGENT_DIR": f"{home}/.pi/agent"}
    found = {name: value for name, value in one.environment.items() if name not in ("_", "PWD", "OLDPWD")}
    assert found == wanted
    descriptors = one.started["descriptors"]
    assert {"0", "1", "2"} < set(descriptors)
    assert [path for fd, path in descriptors.items() if int(fd) > 2] == [f"{one.run}/lock"]


def _is_laid_out_as_promised(system: System, one: Launched) -> None:
    found = system.machine.run("find", one.run, "-printf", "%P %y %u %m\\n").stdout.splitlines()
    assert sorted(found) == sorted(
        [
            f" d {one.user} 700",
            f"lock f {one.user} 600",
            f"agent-config d {one.user} 700",
            f"agent-config/memory d {one.user} 700",
            f"agent-config/memory/amux.pyz f {one.user} 700",  # the agent made it so, in vain
            f"agent-config/memory/connection.json f {one.user} 600",
        ]
    )
    system.machine.run("cmp", f"{one.run}/agent-config/memory/amux.pyz", "/usr/lib/amux/amux.pyz")
    assert system.machine.run("stat", "-c", "%U %a", PLACE).stdout.split() == ["root", "711"]
    options = system.machine.run("findmnt", "-no", "FSTYPE,OPTIONS", PLACE).stdout.replace(" ", ",").split(",")
    assert {"tmpfs", "nosuid", "nodev", "noexec"} <= {word.strip() for word in options}


def test_m3_m4_m6_the_helpers_child_in_its_unit_against_golden_lists(
    system: System, person: Maker, launch: Launch
) -> None:
    alice = person("alice", "--groups=games")
    one = launch(alice).ready()
    (waiter,) = waiters(system, alice)
    now = status(system, waiter)
    uid, gid, groups = system.machine.run("sh", "-c", "id -u; id -g; id -G", user=alice).stdout.splitlines()
    assert (now["Uid"], now["Gid"]) == (" ".join([uid] * 4), " ".join([gid] * 4))
    assert set(now["Groups"].split()) == set(groups.split())
    assert len(groups.split()) == 2
    assert {int(now[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
    assert int(now["CapBnd"], 16) == THREE
    assert (now["NoNewPrivs"], now["Seccomp"], now["Umask"], int(now["SigBlk"], 16)) == ("1", "2", "0077", 0)
    listed = system.machine.run("find", f"/proc/{waiter}/fd", "-type", "l", "-printf", "%f %l\\n").stdout.splitlines()
    found = dict(line.split(" ", 1) for line in listed)
    assert [found.pop(fd) for fd in "012"] == ["/dev/null"] * 3
    assert sorted(found.values()) == [one.run, f"{one.run}/lock"]
    assert system.machine.get(f"/proc/{waiter}/environ").strip(b"\0") == b""
    assert system.machine.get(f"/proc/{waiter}/oom_score_adj") == b"0\n"
    parent = status(system, int(system.show(UNIT, "MainPID")))
    assert {kind: int(parent[kind], 16) for kind in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {
        **dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), THREE),
        "CapAmb": 0,
    }


def test_m10_c37_kills_and_restarts_of_hub_and_helper_end_no_launch(
    system: System, person: Maker, launch: Launch
) -> None:
    alice, bob = person("alice"), person("bob")
    begun = [launch(alice), launch(bob)]
    first, second = (one.ready() for one in begun)
    system.machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "amux-hub", UNIT)
    system.machine.wait("the helper again", lambda: waiters(system, alice) and waiters(system, bob))
    assert first.lives() and second.lives()
    system.machine.run("systemctl", "restart", "amux-hub", UNIT)
    assert first.lives() and second.lives()
    (waiter,) = waiters(system, alice)
    system.machine.run("kill", "-KILL", str(waiter), user=alice)
    system.machine.wait("a new waiter", lambda: waiters(system, alice) not in ([], [waiter]))
    assert (runs(system, alice), runs(system, bob)) == ([first.run], [second.run])

    system.machine.run("systemctl", "stop", UNIT)
    second.kill(second.agent)
    second.process.communicate(timeout=60)
    assert runs(system, bob) == [second.run], "nobody is there to remove it"
    third = launch(bob).ready()
    second.is_gone()
    assert first.lives() and third.lives()


@pytest.mark.parametrize("killed", ["agent", "launch", "terminal"])
def test_m10_whatever_of_a_launch_is_killed_nothing_is_left_of_it(
    system: System, person: Maker, launch: Launch, killed: str
) -> None:
    alice, bob = person("alice"), person("bob")
    begun = [launch(alice, terminal=killed == "terminal"), launch(bob)]
    first, second = (one.ready() for one in begun)
    first.kill({"agent": first.agent, "launch": first.launcher, "terminal": first.terminal}[killed])
    first.is_gone()
    system.machine.wait("all of it", lambda: system.machine.run("pgrep", "-u", alice, check=False).stdout == "")
    assert second.lives()


def test_m11_c40_the_helper_sees_no_home_and_needs_none(system: System, person: Maker, launch: Launch) -> None:
    alice = person("alice")
    one = launch(alice).ready()
    inside = ("nsenter", "--mount", "--target", system.show(UNIT, "MainPID"), "--")
    for path in (f"/home/{alice}", "/root/.", "/var/lib/amux/memory", "/run/amux/admin.sock"):
        assert system.machine.run("test", "-e", path, check=False).returncode == 0
        there = system.machine.run(*inside, "find", path, "-mindepth", "1", check=False)  # by root with every right
        assert there.stdout == "", path
    assert one.lives()


def test_whoever_fills_the_place_fills_nothing_else(system: System, person: Maker, launch: Launch) -> None:
    alice, bob = person("alice"), person("bob")
    one = launch(alice).ready()
    size = system.machine.run("findmnt", "-bno", "SIZE", PLACE).stdout.strip()
    system.machine.run("mount", "-o", "remount,size=8m", PLACE)
    try:
        done = system.machine.run("dd", "if=/dev/zero", f"of={one.run}/fill", "bs=64k", user=alice, check=False)
        assert "No space left" in done.stderr
        system.machine.run("dd", "if=/dev/zero", "of=/run/kept-free", "bs=64k", "count=32")
        system.machine.run("rm", "/run/kept-free")
        done = system.machine.run("amux", "launch", "pi", "--program", launching.AGENT, user=bob, check=False)
        assert done.returncode not in (0, 1), done
        assert "storage_full" in done.stderr or "No space left" in done.stderr
        doctor = json.loads(system.machine.run("amux", "doctor", "--json", check=False).stdout)
        (check,) = (check for check in doctor["checks"] if check["name"] == "launches")
        assert [finding["kind"] for finding in check["findings"]] == ["space"]
        one.end()
        launch(bob).ready()
        system.machine.wait("the refused one to be gone", lambda: len(runs(system, bob)) == 1)
    finally:
        system.machine.run("mount", "-o", f"remount,size={size}", PLACE)


def test_n4_the_tool_of_a_launch_runs_nothing_that_a_checkout_names(system: System, person: Maker) -> None:
    alice = person("alice")
    planted = f"/home/{alice}/{'0' * 32}/agent-config/memory"
    system.machine.run("mkdir", "-p", planted, user=alice)
    system.machine.put(b"print('planted')\n", f"{planted}/amux.pyz", 0o644)
    for run in (
        None,
        "",
        f"/home/{alice}/{'0' * 32}",
        f"{PLACE}/../../home/{alice}/{'0' * 32}",
        f"{PLACE}/{'0' * 31}",
        f"{PLACE}/{'0' * 33}",
        f"{PLACE}/{'G' * 32}",
        f"{PLACE}/{'0' * 32}/",
        "0" * 32,
        f"{PLACE}/{'0' * 32}",
    ):
        named = [] if run is None else [f"AMUX_RUN={run}"]
        command = ("env", "-C", f"/home/{alice}", *named, launching.TOOL, "whoami")
        done = system.machine.run(*command, user=alice, check=False)
        assert (done.returncode, done.stdout) == (3, ""), run
        assert done.stderr.startswith("amux: ") and done.stderr.count("\n") == 1
