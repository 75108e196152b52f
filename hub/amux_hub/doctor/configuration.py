"""The configuration: what check-config says, isolation, the switch."""

from __future__ import annotations

from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError, count, shell
from amux_hub.doctor.host import Host


def _configuration(host: Host, findings: Findings) -> str:
    file = host.config.file
    again = f"amux-hub {'--system ' if host.system else ''}check-config {shell(file)}"
    for problem in host.problems:
        what = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
        if problem.key:
            what += f", {problem.key}"
        findings.problem("configuration", what, problem.found, problem.wanted, f"correct it, then: {again}")
    if host.unseen:
        findings.unseen(host.unseen, f"only root and {host.owner_name} may read it")
    return f"{file}: {count(len(host.config.pinned), 'key')} set, the rest by default"


def _isolation(host: Host, findings: Findings) -> str:
    configured = bool(host.config["isolation"])
    if host.system and not configured:
        findings.warning(
            "off",
            f"{host.config.file}, isolation",
            "false: all accounts of this host read and write one memory",
            "true: a memory for every person",
            f"set isolation: true in {shell(host.config.file)}, then: {host.restart}",
        )
    try:
        running = host.running.status.get("isolation")
    except (SkippedError, OSError, ValueError):
        running = None
    if isinstance(running, bool) and running != configured:
        findings.warning(
            "differs", "isolation", f"{_word(running)} in the running Hub, {_word(configured)} in its files",
            "the same", host.restart,
        )  # fmt: skip
    return f"{_word(configured)}: {'a memory for every person' if configured else 'one memory, global'}"


def _switch(host: Host, findings: Findings) -> str:
    saved = bool(host.config["memory.enabled"])
    if host.unseen:
        try:
            saved = bool(host.running.status["memory_enabled_saved"])
        except (KeyError, SkippedError, OSError, ValueError):
            findings.unseen("memory.enabled", "what is saved cannot be read")
            return "unknown"
    if not saved:
        prefix = host.sudo if host.system else ""
        found = f"off: every operation on memory is refused ({host.config.source('memory.enabled')})"
        fix = f"{prefix}amux system config set memory.enabled true, then: {host.restart}"
        findings.note("off", "memory.enabled", found, "on, if memory is wanted", fix)
    try:
        running = host.running.status.get("memory_enabled_running")
    except SkippedError as reason:
        return f"saved: {_word(saved)}; {reason}"
    except (OSError, ValueError):
        return f"saved: {_word(saved)}; the Hub does not answer"
    if not isinstance(running, bool):
        findings.unseen("the running Hub", host.running.refusal or "it does not say")
        return f"saved: {_word(saved)}"
    if running != saved:
        findings.note("differs", "memory.enabled", f"saved {_word(saved)}, running {_word(running)}", "", host.restart)
    return f"saved: {_word(saved)}, running: {_word(running)}"


def _word(value: bool) -> str:
    return "on" if value else "off"


CHECKS = (Check("configuration", _configuration), Check("isolation", _isolation), Check("switch", _switch))
