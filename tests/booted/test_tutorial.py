"""docs/tutorial-launch.md on a booted host: its lines are run as they stand, and say what the page says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from tests.booted.lab.machine import ROOT
from tests.booted.system import HOME, Maker, System

pytestmark = pytest.mark.parametrize("_installed", ["trixie"], indirect=True)

PAGE = ROOT / "docs" / "tutorial-launch.md"
PREPARED = (
    "make deb",
    "sudo apt install ./dist/amux-hub_",
    "sudo adduser ann",
    "sudo adduser bob",
    "npm config set prefix ~/.npm-global",
    "npm install -g ",
    "~/.npm-global/bin/pi ",
)
"""Lines whose work the test does itself: the package is installed, and a script stands for Pi."""

PI = r"""#!/bin/sh
# Remembers the sentence that it is told, and answers from the memory, as a model would be instructed to.
for word in "$@"; do [ "$word" = -p ] && exec amux memory search deploy; done
read -r said
printf '# Memory\n- %s\n' "${said#Remember that }" | amux memory upsert MEMORY.md --expected-revision absent
"""

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


@dataclass
class Line:
    """One command of the page: whose, what it is told, what it says."""

    who: str
    command: str
    typed: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)


def _lines() -> list[Line]:
    found: list[Line] = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for text in block.splitlines():
            if prompt := re.match(r"(ann|bob)?\$ (.*)", text):
                found.append(Line(prompt[1] or "root", prompt[2]))
            elif text.startswith("> "):
                found[-1].typed.append(text[2:])
            else:
                found[-1].said.append(text)
    return found


def _run(system: System, line: Line) -> tuple[int, str]:
    """On a terminal; what it said, without colours."""
    command = re.sub(r"\bsudo ", "", line.command)
    inside = f"cd; EDITOR=true TERM=xterm exec script -qec {shlex.quote(command)} /dev/null"
    user = None if line.who == "root" else line.who
    done = system.machine.run(
        "sh", "-c", inside, user=user, stdin="".join(f"{text}\n" for text in line.typed), check=False
    )
    return done.returncode, ESCAPES.sub("", done.stdout)


@pytest.fixture
def fresh(system: System) -> Iterator[System]:
    """As the package leaves it: not configured, not started."""
    system.configure(system.shipped.decode())
    system.machine.run("systemctl", "stop", "amux-hub.service")
    yield system
    system.machine.run("rm", "-f", f"{HOME}/settings.yaml")


def test_the_lines_of_the_tutorial_do_what_it_says(fresh: System, person: Maker) -> None:
    system = fresh
    for name, uid in (("ann", 1000), ("bob", 1001)):
        person(name, uid=uid)
        program = f"/home/{name}/.npm-global/bin/pi"
        system.machine.run("mkdir", "-p", program.rpartition("/")[0], user=name)
        system.machine.put(PI.encode(), program, 0o755)
    prepared, answers = set(), {}
    for line in _lines():
        if done := [start for start in PREPARED if line.command.startswith(start)]:
            prepared.update(done)
            continue
        status, said = _run(system, line)
        refused = any("Permission denied" in text for text in line.said)
        assert (status == 0) != refused, f"{line.who}$ {line.command}\n{said}"
        words = [text.split() for text in said.splitlines()]
        for text in line.said:
            assert text.split() in words, f"{line.who}$ {line.command}\n{said}"
        answers[line.who, line.command] = said
    assert prepared == set(PREPARED), "the page has changed: what the test prepares is not on it"
    assert "0 problems" in answers["root", "sudo amux doctor"]
    assert "to go on with this conversation: amux launch --resume s-" in answers["ann", "amux launch pi"]
    question = 'amux launch pi -- -p "When do we deploy?"'
    assert "Tuesdays" in answers["ann", f"cd /tmp && {question}"]
    assert "Tuesdays" in answers["ann", "amux memory show MEMORY.md"]
    assert "Tuesdays" not in answers["bob", question]
