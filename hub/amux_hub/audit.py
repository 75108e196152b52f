"""The audit of a system Hub: who was let in, refused, did what to which document, with what outcome. Never content.

Promises: one record a decision, escaped on one line, with journal fields; it is written whatever `log.level` says.
Refusals are counted: one record for each UID, reason and second says how many, so that a flood of them drowns
nothing. What the journal did not take is counted in `logs.lost`. docs/reference/audit.md lists the records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)
_log.setLevel(logging.INFO)

KINDS = 4096
"""Refusals counted apart in one second; what is beyond is counted together, under UID -1."""

Field = str | int | bool


class Audit:
    """One for the process, on the loop. `tick` is to be called each second, and when the Hub stops."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._refusals: dict[tuple[int, str], tuple[int, dict[str, Field]]] = {}
        self._second = int(clock())
        self.refusals: dict[str, int] = {}
        """Since the start, by reason."""

    def did(self, event: str, **fields: Field) -> None:
        """Somebody did something that changes rights or memory."""
        _write(event, "ok", fields)

    def refused(self, event: str, uid: int, reason: str, **fields: Field) -> None:
        """Somebody was refused; `fields` of the first one of a second are kept as an example."""
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        if int(self._clock()) != self._second:
            self.tick()
        key = (uid, reason)
        if key not in self._refusals and len(self._refusals) >= KINDS:
            key, fields = (-1, reason), {}
        count, kept = self._refusals.get(key, (0, {"event": event, **fields}))
        self._refusals[key] = count + 1, kept

    def tick(self) -> None:
        """Write what was counted."""
        self._second = int(self._clock())
        counted, self._refusals = self._refusals, {}
        for (uid, reason), (count, fields) in counted.items():
            event = str(fields.pop("event"))
            _write(event, reason, {"uid": uid, **fields, "count": count})


def _write(event: str, outcome: str, fields: dict[str, Field]) -> None:
    _log.info("%s: %s", event, outcome, extra={"amux": {"audit": event, "outcome": outcome, **fields}})
