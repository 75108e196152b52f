"""What the interfaces share with the running service: facts to show, and nothing to decide."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

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


_WIDTHS = (1 << 16, 2000, 500, 100, 20)


def fitting(entries: list[T]) -> list[T]:
    """As many as fit a reply, one at least."""
    size, fit = 0, 0
    for entry in entries:
        size += len(strictjson.dumps(entry)) + 1
        if size > REPLY_BUDGET:
            break
        fit += 1
    return entries[: max(fit, 1)]


def shortened(settings: list[T]) -> list[T]:
    """All of them, their texts cut as far as a reply needs: a path can be long, and so can a list of accounts.

    `settings` are mappings; their `key` stays whole.
    """
    for width in _WIDTHS:
        shorter = [
            {
                name: f"{text[: width - 1]}…" if isinstance(text, str) and len(text) > width and name != "key" else text
                for name, text in cast(Mapping[str, object], setting).items()
            }
            for setting in settings
        ]
        if len(strictjson.dumps(shorter)) <= REPLY_BUDGET:
            break
    return cast(list[T], shorter)


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
