"""The checks of the memory itself. One walk serves them all."""

from __future__ import annotations

import os
from collections.abc import Callable

from amux_hub.doctor import survey as surveys
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError, count, shell
from amux_hub.doctor.host import Host


def _survey(host: Host) -> surveys.Survey:
    host.need_home()
    return host.walked


def _scopes(host: Host, findings: Findings) -> str:
    survey = _survey(host)
    _take(survey, "store-scopes", findings)
    for label in survey.late:
        findings.unseen(label, f"{surveys.SECONDS:g} s were over before all of it was looked at")
    return (
        f"{count(survey.scopes, 'scope')}, {count(survey.documents, 'document')}, {count(survey.size, 'byte')}"
    )


def _told(name: str, what: str) -> Callable[[Host, Findings], str]:
    """A check that tells what the walk found under its name."""

    def run(host: Host, findings: Findings) -> str:
        survey = _survey(host)
        _take(survey, name, findings)
        return what if not survey.late else f"{what}, as far as was looked"

    return run


def _take(survey: surveys.Survey, name: str, findings: Findings) -> None:
    findings.kept += survey.findings[name].kept
    findings.counts.update(survey.findings[name].counts)


def _lock(host: Host, findings: Findings) -> str:
    path = os.path.join(host.need_home(), "memory", surveys.LOCK)
    holders = surveys.lock_holders(host.places.proc, path)
    try:
        pid = host.running.status.get("pid")
    except (SkippedError, OSError, ValueError):
        pid = None
    restart = host.restart
    if len(holders) > 1:
        found = f"held by the processes {', '.join(map(str, holders))}"
        findings.problem("many", path, found, "one Hub", f"stop all but one: ps {' '.join(map(str, holders))}")
    elif isinstance(pid, int) and not holders:
        found = f"the Hub that answers (pid {pid}) does not hold it: the tree was replaced while it ran"
        findings.problem("lost", path, found, f"held by pid {pid}", restart)
    elif isinstance(pid, int) and holders != [pid]:
        found = f"held by pid {holders[0]}, and the Hub that answers is pid {pid}"
        findings.problem("other", path, found, "one Hub for this home", f"ps {holders[0]} {pid}; then {restart}")
    elif holders and pid is None:
        findings.note("silent", path, f"held by pid {holders[0]}; no Hub was asked who it is", "", f"ps {holders[0]}")
    return f"held by pid {holders[0]}" if holders else f"{shell(path)} is free"


_WALK = surveys.SECONDS + 60

CHECKS = (
    Check("store-scopes", _scopes, _WALK),
    Check("store-lock", _lock),
    Check("store-marks", _told("store-marks", "whose each memory is, as it says itself"), _WALK),
    Check("store-kinds", _told("store-kinds", "links, devices, FIFOs, sockets"), _WALK),
    Check("store-owners", _told("store-owners", "whose everything is"), _WALK),
    Check("store-modes", _told("store-modes", "directories 0700, files 0600"), _WALK),
    Check("store-readable", _told("store-readable", "what the Hub may read"), _WALK),
    Check("store-names", _told("store-names", "names of files and directories"), _WALK),
    Check("store-twins", _told("store-twins", "names that differ only in case or form"), _WALK),
    Check("store-text", _told("store-text", "documents in UTF-8"), _WALK),
    Check("store-limits", _told("store-limits", "sizes of documents and of memories"), _WALK),
    Check("store-temporary", _told("store-temporary", "what crashes left"), _WALK),
    Check("memory-pointers", _told("memory-pointers", "documents that MEMORY.md names"), _WALK),
)
