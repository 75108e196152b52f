"""The units of a system Hub: present, enabled, not failed (C38)."""

from __future__ import annotations

from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings
from amux_hub.doctor.host import Host
from amux_hub.doctor.systemd import HELPERS, SERVICES, SOCKETS, Unit

_STARTED_TOO_OFTEN = {"start-limit-hit", "trigger-limit-hit", "service-start-limit-hit"}


def _units(host: Host, findings: Findings) -> str:
    units = host.units
    sudo = f"{host.sudo}systemctl"
    for name in (*SOCKETS, *SERVICES):
        unit = units.get(name)
        if unit is None or unit.load == "not-found":
            findings.problem("missing", name, "no such unit", "installed", f"{sudo} daemon-reload")
        elif unit.load == "masked":
            findings.problem("masked", name, "masked: it cannot be started", "unmasked", f"{sudo} unmask {name}")
        elif unit.load != "loaded":
            findings.problem("load", name, unit.load, "loaded", f"systemctl status {name}")
        else:
            _state(unit, host, findings)
    return ", ".join(f"{name} {units[name].active}" for name in SERVICES if name in units)


def _state(unit: Unit, host: Host, findings: Findings) -> None:
    name, sudo = unit.name, f"{host.sudo}systemctl"
    if unit.active == "failed":
        stem = name.rpartition(".")[0]
        pair = stem if stem in HELPERS else "amux-hub"
        both = f"{pair}.service {name if name.endswith('.socket') else pair + '.socket'}"
        start = f"{sudo} reset-failed {both} && {sudo} start {both}"
        if unit.result in _STARTED_TOO_OFTEN:
            wanted = "active; find the cause first: journalctl -u " + pair
            findings.problem("limit", name, f"failed: started too often ({unit.result})", wanted, start)
        else:
            findings.problem("failed", name, f"failed ({unit.result})", f"active; see journalctl -u {pair}", start)
    elif name.endswith(".socket"):
        if unit.active != "active":
            findings.problem("inactive", name, unit.active, "active", f"{sudo} enable --now {name}")
        elif unit.file_state == "disabled":
            findings.warning("disabled", name, "not started at boot", "enabled", f"{sudo} enable {name}")
    elif unit.restarting:
        pair = name.removesuffix(".service")
        fix = f"mend what it says, then: {sudo} restart {name}; it says: journalctl -u {pair} -n 20"
        findings.problem("restarting", name, "ends and is started again and again", "active", fix)
    elif unit.active == "inactive":
        findings.note("inactive", name, "not running; the first connection starts it")
    if unit.stale:
        findings.warning("stale", name, "changed on disk since systemd read it", "", f"{sudo} daemon-reload")


CHECKS = (Check("units", _units),)
