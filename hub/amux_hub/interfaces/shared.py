"""What the interfaces share with the running service: facts to show, and nothing to decide."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amux_hub import config
from amux_hub.administration import Administration
from amux_hub.admission import Admission
from amux_hub.config import Config, ConfigError

if TYPE_CHECKING:
    from amux_hub.memory import Memory


@dataclass
class Shared:
    """One for the whole process. `running` is what is in force, which a saved setting need not be."""

    config: Config
    running: dict[str, Any]
    memory: Memory
    admission: Admission
    administration: Administration
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
