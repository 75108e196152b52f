"""Telling the service manager: READY, STATUS, RELOADING, STOPPING and the watchdog, sd_notify(3).

Promises: nothing happens without NOTIFY_SOCKET; the variables leave the environment, so that no child inherits
them; a full queue never blocks the loop. `sdnotify` drops a whole message that it cannot encode, so READY is
sent alone and everything is ASCII.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import MutableMapping

import sdnotify

_LONGEST_MICROSECONDS = 1 << 64
"""systemd's own bound, a uint64_t: whatever is longer is no time that anybody waits for."""


class Notifier:
    """Made once, before anything else reads the environment."""

    def __init__(self, env: MutableMapping[str, str] = os.environ) -> None:
        # sdnotify looks at the variable when it is made, and leaks a socket where there is none.
        self._notifier = sdnotify.SystemdNotifier() if env.get("NOTIFY_SOCKET") else None
        if self._notifier is not None and self._notifier.socket is not None:
            self._notifier.socket.setblocking(False)
        self._interval = _watchdog_seconds(env)
        for name in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
            env.pop(name, None)

    @property
    def present(self) -> bool:
        """Whether a service manager listens."""
        return self._notifier is not None

    def ready(self) -> None:
        self._send("READY=1")

    def status(self, text: str) -> None:
        self._send("STATUS=" + text.encode("ascii", "replace").decode().replace("\n", " "))

    def reloading(self) -> None:
        """Followed by `ready`, sd_notify(3): the time is that of CLOCK_MONOTONIC."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def watch(self) -> None:
        """Ping the watchdog from the running loop at half its time, so that a loop that hangs is noticed."""
        if self._interval is not None:
            self._send("WATCHDOG=1")
            asyncio.get_running_loop().call_later(self._interval, self.watch)

    def _send(self, state: str) -> None:
        if self._notifier is not None:
            self._notifier.notify(state)


def _watchdog_seconds(env: MutableMapping[str, str]) -> float | None:
    """Half of WATCHDOG_USEC, if it is meant for this process, sd_watchdog_enabled(3)."""
    try:
        if int(env.get("WATCHDOG_PID") or os.getpid()) != os.getpid():
            return None
        microseconds = int(env.get("WATCHDOG_USEC", "0"))
    except ValueError:
        return None
    return min(microseconds, _LONGEST_MICROSECONDS) / 2_000_000 if microseconds > 0 else None
