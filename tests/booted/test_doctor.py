"""The doctor in the installed package names what somebody broke (C38, P6, D2); test_package_life has a fresh one."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.booted.system import System, doctor, problems


def fix(checks: dict[str, dict[str, Any]], name: str) -> list[str]:
    return [finding["fix"] for finding in checks[name]["findings"] if finding["level"] == "problem"]


LIMIT = "/etc/systemd/system/amux-hub.service.d/limit.conf"


@pytest.mark.parametrize("limited", [False, True], ids=["as shipped", "with a start limit"])
def test_c38_a_hub_that_does_not_start_is_named_with_the_command(system: System, limited: bool) -> None:
    host = system.machine
    before, good = problems(doctor(host)), host.get("/etc/amux/hub.yaml")

    def active() -> str:
        return host.run("systemctl", "is-active", "amux-hub", check=False).stdout.strip()

    def restarts() -> int:
        return int(host.run("systemctl", "show", "--property=NRestarts", "--value", "amux-hub").stdout)

    try:
        if limited:
            host.run("mkdir", "-p", os.path.dirname(LIMIT))
            host.put(b"[Unit]\nStartLimitIntervalSec=600\nStartLimitBurst=2\n", LIMIT)
            host.run("systemctl", "daemon-reload")
        host.run("systemctl", "stop", "amux-hub")
        host.put(b"log:\n  level: loud\n", "/etc/amux/hub.yaml")
        host.run("systemctl", "start", "--no-block", "amux-hub")
        host.wait("the Hub to fail", lambda: active() == "failed" if limited else restarts() > 0)
        checks = doctor(host)
        assert {"configuration", "units"} <= set(problems(checks))
        assert set(problems(checks)["units"]) & ({"limit", "failed"} if limited else {"restarting"})
        host.put(good, "/etc/amux/hub.yaml")
        for finding in checks["units"]["findings"]:
            if limited and finding["kind"] in ("limit", "failed"):
                host.run("sh", "-c", finding["fix"])
    finally:
        host.put(good, "/etc/amux/hub.yaml")
        host.run("rm", "-f", LIMIT)
        host.run("systemctl", "daemon-reload")
    host.wait("the Hub to run", lambda: active() == "active")
    assert problems(doctor(host)) == before


def test_p6_the_service_file_is_missed(system: System) -> None:
    host = system.machine
    host.run("mv", "/etc/pam.d/amux", "/root/pam")
    checks = doctor(host)
    host.run("mv", "/root/pam", "/etc/pam.d/amux")
    assert problems(checks)["pam-file"] == ["missing"]


def test_d2_d8_a_hostile_tree_is_mended_by_what_is_shown(system: System) -> None:
    host = system.machine
    clean = problems(doctor(host))
    scope = "/var/lib/amux/memory/global"
    plant = f"""
        mkdir -p {scope} && cd {scope}
        mknod device.md c 1 3 && mkfifo fifo.md && ln -s /etc/shadow link.md && ln /etc/shadow linked.md
        echo '# a' > foreign.md && printf '\\377' > bad.md
        chmod 700 . && chmod 600 foreign.md bad.md && chown amux: . bad.md
    """
    host.run("sh", "-ec", plant)
    before = host.run("stat", "-c", "%u %a %s", "/etc/shadow").stdout
    checks = doctor(host)
    assert set(problems(checks)) == {*clean, "store-kinds", "store-owners"}
    for command in {*fix(checks, "store-kinds"), *fix(checks, "store-owners")}:
        host.run("bash", "-ec", command)
    assert problems(doctor(host)) == clean
    assert host.run("stat", "-c", "%u %a %s", "/etc/shadow").stdout == before
    host.run("rm", "-r", scope)
