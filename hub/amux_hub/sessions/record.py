"""One conversation's launch state, the grammar of its values, and its file: JSON, 4 KiB at the most.

Promises: what `parse` answers is well-formed in every field; anything else is a ValueError. The client matches the
same values by the same patterns (docs/reference/launch.md).
"""

from __future__ import annotations

import base64
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass

from amux.errors import AmuxError

RECORD_BYTES = 4 * 1024
SUFFIX = ".json"

KINDS = ("interactive", "task", "schedule", "child", "service")
ISOLATIONS = ("dac", "private-home", "none")
_ID = re.compile(r"s-[a-z2-7]{26}")
_AGENT = re.compile(r"[a-z][a-z0-9-]{0,31}")
_NATIVE = re.compile(r"[!-~]{1,256}")
_BINDING = re.compile(r"global|principal:[^:/\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,255}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@dataclass(frozen=True)
class Session:
    """`principal` is whose it is; `binding` is the scope that it began with and never another.

    `native` is the agent's own id of the conversation, "" until it was told; `parent` the session that began this
    one, "" for none, as the client said. Times are RFC 3339 in UTC, to the second.
    """

    id: str
    principal: str
    binding: str
    agent: str
    kind: str
    isolation: str
    created: str
    last_used: str
    native: str = ""
    parent: str = ""


def new_id() -> str:
    """128 random bits."""
    return "s-" + base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


def check_id(value: str, argument: str = "session") -> str:
    return _checked(value, argument, _ID.fullmatch, "s- and 26 letters or digits of base32")


def check_agent(value: str) -> str:
    return _checked(value, "agent", _AGENT.fullmatch, "1 to 32 lower-case letters, digits or -, a letter first")


def check_native(value: str) -> str:
    return _checked(value, "native", _NATIVE.fullmatch, "1 to 256 printable ASCII characters without a space")


def check_kind(value: str) -> str:
    return _checked(value, "kind", KINDS.__contains__, "one of " + ", ".join(KINDS))


def check_isolation(value: str) -> str:
    return _checked(value, "isolation", ISOLATIONS.__contains__, "one of " + ", ".join(ISOLATIONS))


def _checked(value: str, argument: str, fits: Callable[[str], object], rule: str) -> str:
    """Raises `invalid_argument`."""
    if not fits(value):
        raise AmuxError("invalid_argument", f"{argument} must be {rule}, found {value[:80]!r}", argument=argument)
    return value


def encode(session: Session) -> bytes:
    return json.dumps(asdict(session), ensure_ascii=False).encode() + b"\n"


def parse(data: bytes, name: str) -> Session:
    """The session in the file `name`. Raises ValueError for what is none."""
    if len(data) > RECORD_BYTES:
        raise ValueError(f"it has over {RECORD_BYTES} bytes")
    try:
        value = json.loads(data)
        session = Session(**value)
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if not all(isinstance(text, str) for text in vars(session).values()):
        raise ValueError("a text is none")
    if session.id + SUFFIX != name:
        raise ValueError("it is the launch state of another session: it was moved or copied")
    try:
        _check(session)
    except AmuxError as error:
        raise ValueError(error.message) from None
    return session


def _check(session: Session) -> None:
    check_id(session.id)
    check_agent(session.agent)
    check_kind(session.kind)
    check_isolation(session.isolation)
    if session.native:
        check_native(session.native)
    if session.parent:
        check_id(session.parent, "parent")
    if not session.principal or not _BINDING.fullmatch(session.binding):
        raise ValueError("principal or binding is none")
    if not _TIME.fullmatch(session.created) or not _TIME.fullmatch(session.last_used):
        raise ValueError("a time is none")
