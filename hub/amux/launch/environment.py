"""What the agent's environment is: the caller's own, less what belongs to services or other launches.

Design: an agent finds its own home and nobody else's, the launch's `amux` and no other launch's, and no trace of the
service manager that may have started us. Duplicates are gone because Python's `os.environ` holds each name once, the
first. docs/reference/launch.md lists every variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from amux.errors import AmuxError

SERVICE = frozenset(
    "LISTEN_FDS LISTEN_FDNAMES LISTEN_PID LISTEN_PIDFDID NOTIFY_SOCKET WATCHDOG_PID WATCHDOG_USEC FDSTORE MAINPID "
    "MANAGERPID MANAGERPIDFDID INVOCATION_ID JOURNAL_STREAM SYSTEMD_EXEC_PID CREDENTIALS_DIRECTORY RUNTIME_DIRECTORY "
    "STATE_DIRECTORY CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY MEMORY_PRESSURE_WATCH "
    "MEMORY_PRESSURE_WRITE SERVICE_RESULT EXIT_CODE EXIT_STATUS MONITOR_SERVICE_RESULT MONITOR_EXIT_CODE "
    "MONITOR_EXIT_STATUS MONITOR_INVOCATION_ID MONITOR_UNIT REMOTE_ADDR REMOTE_PORT TRIGGER_UNIT TRIGGER_PATH "
    "TRIGGER_TIMER_REALTIME_USEC TRIGGER_TIMER_MONOTONIC_USEC LOG_NAMESPACE".split()
)
"""What systemd.exec(5), sd_listen_fds(3) and sd_notify(3) set for a service."""

OURS = "AMUX_"
"""Every variable of this product is taken away and set anew."""
WHICH_HUB = ("AMUX_HUB", "AMUX_HOME")
"""These stay in a launch without memory: the person's own setting up of an agent may rely on them."""

HOMES = {"CODEX_HOME": ".codex", "PI_CODING_AGENT_DIR": ".pi/agent"}
"""Set to the default of the launch's home: name → place below it."""
UNSET = ("CLAUDE_CONFIG_DIR",)
"""Taken away, so that the default of the launch's home holds: set, Claude Code moves `.claude.json` into it."""

PRIVATE = frozenset(
    "PATH SHELL USER LOGNAME TERM COLORTERM TERM_PROGRAM TERM_PROGRAM_VERSION NO_COLOR FORCE_COLOR LANG LANGUAGE TZ "
    "LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_MONETARY LC_NUMERIC LC_TIME PWD OLDPWD SHLVL COLUMNS LINES".split()
)
"""All that a private home's launch keeps of the caller's environment, besides what is listed with the launch."""


def own(environ: Mapping[str, str], keep: Sequence[str] = ()) -> dict[str, str]:
    """The caller's environment without the variables of services and of other launches, but for those to `keep`."""
    return {
        name: value
        for name, value in environ.items()
        if name in keep or (name not in SERVICE and not name.startswith(OURS))
    }


def private(environ: Mapping[str, str], home: str, listed: Sequence[str]) -> dict[str, str]:
    """For a private home: what PRIVATE and the list name, and the home. Raises `invalid_argument`."""
    kept = own(environ)
    for name in listed:
        if name not in kept:
            raise AmuxError(
                "invalid_argument",
                f"--credential-variable {name}: it is not set, or not one to be passed on",
                found=name,
            )
    kept = {name: value for name, value in kept.items() if name in PRIVATE or name in listed}
    return {**kept, "HOME": home}


def homes(environ: Mapping[str, str], home: str) -> tuple[dict[str, str], list[str]]:
    """The environment with the agents' homes at their defaults, and the names whose value changed by that."""
    fixed = {name: os.path.join(home, place) for name, place in HOMES.items()}
    kept = {name: value for name, value in environ.items() if name not in UNSET}
    changed = [name for name, value in fixed.items() if os.path.normpath(environ.get(name) or value) != value]
    changed += [name for name in UNSET if environ.get(name)]
    return {**kept, **fixed}, changed


def first_on_path(environ: Mapping[str, str], directory: str) -> dict[str, str]:
    rest = [entry for entry in environ.get("PATH", os.defpath).split(os.pathsep) if entry != directory]
    return {**environ, "PATH": os.pathsep.join([directory, *rest])}


def last_on_path(environ: Mapping[str, str], directory: str) -> dict[str, str]:
    path = environ.get("PATH", os.defpath).split(os.pathsep)
    return {**environ, "PATH": os.pathsep.join(path if directory in path else [*path, directory])}
