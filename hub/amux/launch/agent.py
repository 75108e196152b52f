"""What an adapter is asked, and what it answers: the interface that a fourth agent implements.

One file per agent, one class, one object named in `known.py`; docs/how-to/add-an-agent.md goes through it. An
adapter writes nothing and says what is to be run; all that it may start is the agent's own program, to ask for its
settings. It gets no memory, and of the Hub only values that `values.py` has matched whole.

    class Pi(Agent):
        name, programs, tools = "pi", ("pi",), "cli"
        def plan(self, request): return Plan([request.program, ..., *request.arguments])
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

MCP, CLI = "mcp", "cli"
"""How an agent's model reaches the memory: tools of an MCP server, or commands at a shell."""


@dataclass(frozen=True)
class Tool:
    """How `amux` is started in this launch. The words are the same in every launch of a conversation."""

    words: tuple[str, ...]
    """Runs `amux`; `(*words, "mcp")` is the MCP server. `("amux",)` on PATH under isolation dac, else absolute."""
    variables: tuple[str, ...]
    """Names of the environment variables that it needs; their values stand in `Request.environment`. For clients
    that start an MCP server with a small environment of their own."""


@dataclass(frozen=True)
class Request:
    """One launch with memory, as its adapter sees it. (A launch without memory asks no adapter for a plan.)"""

    program: str
    """The agent's executable, an absolute path."""
    arguments: tuple[str, ...]
    """The user's own, everything after `--`; `Agent.conflict` found nothing against them. None may be dropped."""
    environment: Mapping[str, str]
    """What the agent will get, but for `Plan.set` and `Plan.remove`."""
    directory: str
    """The working directory."""
    home: str
    """The launch's home: the person's own, or the private one."""
    protocol: str
    """The fixed text for this agent, `Agent.names` filled in; `protocol.merged()` joins it to the user's own."""
    tool: Tool
    hub_answered: bool
    """Whether the Hub answered at this start. False only when a conversation is resumed without it: then nothing
    that needs the Hub may be made a condition of starting."""
    resume: bool
    """Whether a conversation goes on. Without `native` it had not begun, or its id was never seen."""
    native: str | None
    """The agent's own id of the conversation to resume; `Agent.native` matched it whole."""


@dataclass(frozen=True)
class Plan:
    """What is to be run."""

    argv: Sequence[str]
    """The whole command line. `argv[0]` is what is executed: `Request.program`."""
    set: Mapping[str, str] = field(default_factory=dict)
    """Environment variables to add or replace."""
    remove: Sequence[str] = ()
    """Environment variables to take away."""
    native: str | None = None
    """The id that this new conversation will have, where the adapter can choose it. It is saved before the start."""
    verify: Callable[[], None] | None = None
    """Called once, right before the start; raises AmuxError if the agent would not do as planned (its own memory
    would be on, a switch is not supported). Nothing that it starts may outlive it."""
    notices: Sequence[str] = ()
    """Lines for the person at the terminal, without a final point of their own."""


class Agent(ABC):
    """One agent. Its attributes are constants of the class."""

    name: str
    """What `amux launch NAME` says; it must match `[a-z][a-z0-9-]{0,31}`."""
    programs: Sequence[str]
    """Names of its executable, the usual one first."""
    places: Sequence[str] = ()
    """Directories below the home where its vendor's own installer puts it; npm's are known to `find.py`."""
    install: str
    """A command that installs it, for the message that it is not there."""
    tools: str
    """MCP or CLI."""
    names: Mapping[str, str]
    """Operation (`search`, `get`, `upsert`, `forget`, `continue`) → what this agent's model calls the tool. Used
    if `tools` is MCP."""
    native: re.Pattern[str]
    """Every id that a conversation of this agent can have; matched with `fullmatch`."""

    @abstractmethod
    def conflict(self, arguments: Sequence[str]) -> str | None:
        """Which of the user's arguments a launch cannot go with, as it stands in a message; None if all can.

        A launch begins a new conversation, or resumes its own with `amux launch --resume`. So everything that
        makes the agent go on with another conversation (`--continue`, `resume`, …) is named here: one that
        began without memory must not adopt it, and one that has it must not lose its protocol.
        """

    @abstractmethod
    def plan(self, request: Request) -> Plan:
        """What to run. Raises AmuxError if this agent, as the user has it set up, cannot be launched so.

        It may ask the agent's program for its settings; nothing that it starts may outlive the call.
        """

    def conversation(self, request: Request, since: float) -> str | None:  # noqa: ARG002 - most agents need neither
        """The id of the conversation that this launch began, once it can be seen; None as long as it cannot.

        Asked every few seconds while the agent runs, and once after it, unless the plan named the id. `since` is
        the time of the start, in seconds as `time.time()`. It reads the agent's own records; never writes.
        """
        return None
