"""The units, what they may reach, and that the Hub answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.host.amux import status

if TYPE_CHECKING:
    from testinfra.host import Host

SOCKETS = ("amux-hub.socket", "amux-mcp.socket", "amux-admin.socket", "amux-pam.socket", "amux-materializer.socket")
SERVICES = ("amux-hub.service", "amux-pam.service", "amux-materializer.service")
RIGHTS = {"amux-materializer.service": 1 << 0 | 1 << 6 | 1 << 7}
"""CAP_CHOWN, CAP_SETGID, CAP_SETUID of capabilities(7); the others have none."""


def _shown(host: Host, unit: str, name: str) -> str:
    return str(host.check_output("systemctl show --property=%s --value %s", name, unit))


def _process(host: Host, unit: str) -> str:
    """The main process of a service that runs by now."""
    host.run_expect([0], "systemctl start %s", unit)
    return _shown(host, unit, "MainPID")


@pytest.mark.parametrize("unit", [*SOCKETS, "amux-hub.service"])
def test_it_is_enabled_and_active(host: Host, unit: str) -> None:
    service = host.service(unit)
    assert service.is_enabled
    assert service.is_running


def test_no_unit_failed_or_differs_from_its_file(host: Host) -> None:
    assert host.check_output("systemctl list-units --failed --plain --no-legend 'amux-*'") == ""
    stale = {unit: _shown(host, unit, "NeedDaemonReload") for unit in (*SOCKETS, *SERVICES)}
    assert set(stale.values()) == {"no"}, stale


def test_the_hub_answers_and_is_the_installed_version(host: Host) -> None:
    found = status(host)
    assert found["reachable"]
    assert found["version"] == found["client_version"], "restart amux-hub after the upgrade"


@pytest.mark.parametrize("unit", SERVICES)
def test_n3_it_listens_on_no_network_and_has_none(host: Host, unit: str) -> None:
    process = _process(host, unit)
    assert f"pid={process}," not in host.check_output("ss -Hlntup")
    own = host.check_output("stat -L -c %%i /proc/%s/ns/net /proc/1/ns/net", process).split()
    assert own[0] != own[1], f"{unit} is in the network of the host"
    assert host.check_output("nsenter --target %s --net ss -Hntua", process) == ""


@pytest.mark.parametrize("unit", SERVICES)
def test_m8_it_has_the_capabilities_that_it_needs_and_gains_none(host: Host, unit: str) -> None:
    text = host.file(f"/proc/{_process(host, unit)}/status").content_string
    found = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert int(found["CapAmb"], 16) == 0
    assert [int(found[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")] == [RIGHTS.get(unit, 0)] * 3
    assert found["NoNewPrivs"] == "1"


def test_the_hub_runs_as_its_account(host: Host) -> None:
    assert host.check_output("stat -c %%U /proc/%s", _process(host, "amux-hub.service")) == "amux"


def test_pam_is_proven_to_work(host: Host) -> None:
    done = host.run("/usr/lib/amux/bin/amux-pam --self-test")
    assert done.rc == 0, done.stdout + done.stderr


def test_the_doctor_finds_no_problem(host: Host) -> None:
    status(host)
    done = host.run("amux doctor --system")
    assert done.rc == 0, done.stdout
