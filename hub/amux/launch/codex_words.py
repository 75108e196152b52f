"""Codex's command line: which of its words are options, which begin another command, which are the prompt.

Read as its own parser does (clap), for 0.153.4 and 0.171.0. Overrides (`-c`, `--enable`, `--disable`) are taken out
in their order, so that a launch's own come after them: of two, the later one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

EXEC = ("exec", "e")
COMMANDS = frozenset(
    "agents review login logout mcp plugin mcp-server app-server remote-control completion update doctor sandbox debug "
    "apply a resume queue archive delete migrate-rollouts migrate-nfs-db unarchive fork cloud cloud-tasks exec-server "
    "features responses-api-proxy stdio-to-uds execpolicy help".split()
)
"""First words that are commands of their own."""
EXEC_COMMANDS = frozenset({"resume", "fork", "review", "help"})
ELSEWHERE = frozenset({"--remote", "--remote-auth-token-env", "--last"})
"""Options that lead to another conversation, or to a Codex that somebody else started, with its settings."""

VALUED = frozenset(
    "--config --enable --disable --remote --remote-auth-token-env --model --local-provider --profile --sandbox --cd "
    "--add-dir --ask-for-approval --thread-source --output-schema --color --output-last-message".split()
)
"""Options that take the next word, unless it is joined to them by `=`."""
SHORT = {
    "-c": "--config",
    "-m": "--model",
    "-p": "--profile",
    "-s": "--sandbox",
    "-C": "--cd",
    "-a": "--ask-for-approval",
    "-o": "--output-last-message",
    "-i": "--image",
}
IMAGE = "--image"
"""Takes every word up to the next option."""


@dataclass
class Line:
    """A command line of Codex, taken apart."""

    before: list[str] = field(default_factory=list)
    """Options in front of `exec`."""
    command: str | None = None
    """`exec`, another command, or None: the screen."""
    options: list[str] = field(default_factory=list)
    """The other options, with their values."""
    overrides: list[str] = field(default_factory=list)
    """`key=value` of each override, in order."""
    words: list[str] = field(default_factory=list)
    """The prompt, or what follows a command that is none of ours."""
    values: dict[str, str] = field(default_factory=dict)
    """Long name → value, the last; a flag has the empty one."""
    plain: bool = False
    """Whether the first of `words` stood in front of a `--`: there alone it can be a command."""

    @property
    def against(self) -> str | None:
        """What a launch cannot go with, as it stands in a message."""
        if self.command in COMMANDS:
            return self.command
        if self.command in EXEC and self.plain and self.words[0] in EXEC_COMMANDS:
            return f"{self.command} {self.words[0]}"
        return next((name for name in self.values if name in ELSEWHERE), None)


def parse(arguments: Sequence[str]) -> Line:
    """Take a command line apart. Nothing of it is lost."""
    line = Line()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word == "--":
            line.words += rest
            break
        if word.startswith("-") and word != "-":
            _option(line, word, rest)
        elif line.command is None and not line.words and (word in EXEC or word in COMMANDS):
            line.command = word
            line.before, line.options = line.options, []
        else:
            line.plain = line.plain or not line.words
            line.words.append(word)
    return line


def _option(line: Line, word: str, rest: list[str]) -> None:
    """One option with what belongs to it, taken from `rest`."""
    name, joined, value = word.partition("=")
    short = SHORT.get(word[:2])
    if not word.startswith("--") and short is not None:
        name, value, joined = short, word[2:].removeprefix("="), word[2:]
    given = [word]
    if name == IMAGE:
        while rest and not rest[0].startswith("-"):
            given.append(rest.pop(0))
    elif not joined and name in VALUED and rest:
        value = rest.pop(0)
        given.append(value)
    line.values[name] = value
    if name == "--config":
        line.overrides.append(value)
    elif name in ("--enable", "--disable"):
        line.overrides.append(f"features.{value}={'true' if name == '--enable' else 'false'}")
    else:
        line.options += given
