"""One bound in bytes on what all scopes together hold in memory; the least recently used go first."""

from __future__ import annotations

import threading
from collections import OrderedDict

from amux_hub.store.index import Index

SCOPES = 512
"""Scopes watched at a time, however small: each costs watches of the kernel's (inotify(7))."""


class Cache:
    """Told of each use of an index; makes others forget when the sum is over `capacity` bytes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._lock = threading.Lock()
        self._costs: OrderedDict[Index, int] = OrderedDict()
        self._total = 0

    @property
    def total(self) -> int:
        return self._total

    def used(self, index: Index) -> None:
        """Call after a use, without the index's lock."""
        with self._lock:
            cost = index.cost  # once: another thread may be changing it
            self._total += cost - self._costs.pop(index, 0)
            self._costs[index] = cost
            while self._costs and (self._total > self.capacity or len(self._costs) > SCOPES):
                victim, cost = self._costs.popitem(last=False)
                self._total -= cost
                if victim.lock.acquire(blocking=False):
                    try:
                        victim.drop()
                    finally:
                        victim.lock.release()
                else:
                    # In use this moment: it counts again, as most recent, when that use ends.
                    break
