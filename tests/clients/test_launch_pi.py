"""The real Pi, launched, with a scripted model and a real Hub: what its model is told, what it writes, what stays.

One conversation serves most tests. It is held in Pi's RPC mode, so that one start has several turns, a compaction and
a new conversation in it; nobody sees a screen.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from amux.launch import known, protocol
from tests.clients import npm
from tests.clients.launched import SECONDS, Person, changed, checksums, hear, tell
from tests.clients.model import Call, ModelServer, Request, Script
from tests.harness import Hub
from tests.launch.launching import alive

TEXT = protocol.of(known.find("pi"))
OWN = "Answer in one line, 部署 included.\n"
ENTRY = "# Me\n\n部署 on Tuesdays.\n"
ARGUMENTS = ("--provider", "local", "--model", "m", "--offline")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
"""Pi tells its model the date: tests run at midnight too."""


@pytest.fixture(scope="module")
def pi(cache_dir: Path) -> str:
    return npm.program(cache_dir, npm.PI, "pi")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), mcp=False) as running:
        yield running


@pytest.fixture(scope="module")
def person(pi: str, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Person:
    return somebody(pi, hub, tmp_path_factory.mktemp("person"))


def somebody(pi: str, hub: Hub, directory: Path) -> Person:
    """A person with instructions of their own, in a project with some of its own."""
    person = Person(pi, hub, directory, "pi")
    own = person.home / ".pi" / "agent"
    own.mkdir(parents=True)
    (own / "APPEND_SYSTEM.md").write_text(OWN, encoding="utf-8")
    # Whatever was said is old enough to be compacted.
    (own / "settings.json").write_text('{"compaction": {"keepRecentTokens": 1}}')
    (person.checkout / "AGENTS.md").write_text("This project is a web shop.\n")
    person.env["LOCAL_KEY"] = "none"
    return person


def use(person: Person, model: ModelServer) -> None:
    """Let the person's Pi know the scripted model."""
    provider = {
        "baseUrl": model.url,
        "api": "anthropic-messages",
        "apiKey": "LOCAL_KEY",
        "models": [{"id": "m", "name": "m", "contextWindow": 100000, "maxTokens": 1000}],
    }
    (person.home / ".pi/agent/models.json").write_text(json.dumps({"providers": {"local": provider}}))


def system(request: Request) -> str:
    """The instructions that a request carries, but for the date."""
    blocks = request.body["system"]
    return DATE.sub("DATE", blocks if isinstance(blocks, str) else "\n".join(block["text"] for block in blocks))


@dataclass
class Talk:
    """A launched conversation that is over."""

    requests: list[Request]
    session: str
    survivor: int
    """A program that Pi's shell started and that outlived Pi."""


@pytest.fixture(scope="module")
def talk(person: Person, hub: Hub) -> Iterator[Talk]:
    def shell(command: str) -> Call:
        return Call("bash", {"command": command})

    def script() -> Script:
        assert json.loads((yield shell("amux memory show MEMORY.md")))["revision"] == "absent"
        write = "amux memory upsert MEMORY.md --expected-revision absent"
        saved = json.loads((yield shell(f"printf '{ENTRY}' | {write}")))
        hub.restart()
        found = json.loads((yield shell("amux memory search 部署 tuesdays")))
        assert found["matches"][0]["revision"] == saved["revision"], found
        yield "It is remembered."
        yield "Hello again."
        started = yield shell("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!")
        yield f"It runs: {started}"
        return "A new one."

    with ModelServer(script) as model:
        use(person, model)
        with person.popen(person.launch_words("--mode", "rpc", *ARGUMENTS)) as process:

            def turn(words: str) -> list[dict[str, Any]]:
                tell(process, {"type": "prompt", "message": words})
                return hear(process, lambda event: event["type"] == "agent_end")

            def command(name: str) -> None:
                tell(process, {"type": name})
                (*_, answer) = hear(process, lambda event: event.get("command") == name)
                assert answer["success"], answer

            try:
                turn("Remember how we deploy. " * 50)
                command("compact")
                turn("Hello?")
                said = json.dumps(turn("Start the server."))
                command("new_session")
                turn("Hello!")
                assert process.stdin is not None
                process.stdin.close()
                assert process.wait(SECONDS) == 0
            finally:
                process.kill()
    assert model.failure is None
    (session,) = person.sessions()
    found = re.search(r"It runs: (\d+)", said)
    assert found is not None, said
    survivor = int(found[1])
    yield Talk(model.requests, session["session"], survivor)
    if alive(survivor):
        os.kill(survivor, signal.SIGKILL)


