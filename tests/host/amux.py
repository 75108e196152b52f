"""How the checks speak to the Hub of a host: the command line, as root or as a person."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testinfra.backend.base import CommandResult
    from testinfra.host import Host

Reply = dict[str, Any]


def json_of(host: Host, command: str, *words: str) -> Reply:
    """What a command that must succeed printed; each %s is one word."""
    done = host.run(command, *words)
    assert done.rc == 0, f"{done.command}: {done.stderr}"
    reply: Reply = json.loads(done.stdout)
    return reply


def status(host: Host) -> Reply:
    """`amux status`: the first call starts the Hub."""
    return json_of(host, "amux status --json")


@dataclass(frozen=True)
class Person:
    """An account of the host."""

    host: Host
    name: str

    def run(self, command: str, *words: str) -> CommandResult:
        """A command with the rights and groups of the account; each %s is one word."""
        return self.host.run(f"runuser -u %s -- env -u AMUX_HUB {command}", self.name, *words)

    def whoami(self) -> Reply:
        done = self.run("amux whoami --json")
        assert done.rc == 0, done.stderr
        reply: Reply = json.loads(done.stdout)
        return reply

    def refused(self, command: str, *words: str) -> str:
        """The error code with which a command of amux fails."""
        done = self.run(command, *words)
        assert done.rc != 0, f"{self.name} may: {command} {words}\n{done.stdout}"
        said = done.stderr.strip().rpartition("\n")[2]  # sudo may have said something before
        assert said.startswith("{"), done.stderr
        return str(json.loads(said)["error"]["code"])
