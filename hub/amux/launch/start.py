"""A launch from its command line to its end: which agent, which session, which isolation, then run it.

The order matters. What the person got wrong is refused before the Hub is asked; a missing tool is an error before the
agent starts; a Hub that is away or switched off is one line, and the agent starts without memory, its own untouched.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace

from amux import endpoint, output
from amux.errors import AmuxError
from amux.launch import environment, find, isolation, known, notes, protocol, run, sessions, values
from amux.launch.agent import CLI, Agent, Plan, Request
from amux.launch.isolation import Credentials, Place
from amux.launch.sessions import Sessions
from amux.launch.values import Session


@dataclass(frozen=True)
class Wanted:
    """What the command line says; None where it says nothing."""

    agent: str | None
    arguments: tuple[str, ...] = ()
    isolation: str | None = None
    resume: str | None = None
    program: str | None = None
    kind: str | None = None
    credentials: Credentials = field(default_factory=Credentials)


def say(text: str) -> None:
    """One line for the person at the terminal."""
    output.line(2, f"amux: {text}")


def launch(wanted: Wanted, environ: dict[str, str]) -> int:
    """Launch and wait; the agent's exit status. Killed by a signal, so are we. Raises AmuxError before the start."""
    home = sessions.real_home(environ)
    where = endpoint.choose(environ)
    hub = Sessions(where)
    if wanted.resume is not None:
        return _resume(wanted, environ, home, where, hub)
    assert wanted.agent is not None
    agent = known.find(wanted.agent)
    program = _program(agent, wanted, environ, home)
    mode = wanted.isolation or isolation.default(where)
    isolation.check(mode, where)
    _check_credentials(mode, wanted)
    parent = sessions.parent_of(environ)
    kind = wanted.kind or ("child" if parent else "interactive")
    try:
        session = hub.begin(agent.name, kind, mode, parent)
    except AmuxError as error:
        return _without_memory(agent, program, wanted, environ, home, mode, error)
    if mode == values.NONE and wanted.isolation is None:
        say("isolation none: there is no materializer for this Hub, so the agent uses the installed amux")
    try:
        place = _place(session, environ, home, where, wanted.credentials)
        return _with_memory(agent, program, wanted, session, place, home, hub, hub_answered=True)
    except AmuxError:
        hub.forget(session.id)
        raise


def _resume(wanted: Wanted, environ: dict[str, str], home: str, where: endpoint.Endpoint, hub: Sessions) -> int:
    wanted_id = wanted.resume or ""
    if values.SESSION.fullmatch(wanted_id) is None:
        raise AmuxError(
            "invalid_argument",
            f"--resume {wanted_id!r}: a session is s- and 26 letters or digits; see amux session list",
        )
    hub_answered = True
    try:
        session = hub.resume(wanted_id)
        if hub.switched_off():
            say("memory is switched off: the conversation keeps its instructions, and its tools answer memory_disabled")
    except AmuxError as error:
        noted = notes.load(home, wanted_id) if error.code in sessions.ABSENT else None
        if noted is None:
            raise
        session, hub_answered = noted, False
        say(f"{error.message}")
        say("the conversation goes on with what this account noted of it; its memory answers once the Hub does")
    if wanted.agent not in (None, session.agent):
        raise AmuxError("invalid_argument", f"session {session.id} is one of {session.agent}, not of {wanted.agent}")
    if wanted.isolation not in (None, session.isolation):
        raise AmuxError(
            "invalid_argument",
            f"session {session.id} began with --isolation {session.isolation} and keeps it",
        )
    agent = known.find(session.agent)
    if session.native is not None:
        values.matched(session.native, agent.native, "conversation")
    else:
        say(f"the conversation of {session.id} was never seen: {agent.name} begins a new one in its place")
    program = _program(agent, wanted, environ, home)
    isolation.check(session.isolation, where)
    _check_credentials(session.isolation, wanted)
    place = _place(session, environ, home, where, wanted.credentials)
    return _with_memory(agent, program, wanted, session, place, home, hub, hub_answered=hub_answered)


def _program(agent: Agent, wanted: Wanted, environ: dict[str, str], home: str) -> str:
    """The executable, once nothing speaks against the arguments. Raises AmuxError."""
    against = agent.conflict(wanted.arguments)
    if against is not None:
        raise AmuxError(
            "invalid_argument",
            f"{agent.name} {against} is nothing to launch: a launch begins a conversation, or resumes one of its own "
            f"(amux launch --resume SESSION; amux session list shows them). Start {agent.name} itself for it",
            found=against,
        )
    return find.program(agent, wanted.program, environ, home)


