"""io.amux.Session: what the Hub remembers of a launch, as it looks on the wire."""

# No postponed annotations: asyncvarlink reads them when the class is made.
import typing

from asyncvarlink import VarlinkInterface, varlinkmethod

from amux_hub.interfaces.shared import Shared, fitting
from amux_hub.sessions import Session
from amux_hub.wire.accept import Connection


class BeginReply(typing.TypedDict):
    session: str
    binding: str


class _State(typing.TypedDict):
    session: str
    agent: str
    kind: str
    isolation: str
    binding: str
    created: str
    last_used: str


class State(_State, total=False):
    native: str
    parent: str


class _SessionsReply(typing.TypedDict):
    sessions: list[State]


class SessionsReply(_SessionsReply, total=False):
    next_after: str


class SessionInterface(VarlinkInterface, name="io.amux.Session"):
    """The conversations of the caller that `amux launch` began: which agent, with which binding. Never content.

    They are the caller's alone: one of somebody else is NotFound like one that never was. At most 256 are kept for
    each principal; a new one drops the one that was used longest ago. A call of io.amux.Memory may name a session
    that is not kept here.
    """

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._sessions = shared.sessions
        self._who = connection.caller

    @varlinkmethod
    async def Begin(  # noqa: N802 - the wire's name
        self,
        *,
        agent: str,
        kind: str | None = None,
        isolation: str | None = None,
        parent: str | None = None,
    ) -> BeginReply:
        """Begin a conversation: a new id, and the binding that it keeps. MemoryDisabled while the switch is off.

        `kind` is "interactive" (the default), "task", "schedule", "child" or "service"; `isolation` "dac",
        "private-home" or "none" (the default); `parent` the session that begins this one. They are kept as told.
        """
        session = await self._sessions.begin(self._who, agent, kind or "interactive", isolation or "none", parent or "")
        return {"session": session.id, "binding": session.binding}

    @varlinkmethod
    async def Resume(self, *, session: str) -> State:  # noqa: N802
        """Go on with a conversation, also while the switch is off. BindingMismatch if your scope is another now."""
        return _state(await self._sessions.resume(self._who, session))

    @varlinkmethod
    async def SetNative(self, *, session: str, native: str) -> None:  # noqa: N802
        """Tell the agent's own id of the conversation, once. The same again is fine, another is Conflict."""
        await self._sessions.set_native(self._who, session, native)

    @varlinkmethod
    async def List(self, *, after: str | None = None) -> SessionsReply:  # noqa: N802
        """Your sessions by id, a page at a time: when there are more, `next_after` is the next call's `after`."""
        found = await self._sessions.of_caller(self._who, after or "")
        shown = fitting([_state(session) for session in found])
        reply: SessionsReply = {"sessions": shown}
        if len(shown) < len(found):
            reply["next_after"] = shown[-1]["session"]
        return reply

    @varlinkmethod
    async def Show(self, *, session: str) -> State:  # noqa: N802
        """One session, as it is kept."""
        return _state(await self._sessions.show(self._who, session))

    @varlinkmethod
    async def End(self, *, session: str) -> None:  # noqa: N802
        """Forget a session: it cannot be resumed any more. Memory is not touched."""
        await self._sessions.end(self._who, session)


def _state(session: Session) -> State:
    state: State = {
        "session": session.id,
        "agent": session.agent,
        "kind": session.kind,
        "isolation": session.isolation,
        "binding": session.binding,
        "created": session.created,
        "last_used": session.last_used,
    }
    if session.native:
        state["native"] = session.native
    if session.parent:
        state["parent"] = session.parent
    return state
