"""Many at once: a flood of one user costs only that user, descriptors that run out, restarts in the midst of work."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.booted.system import HOME, Held, Maker, System

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

WORK = """
import json, os, socket, sys, threading
user, count = sys.argv[1], int(sys.argv[2])
lock, told, kept, writes = threading.Lock(), {}, {}, 0
def call(hub, name, **parameters):
    hub.sendall(json.dumps({"method": "io.amux.Memory." + name, "parameters": parameters}).encode() + b"\\0")
    answer = b""
    while not answer.endswith(b"\\0"):
        if not (more := hub.recv(65536)):
            raise ConnectionResetError
        answer += more
    return json.loads(answer[:-1])
def connect():
    hub = socket.socket(socket.AF_UNIX)
    hub.settimeout(60)
    hub.connect("/run/amux/hub.sock")
    return hub
def work(number):
    global writes
    hub, step, revisions, given_up = None, 0, {}, 0
    while not os.path.exists("/tmp/enough"):
        path = f"{number}/{given_up}-{step % 20}.md"
        content = f"{user} {path} {step}"
        outcome = ""
        try:
            hub = hub or connect()
        except OSError as error:
            outcome = f"connect: {error}"
        if not outcome:
            revision = revisions.get(path, "absent")
            try:
                reply = call(hub, "Upsert", path=path, content=content, expected_revision=revision)
                outcome = reply.get("error", "written").rpartition(".")[2]
            except OSError:
                outcome = "hung up"
        with lock:
            told[outcome] = told.get(outcome, 0) + 1
            if outcome == "written":
                revisions[path], kept[path] = reply["parameters"]["revision"], content
                writes += 1
                if writes == 20:
                    print("works", flush=True)
            elif outcome == "hung up":
                kept.pop(path, None)
                given_up += 1
                revisions = {}
        step += outcome == "written"
        if outcome != "written" or step % 7 == 0:
            hub = hub and hub.close()
threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
for one in threads: one.start()
for one in threads: one.join()
hub = connect()
lost = [path for path, content in kept.items() if call(hub, "Get", path=path)["parameters"]["content"] != content]
print(json.dumps({"told": told, "lost": lost, "writes": writes}), flush=True)
"""
"""Clients that write and rewrite, connecting anew now and then; then what was acknowledged last is read back."""

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


def test_restart_stop_and_upgrade_under_load_refuse_no_connection_and_lose_no_acknowledged_write(
    system: System, person: Maker, package: Callable[[str], Path]
) -> None:
    users = [person(f"user{number}") for number in range(10)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE}
    workers = [system.machine.start("python3", "-IS", "-c", WORK, user, "5", user=user, **pipes) for user in users]
    try:
        for worker in workers:
            assert worker.stdout is not None and worker.stdout.readline() == "works\n"
        pids = [system.pid()]
        system.restart()
        pids.append(system.pid())
        system.machine.install(package(system.machine.suite))
        pids.append(system.pid())
        system.machine.run("systemctl", "stop", "amux-hub.service")
        system.machine.wait("a connection to start it", lambda: system.pid() not in (0, *pids))
        assert len(set(pids)) == 3
    finally:
        system.machine.run("touch", "/tmp/enough")
        said = [json.loads(worker.communicate(timeout=120)[0]) for worker in workers]
        system.machine.run("rm", "/tmp/enough")
    outcomes = {word for one in said for word in one["told"]}
    assert outcomes <= {"written", "ShuttingDown", "hung up"}, outcomes
    assert [one["lost"] for one in said] == [[]] * 10
    assert min(one["writes"] for one in said) >= 20
    stray = system.machine.run("find", f"{HOME}/memory", "-name", ".*", "-type", "f").stdout.split()
    assert stray == [f"{HOME}/memory/.amux-lock"]
