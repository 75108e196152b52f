"""What the interfaces share with the running service: facts to show, and nothing to decide."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from amux import limits
from amux_hub import config
from amux_hub.administration import Administration
from amux_hub.admission import Admission
from amux_hub.config import Config, ConfigError
from amux_hub.sessions import Sessions
from amux_hub.wire import strictjson

if TYPE_CHECKING:
    from amux_hub.memory import Memory

T = TypeVar("T")
REPLY_BUDGET = limits.REPLY_BYTES - 512
"""What the entries of one page may take, the rest of the reply being small."""


def fitting(entries: list[T]) -> list[T]:
    """As many as fit a reply, one at least."""
    size, fit = 0, 0
    for entry in entries:
        size += len(strictjson.dumps(entry)) + 1
        if size > REPLY_BUDGET:
            break
        fit += 1
    return entries[: max(fit, 1)]


@dataclass
class Shared:
    """One for the whole process. `running` is what is in force, which a saved setting need not be."""

    config: Config
    running: dict[str, Any]
    memory: Memory
    admission: Admission
    administration: Administration
    sessions: Sessions
    started: float = field(default_factory=time.monotonic)
    saving: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a setting is saved: two at once would lose one."""

    async def configured(self) -> Config:
        """What the files say at this moment, which is what the next start will use. Raises ConfigError."""
        return await asyncio.to_thread(config.reload, self.config)

    async def configured_or_running(self) -> Config:
        try:
            return await self.configured()
        except ConfigError:
            return self.config
