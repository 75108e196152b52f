"""Many at once: a flood of one user costs only that user, descriptors that run out."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.booted.system import Held, Maker, System

pytestmark = pytest.mark.parametrize("_installed", ["trixie"], indirect=True)
"""Nothing here depends on the suite's libraries; the other files run on both."""

FLOOD = """
import json, socket, sys
count = int(sys.argv[1])
held, told = [], {}
for _ in range(count):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(float(sys.argv[2]))
    one.connect("/run/amux/hub.sock")
    try:
        try:
            one.sendall(b'{"method":"io.amux.Hub.WhoAmI"}\\0')
        except ConnectionError:
            pass  # it hung up already, but not without a word
        answer = one.recv(65536)
    except TimeoutError:
        answer = b'{"error":"silence"}\\0'
    except ConnectionError:
        answer = b'{"error":"closed"}\\0'
    said = json.loads(answer[:-1] or b'{"error":"closed"}').get("error", "served").rpartition(".")[2]
    told[said] = told.get(said, 0) + 1
    held.append(one)
print(json.dumps(told), flush=True)
sys.stdin.read()
"""
"""So many connections, each with a call, all kept open until standard input ends."""

DROP_IN = "/etc/systemd/system/amux-hub.service.d/test.conf"


@pytest.fixture
def few_descriptors(system: System) -> Iterator[None]:
    system.machine.run("mkdir", "-p", "/etc/systemd/system/amux-hub.service.d")
    system.machine.put(b"[Service]\nLimitNOFILE=64\n", DROP_IN)
    system.machine.run("systemctl", "daemon-reload")
    system.restart()
    yield
    system.machine.run("rm", DROP_IN)
    system.machine.run("systemctl", "daemon-reload")
    system.restart()


def _flood(system: System, user: str, count: int, seconds: float = 60) -> tuple[subprocess.Popen[str], dict[str, int]]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = system.machine.start("python3", "-IS", "-c", FLOOD, str(count), str(seconds), user=user, **pipes)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def test_c44_500_connections_of_one_user_cost_another_nothing(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    with Held(system.machine, bob) as his:
        his.call("Upsert", path="a.md", content="his\n", expected_revision="absent")
        flood, told = _flood(system, alice, 500)
        assert told == {"served": 128, "LimitExceeded": 372}
        assert his.call("Get", path="a.md")["parameters"]["content"] == "his\n"
        assert system.read(bob, "a.md") == "his\n", "a new connection too"
        with Held(system.machine, bob, "mcp") as agent:
            assert "error" not in agent.mcp()
        assert system.refusal(alice).code == "LimitExceeded"
        flood.communicate()
    system.machine.wait("alice to be served", lambda: "error" not in system.ask(alice, "List"))


@pytest.mark.usefixtures("few_descriptors")
def test_c45_without_descriptors_it_pauses_and_recovers(system: System, person: Maker) -> None:
    alice, bob = person("alice"), person("bob")
    system.write(bob, "a.md", "his\n")
    pid = system.pid()
    flood, told = _flood(system, alice, 100, 0.05)
    assert told["served"] > 5 and told["silence"] > 5, told
    system.machine.wait(
        "the pause in the journal",
        lambda: [one for one in system.machine.journal("-u", "amux-hub") if "accepting pauses" in str(one["MESSAGE"])],
    )
    flood.communicate()
    assert system.read(bob, "a.md") == "his\n"
    assert (system.pid(), system.show("amux-hub", "NRestarts")) == (pid, "0")