def _check_credentials(mode: str, wanted: Wanted) -> None:
    if mode != values.PRIVATE_HOME and (wanted.credentials.files or wanted.credentials.variables):
        raise AmuxError(
            "invalid_argument",
            f"--credential-file and --credential-variable are for --isolation private-home, not {mode}",
        )


def _place(
    session: Session, environ: dict[str, str], home: str, where: endpoint.Endpoint, credentials: Credentials
) -> Place:
    if session.isolation == values.DAC:
        return isolation.dac(environ, home, session.id, session.binding)
    if session.isolation == values.PRIVATE_HOME:
        say("isolation private-home is weak: other programs of this account can read that home, and it theirs")
        return isolation.private_home(environ, home, where, session.id, session.binding, credentials)
    return isolation.none(environ, home, where, session.id, session.binding)


def _without_memory(
    agent: Agent, program: str, wanted: Wanted, environ: dict[str, str], home: str, mode: str, error: AmuxError
) -> int:
    """Start the agent as the person would, its own memory untouched. A private home is still one."""
    if error.code == "memory_disabled":
        say(f"memory is switched off: {agent.name} starts without it, its own memory as it is")
    else:
        say(f"{error.message}")
        say(f"{agent.name} starts without this memory, its own memory as it is")
    kept = environment.own(environ, keep=environment.WHICH_HUB)
    if mode == values.PRIVATE_HOME:
        own = isolation.make_home(home, "u-" + os.urandom(13).hex(), wanted.credentials.files)
        kept, _ = environment.homes(environment.private(environ, own, wanted.credentials.variables), own)
        say(f"its home is {own}")
    return run.end_as(run.run([program, *wanted.arguments], _with_interpreter(kept, program)))


def _with_memory(
    agent: Agent,
    program: str,
    wanted: Wanted,
    session: Session,
    place: Place,
    home: str,
    hub: Sessions,
    *,
    hub_answered: bool,
) -> int:
    fixed, changed = environment.homes(place.environment, place.home)
    if place.isolation != values.PRIVATE_HOME:
        for name in changed:
            say(f"{name} of your environment is not used: a launch keeps to the agents' own places in {place.home}")
    request = Request(
        program,
        wanted.arguments,
        _with_interpreter(fixed, program),
        os.getcwd(),
        place.home,
        protocol.of(agent),
        place.tool,
        hub_answered,
        wanted.resume is not None,
        session.native,
    )
    if agent.tools == CLI and find.which(isolation.TOOL, request.environment) is None:
        raise AmuxError(
            "not_found", f"no amux on PATH: {agent.name} would have no way to its memory", found=isolation.TOOL
        )
    plan = agent.plan(request)
    for notice in plan.notices:
        say(notice)
    if plan.verify is not None:
        plan.verify()
    if plan.native is not None and session.native is None:
        session = _seen(session, plan.native, agent, hub)
    notes.save(home, session)
    seen = _Seen(agent, request, session, home, hub)
    status = run.run(plan.argv, _final(request, plan), place.lock, None if session.native else seen.look)
    if (session.native or seen.look()) and output.is_terminal(2):
        say(f"to go on with this conversation: amux launch --resume {session.id}")
    return run.end_as(status)


def _final(request: Request, plan: Plan) -> dict[str, str]:
    kept = {name: value for name, value in request.environment.items() if name not in plan.remove}
    return {**kept, **plan.set}


def _with_interpreter(environ: dict[str, str], program: str) -> dict[str, str]:
    """An agent that was found beside its interpreter (nvm) and not on PATH finds it there too."""
    directory = os.path.dirname(program)
    if find.which("node", environ) is None and find.runnable(os.path.join(directory, "node")):
        return environment.last_on_path(environ, directory)
    return environ


def _seen(session: Session, native: str, agent: Agent, hub: Sessions) -> Session:
    """Save the conversation's own id; a Hub that is away just now does not stop the agent."""
    values.matched(native, agent.native, "conversation")
    try:
        hub.name(session.id, native)
    except AmuxError as error:
        say(f"the Hub could not note the conversation's id ({error.message}); this account's own note has it")
    return replace(session, native=native)


class _Seen:
    """What looks for the id of a conversation that only the agent knows, until it is seen."""

    def __init__(self, agent: Agent, request: Request, session: Session, home: str, hub: Sessions) -> None:
        self._agent, self._request, self._session = agent, request, session
        self._home, self._hub = home, hub
        self._since = time.time()

    def look(self) -> bool:
        if self._session.native is None:
            native = self._agent.conversation(self._request, self._since)
            if native is None:
                return False
            self._session = _seen(self._session, native, self._agent, self._hub)
            notes.save(self._home, self._session)
        return True
