"""The role of ansible/ on booted hosts over ssh: deployed, deployed again, changed, upgraded, removed; then looked at.

The tests of one host follow each other as its life would: each begins by deploying what it needs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.booted.control import ANSIBLE, Control, Play, programs, variables
from tests.booted.lab.machine import ROOT, Machine

HUB_YAML = "/etc/amux/hub.yaml"
MEMORY = {"amux_hub_memory_enabled": True}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="amux-control-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="module")
def control() -> Iterator[Control]:
    """The administrator of a Debian 12 that is this file's own."""
    with (
        tempfile.TemporaryDirectory(prefix="amux-control-", dir="/tmp") as name,
        Machine("bookworm", f"bookworm-ansible-{os.getpid()}") as machine,
        Control(machine, Path(name)) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def deploy(control: Control, package: Callable[[str], Path]) -> Callable[..., Play]:
    """`deploy(*options, **variables)` on that host, with the package of this tree; the memory is on."""
    file = str(package("bookworm"))

    def run(*options: str, **role: object) -> Play:
        return control.play("deploy.yml", *options, **{"amux_hub_package_file": file, **MEMORY, **role})

    return run


def _process(machine: Machine) -> str:
    return machine.run("systemctl", "show", "amux-hub", "-p", "MainPID", "--value").stdout.strip()


def _running(machine: Machine, key: str) -> str:
    return str(json.loads(machine.run("amux", "system", "config", "get", key, "--json").stdout)["running"])


def _version(machine: Machine) -> str:
    asked = machine.run("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", "amux-hub", check=False)
    return asked.stdout


def _higher(suite: str, out: Path) -> Path:
    """The package of this tree under a higher version."""
    command = [sys.executable, str(ROOT / "packaging" / "build_deb.py"), "--suite", suite, "--version", "9.9"]
    done = subprocess.run([*command, "--out", str(out)], cwd=ROOT, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip().splitlines()[-1])


def test_ansible_lint_passes_at_its_strictest_profile(folder: Path) -> None:
    lint = [*variables(folder), str(programs() / "ansible-lint"), "--offline", "--profile=production", "--nocolor"]
    done = subprocess.run([*lint, "--strict"], cwd=ANSIBLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Profile 'production' was required, and it passed" in done.stderr
    bad = folder / "bad.yml"
    bad.write_text("- hosts: all\n  tasks:\n    - shell: id\n")
    assert subprocess.run([*lint, str(bad)], cwd=folder, capture_output=True, check=False).returncode != 0


def test_deploying_twice_changes_nothing_and_the_host_passes_its_suite_n3(
    control: Control, deploy: Callable[..., Play]
) -> None:
    host = control.machine
    checked = deploy("--check", "--diff")
    assert not checked.failed, checked.output
    assert "Copy the package" in checked.changed
    assert host.run("test", "-e", "/etc/amux", check=False).returncode == 1

    first = deploy()
    assert not first.failed, first.output
    assert {"Install the package", "Write the configuration"} <= set(first.changed)
    assert _running(host, "memory.enabled") == "true"
    again = deploy()
    assert (again.failed, again.changed) == (0, []), again.output
    checked = deploy("--check")
    assert (checked.failed, checked.changed) == (0, []), checked.output

    done = control.suite()
    assert done.returncode == 0, done.stdout + done.stderr
    assert " skipped" not in done.stdout
    # What the suite made up is gone.
    assert json.loads(host.run("amux", "admin", "principals", "list", "--json").stdout)["principals"] == []
    assert "amuxcheck" not in host.run("getent", "passwd").stdout


def test_the_suite_fails_on_a_host_that_is_open(control: Control, deploy: Callable[..., Play]) -> None:
    host = control.machine
    deploy()
    host.run("chmod", "0755", "/var/lib/amux")
    host.run("chmod", "0666", HUB_YAML)
    try:
        done = control.suite("-k", "test_owner_and_mode or closed or doctor")
    finally:
        deploy()
        host.run("chmod", "0700", "/var/lib/amux")
    assert done.returncode == 1, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    for place in (f"root@{host.address}-{HUB_YAML}", f"root@{host.address}-/var/lib/amux", "ls /var/lib/amux", "-w"):
        assert any(place in line for line in failed), (place, failed)
    assert host.run("stat", "-c", "%a", HUB_YAML).stdout == "644\n"


def test_a_change_is_reloaded_or_restarted_as_the_setting_needs(control: Control, deploy: Callable[..., Play]) -> None:
    host = control.machine
    deploy()
    before = _process(host)
    limits = {"amux_hub_limits": {"connections_per_uid": 64}}

    assert deploy("--check", **limits).changed == ["Write the configuration", "Reload amux-hub"]
    assert _running(host, "limits.connections_per_uid") == "128"

    assert deploy(**limits).changed == ["Write the configuration", "Reload amux-hub"]
    host.wait("the new limit", lambda: _running(host, "limits.connections_per_uid") == "64")
    assert _process(host) == before

    good = host.get(HUB_YAML)
    refused = deploy(amux_hub_limits={"connections_per_uid": 0})
    assert refused.failed
    assert "limits.connections_per_uid: found 0, wanted a whole number from 1 to 65536" in refused.output
    assert (host.get(HUB_YAML), _process(host)) == (good, before)

    restarted = deploy(amux_hub_isolation=False, amux_hub_aliases={"ann-admin": "ann"}, amux_hub_services=["games"])
    assert restarted.changed[-1] == "Restart it for what a reload does not change"
    assert _process(host) != before
    wanted = {"isolation": "false", "identity.aliases": "{ann-admin: ann}", "identity.services": "[games]"}
    assert {key: _running(host, key) for key in wanted} == wanted


def test_an_upgrade_brings_the_new_package_and_keeps_the_configuration(
    control: Control, deploy: Callable[..., Play], tmp_path: Path
) -> None:
    host = control.machine
    deploy()
    before, configuration = _process(host), host.get(HUB_YAML)
    role = {"amux_hub_package_file": str(_higher("bookworm", tmp_path)), **MEMORY}
    play = control.play("upgrade.yml", **role)
    assert play.changed == ["Copy the package", "Install the package"], play.output
    assert _version(host) == "installed 9.9+deb12"
    assert host.get(HUB_YAML) == configuration
    assert _process(host) != before
    assert control.play("upgrade.yml", **role).changed == []


def test_a_leaver_is_retired_and_purged_only_when_asked(control: Control, deploy: Callable[..., Play]) -> None:
    host = control.machine
    ann = host.account("ann").name
    write = ("amux", "memory", "upsert", "note.md", "--expected-revision", "absent")
    host.run(*write, user=ann, stdin="mine\n")
    kept = host.run("sh", "-c", "echo /var/lib/amux/memory/users/*/note.md").stdout.strip()
    leaver = {"amux_hub_retire": ann}

    assert control.play("retire-user.yml", **leaver).changed == ["Retire it"]
    assert host.run("amux", "memory", "list", user=ann, check=False).returncode != 0
    assert control.play("retire-user.yml", **leaver).changed == []
    assert host.get(kept) == b"mine\n"
    assert control.play("retire-user.yml", amux_hub_purge=True, **leaver).changed == ["Delete its memory for good"]
    assert host.run("test", "-e", str(Path(kept).parent), check=False).returncode == 1
    gone = control.play("retire-user.yml", amux_hub_purge=True, **leaver)
    assert (gone.failed, gone.changed) == (0, [])
    assert "ann is no principal of this host" in gone.output
    assert control.play("retire-user.yml").failed, "a principal must be named"


def test_removing_keeps_the_memory_and_says_where(control: Control, deploy: Callable[..., Play]) -> None:
    host = control.machine
    ben = host.account("ben").name
    host.run("amux", "memory", "upsert", "note.md", "--expected-revision", "absent", user=ben, stdin="mine\n")
    kept = host.run("sh", "-c", "echo /var/lib/amux/memory/users/*/note.md").stdout.strip()

    play = control.play("remove.yml")
    assert play.changed == ["Remove the package", "Remove the copy of the package"], play.output
    assert "The memory of all users is kept in /var/lib/amux" in play.output
    assert _version(host).startswith("config-files")
    assert host.get(kept) == b"mine\n"
    assert host.run("test", "-e", "/run/amux", check=False).returncode == 1
    assert control.play("remove.yml").changed == []

    back = deploy()
    assert not back.failed, back.output
    assert host.run("amux", "memory", "show", "note.md", user=ben).returncode == 0
    play = control.play("remove.yml", amux_hub_remove_configuration=True)
    assert not play.failed, play.output
    assert host.run("test", "-e", "/etc/amux", check=False).returncode == 1
    assert host.get(kept) == b"mine\n"


def test_debian_13_by_sudo_from_its_own_apt_sources(
    boot: Callable[..., Machine], package: Callable[[str], Path], folder: Path
) -> None:
    host = boot("trixie")
    host.account("deploy")
    host.put(b"deploy ALL=(ALL) NOPASSWD: ALL\n", "/etc/sudoers.d/deploy", 0o440)
    _offer(host, package("trixie"))
    with Control(host, folder, "deploy") as control:
        first = control.play("deploy.yml", **MEMORY)
        assert not first.failed, first.output
        assert "Install from the apt sources of the host" in first.changed
        assert _running(host, "memory.enabled") == "true"
        assert control.play("deploy.yml", **MEMORY).changed == []
        assert "found 0, wanted" in control.play("deploy.yml", amux_hub_limits={"connections": 0}).output
        done = control.suite("--sudo")
        assert done.returncode == 0, done.stdout + done.stderr


def _offer(machine: Machine, deb: Path) -> None:
    """Make a package the only one of the machine's apt sources."""
    machine.run("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; install -d /srv/packages")
    machine.put(deb, f"/srv/packages/{deb.name}")
    fields = machine.run("dpkg-deb", "--field", f"/srv/packages/{deb.name}").stdout.strip()
    digest = machine.run("sha256sum", f"/srv/packages/{deb.name}").stdout.split()[0]
    entry = f"{fields}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
    machine.put(entry.encode(), "/srv/packages/Packages")
    machine.put(b"deb [trusted=yes] file:/srv/packages ./\n", "/etc/apt/sources.list")
