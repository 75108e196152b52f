"""The doctor in the installed package: content with a fresh one, and it names what somebody broke (C38, P6, D2)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.booted.lab.machine import Machine
from tests.booted.lab.recipe import SUITES

FIRST = "account [acct_expired=bad new_authtok_reqd=bad authtok_expired=bad default=ignore] pam_unix.so"


@pytest.fixture(scope="module", params=SUITES)
def host(request: pytest.FixtureRequest, package: Callable[[str], Path]) -> Iterator[Machine]:
    """A machine of this file's own, its Hub running. Each test mends what it broke."""
    with Machine(request.param, f"{request.param}-doctor-{os.getpid()}") as machine:
        machine.install(package(request.param))
        machine.run("systemctl", "start", "amux-hub")
        yield machine


def doctor(machine: Machine, user: str | None = None) -> dict[str, dict[str, Any]]:
    """The checks by name; the exit status agrees with them."""
    done = machine.run("amux", "doctor", "--json", user=user, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1), done
    return {check["name"]: check for check in report["checks"]}


def problems(checks: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for name, check in checks.items():
        if kinds := [finding["kind"] for finding in check["findings"] if finding["level"] == "problem"]:
            found[name] = kinds
    return found


def fix(checks: dict[str, dict[str, Any]], name: str) -> list[str]:
    return [finding["fix"] for finding in checks[name]["findings"] if finding["level"] == "problem"]


def test_a_fresh_installation_has_no_problem_and_no_warning(host: Machine) -> None:
    checks = doctor(host)
    assert problems(checks) == {}
    assert not [name for name, check in checks.items() if check["outcome"] == "warning"]
    assert not [name for name, check in checks.items() if check["outcome"] == "skipped"], "root sees everything"


def test_an_ordinary_user_sees_no_memory(host: Machine, accounts: Callable[..., Any]) -> None:
    accounts(host, "doris")
    checks = doctor(host, user="doris")
    assert problems(checks) == {}
    assert {checks[name]["outcome"] for name in checks if name.startswith(("store-", "registry-"))} == {"skipped"}


def test_a_run_of_the_doctor_leaves_no_refusal_in_the_audit(host: Machine, accounts: Callable[..., Any]) -> None:
    accounts(host, "doris")
    since = host.run("date", "+%s").stdout.strip()
    for user in (None, "amux", "doris"):
        assert problems(doctor(host, user)) == {}
    # Refusals are written when their second is over: one that is expected shows that all before it are there.
    host.run("amux", "whoami", user=54321, check=False)

    def refused() -> list[tuple[str, ...]]:
        found = host.journal("-u", "amux-hub", "-u", "amux-pam", f"--since=@{since}")
        records = [one for one in found if "AMUX_AUDIT" in one]
        told = [(one["AMUX_AUDIT"], one["AMUX_UID"], one.get("AMUX_OUTCOME") or one["AMUX_CLASS"]) for one in records]
        return [one for one in told if one[2] not in ("ok", "allow")]

    host.wait("the refusal that is expected", refused)
    assert refused() == [("identify", "54321", "identity_refused")]


LIMIT = "/etc/systemd/system/amux-hub.service.d/limit.conf"


@pytest.mark.parametrize("limited", [False, True], ids=["as shipped", "with a start limit"])
def test_c38_a_hub_that_does_not_start_is_named_with_the_command(host: Machine, limited: bool) -> None:
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


def test_p6_the_service_file_is_missed(host: Machine) -> None:
    host.run("mv", "/etc/pam.d/amux", "/root/pam")
    checks = doctor(host)
    host.run("mv", "/root/pam", "/etc/pam.d/amux")
    assert problems(checks)["pam-file"] == ["missing"]


def test_d2_d8_a_hostile_tree_is_mended_by_what_is_shown(host: Machine) -> None:
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