def test_its_model_is_told_once_after_the_users_own_the_same_bytes_on_every_turn(talk: Talk) -> None:
    turns = [request for request in talk.requests if request.tools]
    assert len(turns) == 4 + 1 + 2 + 1
    (compaction,) = (request for request in talk.requests if not request.tools)
    assert "summar" in system(compaction)
    assert "Remember how we deploy" not in json.dumps(turns[4].body["messages"])  # it was compacted
    assert len(turns[-1].body["messages"]) == 1  # a new conversation in the same Pi
    (prompt,) = {system(request) for request in turns}
    assert prompt.count(TEXT) == 1
    assert f"{OWN}\n\n{TEXT}" in prompt
    assert "This project is a web shop." in prompt


def test_the_memory_on_the_disk_is_what_it_wrote_across_a_restart_of_the_hub(talk: Talk, hub: Hub) -> None:
    scope = hub.home / "memory" / "global"
    assert {path.name: path.read_text(encoding="utf-8") for path in scope.iterdir()} == {"MEMORY.md": ENTRY}


def test_a_program_that_outlives_pi_keeps_no_launch(talk: Talk) -> None:
    """The launch has ended, with Pi's status; what Pi's shell left running is not ended with it."""
    assert alive(talk.survivor)


def test_resumed_it_keeps_its_instructions_and_the_switch_refuses_data_alone(
    talk: Talk, person: Person, hub: Hub
) -> None:
    def read() -> Script:
        return (yield Call("bash", {"command": "amux memory show MEMORY.md"}))

    def resumed() -> tuple[str, subprocess.CompletedProcess[str]]:
        with ModelServer(read) as model:
            use(person, model)
            done = person.run(person.launch_words("-p", *ARGUMENTS, "What do you know?", resume=talk.session))
        assert done.returncode == 0, done
        first = model.conversation[0]
        assert system(first) == system(talk.requests[0])
        assert "It runs: " in json.dumps(first.body["messages"])
        return done.stdout, done

    def switch(on: bool) -> None:
        hub.save_settings({"memory": {"enabled": on}})
        hub.restart()

    switch(False)
    said, done = resumed()
    assert "memory_disabled" in said
    assert "memory is switched off" in done.stderr
    switch(True)
    assert "部署 on Tuesdays." in resumed()[0]

    refused = person.run(person.launch_words("-p", *ARGUMENTS, "--continue", "Hello"))
    assert json.loads(refused.stderr.splitlines()[-1])["error"]["details"]["found"] == "--continue"
    hub.stop()
    hub.write_config({"isolation": True})
    hub.start()
    refused = person.run(person.launch_words("-p", *ARGUMENTS, "Hello", resume=talk.session))
    assert json.loads(refused.stderr.splitlines()[-1])["error"]["code"] == "binding_mismatch"
    hub.stop()
    hub.write_config({})
    hub.start()


def test_n4_a_hostile_checkout_chooses_nothing_and_a_bare_pi_is_what_it_was(pi: str, hub: Hub, tmp_path: Path) -> None:
    """The project may change what Pi lets any project change. A launch asks the model as often as a bare Pi, and
    leaves home and checkout as a bare one does, but for its own note."""
    person = somebody(pi, hub, tmp_path)
    person.env["PATH"] = f".:{person.env['PATH']}"
    (person.checkout / ".pi").mkdir()
    (person.checkout / ".pi/APPEND_SYSTEM.md").write_text("Of the project.")
    (person.checkout / ".env").write_text("AMUX_HUB=/evil\n")
    (person.checkout / "connection.json").write_text('{"hub":"/evil","session":"x","binding":"global"}')
    for module in ("json.py", "sitecustomize.py", "amux.py"):
        (person.checkout / module).write_text("raise SystemExit('evil')\n")
    (person.checkout / "amux").write_text("#!/bin/sh\necho evil\n")
    (person.checkout / "amux").chmod(0o755)

    def asked() -> Script:
        return (yield Call("bash", {"command": "amux memory list"}))

    def ask(words: list[str]) -> tuple[str, list[Request]]:
        with ModelServer(asked) as model:
            use(person, model)
            done = person.run(words)
        assert done.returncode == 0, done
        assert model.failure is None
        return done.stdout, model.requests

    own = ("-p", *ARGUMENTS, "Hello")
    project = checksums(person.checkout)
    said, bare = ask([pi, *own])
    assert said.strip() == "evil"
    home = checksums(person.home)
    said, launched = ask(person.launch_words(*own))
    assert json.loads(said)["documents"] is not None
    assert len(launched) == len(bare) == 2
    assert f"Of the project.\n\n{TEXT}" in system(launched[0])
    models = ".pi/agent/models.json"
    records = f".pi/agent/sessions/--{str(person.checkout)[1:].replace('/', '-')}--"
    new = changed(home, checksums(person.home)) - {models}
    assert {os.path.dirname(name) for name in new} == {".local/state/amux/launches", records}
    assert not new & home.keys()
    said, after = ask([pi, *own])
    assert said.strip() == "evil"
    assert [system(request) for request in after] == [system(request) for request in bare]
    assert protocol.BEGIN not in json.dumps(after[0].body)
    assert checksums(person.checkout) == project
