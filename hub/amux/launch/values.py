"""What a launch takes from the Hub, each value matched whole before anything is done with it.

The Hub may have been taken over (docs/reference/launch.md): of its answers a launch uses a session id, a
binding, a native conversation id, and on resume the names of an agent, a kind and an isolation that this `amux`
knows itself. Everything else of a reply is ignored; nothing of it becomes a path, a command or a text for a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from amux.errors import AmuxError

SESSION = re.compile(r"s-[a-z2-7]{26}")
BINDING = re.compile(r"global|principal:[^:/\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
"""A principal has 1 to 255 bytes, checked apart; no `:`, `/` or control character (io.amux.Hub.WhoAmI)."""
PRINCIPAL_BYTES = 255

KINDS = ("interactive", "task", "schedule", "child", "service")
DAC, PRIVATE_HOME, NONE = "dac", "private-home", "none"
ISOLATIONS = (DAC, PRIVATE_HOME, NONE)
AGENT = re.compile(r"[a-z][a-z0-9-]{0,31}")


@dataclass(frozen=True)
class Session:
    """A conversation's launch state. `native` is the agent's own id, None until it was seen."""

    id: str
    agent: str
    kind: str
    isolation: str
    binding: str
    native: str | None = None


def matched(value: object, pattern: re.Pattern[str], what: str) -> str:
    """`value`, if it is a text that the pattern matches whole. Raises `protocol_error`."""
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        raise AmuxError("protocol_error", f"the Hub named the {what} {value!r:.80}, which none can be: it was not used")
    return value


def session_id(value: object) -> str:
    return matched(value, SESSION, "session")


def binding(value: object) -> str:
    text = matched(value, BINDING, "binding")
    if len(text.encode()) > PRINCIPAL_BYTES + len("principal:"):
        raise AmuxError("protocol_error", f"the Hub named a binding of {len(text.encode())} bytes: it was not used")
    return text


def one_of(value: object, known: tuple[str, ...], what: str) -> str:
    if value not in known:
        raise AmuxError("protocol_error", f"the Hub named the {what} {value!r:.80}; known are {', '.join(known)}")
    return str(value)


def begun(reply: dict[str, Any]) -> tuple[str, str]:
    """Session and binding of a reply to Begin."""
    return session_id(reply.get("session")), binding(reply.get("binding"))


def state(reply: dict[str, Any], wanted: str) -> Session:
    """The launch state in a reply to Resume, or in this account's own note of it. The native id is not matched
    yet: only the adapter knows its pattern."""
    if session_id(reply.get("session")) != wanted:
        raise AmuxError("protocol_error", f"the Hub answered about another session than {wanted}: it was not used")
    native = reply.get("native")
    return Session(
        wanted,
        matched(reply.get("agent"), AGENT, "agent"),
        one_of(reply.get("kind"), KINDS, "kind of execution"),
        one_of(reply.get("isolation"), ISOLATIONS, "isolation"),
        binding(reply.get("binding")),
        None if native is None else matched(native, re.compile(r"[!-~]{1,256}"), "conversation id"),
    )
