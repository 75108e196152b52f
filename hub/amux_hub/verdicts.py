"""What the host's PAM account stack says of a UID, asked of the root helper amux-pam.

Promises: nobody passes without an answer that says so. No answer, a late or malformed one, no helper: "try again".
An answer is remembered for each UID, for `seconds` after the question, and says when that was. All who ask for a UID
at once wait for one question.
docs/reference/amux-pam.md has the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from amux.errors import AmuxError

_log = logging.getLogger(__name__)

SOCKET = "/run/amux/pam.sock"
ALLOW, UNAVAILABLE = "allow", "unavailable"
REFUSALS = frozenset({"expired", "must_change", "password_expired", "denied", "unknown_account"})
ANSWER_SECONDS = 12.0
"""The helper ends a verdict after 10 s and says so."""

_LINE_BYTES = 32
_AT_ONCE = 16
"""As many as the helper runs at once; further ones wait here."""

KEPT = 65536
"""Answers remembered; when there are more, all are forgotten."""


class Verdict(NamedTuple):
    """`word` is `allow` or a member of REFUSALS; `asked` is when the question went out, of time.monotonic()."""

    word: str
    asked: float


class Verdicts:
    """One cache for the process, on the loop. `seconds` is asked for each time, since a reload may change it."""

    def __init__(self, seconds: Callable[[], float], path: str = SOCKET) -> None:
        self._seconds = seconds
        self._path = path
        self._known: dict[int, Verdict] = {}
        self._asking: dict[int, asyncio.Task[Verdict]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def forget(self, uid: int | None = None) -> None:
        """Ask again the next time: for one UID, or for all."""
        if uid is None:
            self._known.clear()
        else:
            self._known.pop(uid, None)

    async def of(self, uid: int) -> Verdict:
        """No older than `seconds` when the caller asks. Raises `identity_unavailable` where there is no answer."""
        known = self._known.get(uid)
        if known is not None and known.asked + self._seconds() > time.monotonic():
            return known
        task = self._asking.get(uid)
        if task is None:
            task = self._asking[uid] = asyncio.get_running_loop().create_task(self._ask(uid))
            task.add_done_callback(lambda _: self._asking.pop(uid, None))
        return await asyncio.shield(task)

    async def _ask(self, uid: int) -> Verdict:
        try:
            # The turn counts too: where the helper hangs, nobody waits for those who wait already.
            async with asyncio.timeout(ANSWER_SECONDS), self._turns:
                asked = time.monotonic()
                answer = await self._exchange(uid)
        except (OSError, TimeoutError) as error:
            _log.error("amux-pam gives no answer: %s", _short(error), extra={"amux": {"uid": uid}})
            raise _unavailable(uid, "the account helper of this Hub does not answer") from None
        if answer != ALLOW and answer not in REFUSALS:
            if answer != UNAVAILABLE:
                _log.error("amux-pam gave an answer that is none: %r", answer, extra={"amux": {"uid": uid}})
            raise _unavailable(uid, "the account helper could not find out about your account")
        if len(self._known) >= KEPT:
            self._known.clear()
        verdict = self._known[uid] = Verdict(answer, asked)
        return verdict

    async def _exchange(self, uid: int) -> str:
        reader, writer = await asyncio.open_unix_connection(self._path, limit=_LINE_BYTES)
        try:
            writer.write(b"%d\n" % uid)
            await writer.drain()
            line = await reader.read(_LINE_BYTES)
            while line and not line.endswith(b"\n") and len(line) < _LINE_BYTES:
                if not (more := await reader.read(_LINE_BYTES)):
                    break
                line += more
        finally:
            writer.close()
        return line[:-1].decode("ascii", "replace") if line.endswith(b"\n") else ""


def _short(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing came within {ANSWER_SECONDS:g} s"
    return getattr(error, "strerror", None) or type(error).__name__


def _unavailable(uid: int, what: str) -> AmuxError:
    return AmuxError(
        "identity_unavailable", f"{what}: try again; amux doctor says what is wrong", uid=uid, retry_after_ms=1000
    )
