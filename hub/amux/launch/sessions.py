"""io.amux.Session as a launch uses it: begin, resume, tell the conversation's id, forget.

Every answer is matched whole before it is returned (values.py).
"""

from __future__ import annotations

import os
from typing import Any

from amux.client import Client
from amux.endpoint import Endpoint
from amux.errors import AmuxError
from amux.launch import values
from amux.launch.values import Session

SESSION = "io.amux.Session."
REPLY_SECONDS = 5.0
"""An agent waits for this."""

ABSENT = frozenset({"hub_unavailable", "shutting_down", "busy", "identity_unavailable", "version_mismatch"})
"""Refusals that say nothing of the session: no Hub answered that could know it."""


class Sessions:
    """The sessions of one Hub, each call on a connection of its own: a launch must not hold one for hours."""

    def __init__(self, where: Endpoint) -> None:
        self._where = where

    def _call(self, method: str, **parameters: str) -> dict[str, Any]:
        with Client(self._where, environ={}, reply_seconds=REPLY_SECONDS) as client:
            return client.call(SESSION + method, dict(parameters))

    def begin(self, agent: str, kind: str, isolation: str, parent: str | None) -> Session:
        parameters = {"agent": agent, "kind": kind, "isolation": isolation}
        if parent is not None:
            parameters["parent"] = parent
        session, binding = values.begun(self._call("Begin", **parameters))
        return Session(session, agent, kind, isolation, binding)

    def resume(self, session: str) -> Session:
        return values.state(self._call("Resume", session=session), session)

    def switched_off(self) -> bool:
        """Whether the Hub says that its memory is off; False if it does not say."""
        try:
            with Client(self._where, environ={}, reply_seconds=REPLY_SECONDS) as client:
                return client.call("io.amux.Hub.GetStatus", {}).get("memory_enabled_running") is False
        except AmuxError:
            return False

    def name(self, session: str, native: str) -> None:
        """Tell the agent's own id of the conversation, once; again the same is fine."""
        self._call("SetNative", session=session, native=native)

    def forget(self, session: str) -> None:
        """Drop the launch state of a launch that came to nothing. A Hub that cannot be told drops the oldest itself."""
        try:
            self._call("End", session=session)
        except AmuxError:
            return


def parent_of(environ: dict[str, str]) -> str | None:
    """The session that this launch is started from, if an agent of a launch starts it."""
    named = environ.get("AMUX_SESSION", "")
    return named if values.SESSION.fullmatch(named) else None


def real_home(environ: dict[str, str]) -> str:
    """HOME, else the account's. Raises `invalid_argument` for somebody else's, `not_found` if there is none."""
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        _check_owner(home)
        return os.path.normpath(home)
    import pwd

    try:
        home = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        home = ""
    if not os.path.isabs(home):
        raise AmuxError("not_found", f"UID {os.geteuid()} has no home directory and HOME is not set: set HOME")
    return os.path.normpath(home)


def _check_owner(home: str) -> None:
    """`sudo` may keep the caller's HOME: then the agent would read, and write into, another person's files."""
    try:
        owner = os.stat(home).st_uid
    except OSError:
        return  # the agent will say what it makes of that
    if owner not in (0, os.geteuid()):
        raise AmuxError(
            "invalid_argument",
            f"HOME is {home}, which belongs to UID {owner}, and you are UID {os.geteuid()}: with sudo, add -H",
            path=home,
            found=owner,
        )
