"""What systemctl says of our units. It changes nothing and starts nothing."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from amux_hub.doctor.finding import SkippedError

HELPERS = ("amux-pam", "amux-materializer")
"""Each with a socket of its own name."""

SOCKETS = ("amux-hub.socket", "amux-mcp.socket", "amux-admin.socket", *(f"{name}.socket" for name in HELPERS))
SERVICES = ("amux-hub.service", *(f"{name}.service" for name in HELPERS))
_SECONDS = 10


@dataclass(frozen=True)
class Unit:
    """One unit, in the words of org.freedesktop.systemd1(5)."""

    name: str
    load: str
    active: str
    result: str
    file_state: str
    stale: bool
    """Its file changed since systemd read it."""

    restarts: int = 0
    """Starts since somebody asked for one, each after a failure."""

    @property
    def restarting(self) -> bool:
        """Whether it fails and is started again and again."""
        return self.active == "activating" and (self.result not in ("", "success") or self.restarts > 0)


def units(systemctl: str | None) -> dict[str, Unit]:
    """Raises SkippedError where systemd does not run or does not answer."""
    if systemctl is None:
        raise SkippedError("systemd does not run here")
    names = ("Id", "LoadState", "ActiveState", "Result", "UnitFileState", "NeedDaemonReload", "NRestarts")
    command = [systemctl, "show", "--property=" + ",".join(names), "--", *SOCKETS, *SERVICES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SkippedError(f"systemctl gives no answer: {type(error).__name__}") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise SkippedError(f"systemctl gives no answer: {lines[-1][:120]}")
    found = {}
    for block in done.stdout.strip().split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name, load, active, result, state, stale, restarts = (values.get(one, "") for one in names)
        number = int(restarts) if restarts.isdecimal() else 0
        found[name] = Unit(name, load, active, result, state, stale == "yes", number)
    return found
