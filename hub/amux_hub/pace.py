"""How many requests a second one UID may make, by a token bucket for each.

Promises: a UID over its rate waits, no other does; a bucket outlives the connections of its UID, so that connecting
anew buys nothing. It lives on the loop alone (no locks).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

BURST_SECONDS = 2.0
"""What was not used is saved up for this long."""

KEPT = 4096
"""Buckets remembered: those that were used most recently."""


class Pace:
    """`rate` is asked for each time; 0 is no limit."""

    def __init__(self, rate: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[int, tuple[float, float]] = OrderedDict()

    def take(self, uid: int) -> float:
        """Take a token: 0.0 if there was one, else the seconds until there is."""
        rate = self._rate()
        if not rate:
            return 0.0
        now = self._clock()
        tokens, stamp = self._buckets.pop(uid, (rate * BURST_SECONDS, now))
        tokens = min(rate * BURST_SECONDS, tokens + (now - stamp) * rate)
        taken = tokens >= 1
        self._buckets[uid] = tokens - taken, now
        while len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        return 0.0 if taken else (1 - tokens) / rate
