"""The Hub restarted, upgraded, stopped and downgraded in the midst of work, with clients of three versions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.booted.lab.machine import Machine
from tests.booted.packages import HIGHER
from tests.booted.system import HOME, Maker, System
from tests.previous import FROZEN

pytestmark = pytest.mark.parametrize("_installed", ["trixie"], indirect=True)
"""Nothing here depends on the suite's libraries; the other files run on both."""

WORK = """
import json, os, socket, sys, threading, time
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
        time.sleep(0.1)  # else they would leave the upgrade itself no processor
threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
for one in threads: one.start()
for one in threads: one.join()
hub = connect()
lost = [path for path, content in kept.items() if call(hub, "Get", path=path)["parameters"]["content"] != content]
print(json.dumps({"told": told, "lost": lost, "writes": writes}), flush=True)
"""
"""Clients that write and rewrite, connecting anew now and then; then what was acknowledged last is read back."""

TOOL = """
import json, os, subprocess, sys, time
told, kept, step, given_up = {}, {}, 0, 0
def amux(*words, text=""):
    command = [sys.executable, "-IS", sys.argv[1], "memory", *words, "--json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    return json.loads(done.stdout or done.stderr)
while not os.path.exists("/tmp/enough"):
    path, content = f"tool/{given_up}-{step % 20}.md", f"{sys.argv[1]} {step}"
    revision = kept[path][0] if path in kept else "absent"
    answer = amux("upsert", path, "--expected-revision", revision, text=content)
    outcome = answer["error"]["code"] if "error" in answer else "written"
    told[outcome] = told.get(outcome, 0) + 1
    if step == 0:
        print("works" if outcome == "written" else outcome, flush=True)
    if outcome == "written":
        kept[path] = answer["revision"], content
    elif outcome == "outcome_uncertain":
        kept.pop(path, None)
        given_up += 1
    step += 1
    time.sleep(0.2)
shown = {path: amux("show", path) for path in kept}
lost = [path for path, (_, content) in kept.items() if shown[path].get("content") != content]
print(json.dumps({"told": told, "lost": lost}), flush=True)
"""
"""Commands of one person, one after another, from the amux.pyz that is named; what was acknowledged is read back."""


class Conversation:
    """An agent's `amux mcp` of a user, run from an amux.pyz, open from the first call to the last."""

    def __init__(self, machine: Machine, user: str, pyz: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._process = machine.start("python3", "-IS", pyz, "mcp", user=user, **pipes)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self._ask("initialize", hello)
        self._say({"method": "notifications/initialized"})

    def upsert(self, path: str, content: str) -> None:
        """Create a document."""
        assert "revision" in self._tool("memory_upsert", path=path, content=content, expected_revision="absent")

    def get(self, path: str) -> str:
        return str(self._tool("memory_get", path=path)["content"])

    def _tool(self, name: str, **arguments: str) -> dict[str, Any]:
        result = self._ask("tools/call", {"name": f"amux.{name}", "arguments": arguments})
        told: dict[str, Any] = json.loads(result["content"][0]["text"])
        return told

    def _ask(self, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        self._say({"id": 1, "method": method, "params": parameters})
        assert self._process.stdout is not None
        result: dict[str, Any] = json.loads(self._process.stdout.readline())["result"]
        return result

    def _say(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> Conversation:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=120)


def test_restart_stop_upgrade_and_downgrade_under_load_refuse_no_connection_and_lose_no_acknowledged_write(
    system: System, person: Maker, package: Callable[[str], Path], higher: Callable[[str], Path]
) -> None:
    """50 clients of 10 users, and clients of each version that a user may still have."""
    machine = system.machine
    users = [person(f"user{number}") for number in range(10)]
    own, new = (json.loads(machine.run("amux", "status", "--json").stdout)["version"], HIGHER)
    machine.run("cp", "/usr/lib/amux/amux.pyz", "/tmp/own.pyz")
    machine.put(FROZEN, "/tmp/previous.pyz")
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE}
    workers = [machine.start("python3", "-IS", "-c", WORK, user, "5", user=user, **pipes) for user in users]
    tools = [
        machine.start("python3", "-IS", "-c", TOOL, f"/tmp/{which}.pyz", user=user, **pipes)
        for which, user in (("own", users[0]), ("own", users[1]), ("previous", users[2]))
    ]
    try:
        for worker in (*workers, *tools):
            assert worker.stdout is not None and worker.stdout.readline() == "works\n"
        pids = [system.pid()]

        def another_runs(version: str) -> None:
            machine.wait("a connection to start it", lambda: system.pid() not in (0, *pids))
            pids.append(system.pid())
            status = json.loads(machine.run("amux", "status", "--json").stdout)
            assert (status["version"], status["client_version"]) == (version, version)

        with Conversation(machine, users[3], "/tmp/own.pyz") as agent:
            agent.upsert("a.md", "before\n")
            system.restart()
            another_runs(own)
            machine.install(higher(machine.suite))
            another_runs(new)
            assert agent.get("a.md") == "before\n"
            agent.upsert("b.md", "after\n")
            told = machine.run(
                "python3", "-IS", "/tmp/previous.pyz", "memory", "show", "a.md", user=users[3], check=False
            )
            assert told.returncode == 8
            error = json.loads(told.stderr)["error"]
            assert error["code"] == "version_mismatch" and "the same version" in error["message"]
            machine.run("systemctl", "stop", "amux-hub.service")
            another_runs(new)
            machine.install(package(machine.suite))
            another_runs(own)
            assert agent.get("b.md") == "after\n"
    finally:
        machine.run("touch", "/tmp/enough")
        said, old = ([json.loads(worker.communicate(timeout=120)[0]) for worker in some] for some in (workers, tools))
        machine.run("rm", "/tmp/enough", "/tmp/own.pyz", "/tmp/previous.pyz")
    outcomes = {word for one in said for word in one["told"]}
    assert outcomes <= {"written", "ShuttingDown", "hung up"}, outcomes
    assert [one["lost"] for one in said] == [[]] * 10
    assert min(one["writes"] for one in said) >= 20
    assert [set(one["told"]) - {"written", "outcome_uncertain"} for one in old] == [set(), set(), {"version_mismatch"}]
    assert [one["lost"] for one in old] == [[]] * 3
    hidden = machine.run("find", f"{HOME}/memory", "-name", ".*", "-type", "f", "-printf", "%f\\n").stdout.split()
    assert set(hidden) == {".amux-lock", ".amux-owner"}, "no temporary file is left"
