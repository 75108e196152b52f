"""The role of ansible/ on booted hosts over ssh: deployed, deployed again, changed, upgraded, removed; then looked at.

The tests of the Debian 12 host stand in the order of its life; each leaves it deployed but the last, which removes it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.booted.control import ANSIBLE, Control, Play, programs, variables
from tests.booted.lab.machine import Machine
from tests.booted.packages import HIGHER

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


@dataclass(frozen=True)
class Site:
    """A host that was deployed with the package of this tree and the memory on, and how that went."""

    control: Control
    role: dict[str, object]
    checked: Play
    first: Play

    @property
    def host(self) -> Machine:
        return self.control.machine

    def deploy(self, *options: str, **role: object) -> Play:
        """The same once more, or with other variables."""
        return self.control.play("deploy.yml", *options, **{**self.role, **role})


@pytest.fixture(scope="module")
def site(control: Control, package: Callable[[str], Path]) -> Site:
    """A test leaves it deployed as it was."""
    role: dict[str, object] = {"amux_hub_package_file": str(package("bookworm")), **MEMORY}
    checked = control.play("deploy.yml", "--check", "--diff", **role)
    assert control.machine.run("test", "-e", "/etc/amux", check=False).returncode == 1, "a check installed something"
    return Site(control, role, checked, control.play("deploy.yml", **role))


def _process(machine: Machine) -> str:
    return machine.run("systemctl", "show", "amux-hub", "-p", "MainPID", "--value").stdout.strip()


def _running(machine: Machine, key: str) -> str:
    return str(json.loads(machine.run("amux", "system", "config", "get", key, "--json").stdout)["running"])


def _version(machine: Machine) -> str:
    asked = machine.run("dpkg-query", "--show", "--showformat=${db:Status-Status} ${Version}", "amux-hub", check=False)
    return asked.stdout


def test_ansible_lint_passes_at_its_strictest_profile(folder: Path) -> None:
    lint = [*variables(folder), str(programs() / "ansible-lint"), "--offline", "--profile=production", "--nocolor"]
    done = subprocess.run([*lint, "--strict"], cwd=ANSIBLE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Profile 'production' was required, and it passed" in done.stderr
    bad = folder / "bad.yml"
    bad.write_text("- hosts: all\n  tasks:\n    - shell: id\n")
    assert subprocess.run([*lint, str(bad)], cwd=folder, capture_output=True, check=False).returncode != 0


def test_deploying_twice_changes_nothing_and_the_host_passes_its_suite_n3(site: Site) -> None:
    assert not site.checked.failed, site.checked.output
    assert "Copy the package" in site.checked.changed
    assert not site.first.failed, site.first.output
    assert {"Install the package", "Write the configuration"} <= set(site.first.changed)
    assert _running(site.host, "memory.enabled") == "true"
    again = site.deploy()
    assert (again.failed, again.changed) == (0, []), again.output

    done = site.control.suite()
    assert done.returncode == 0, done.stdout + done.stderr
    assert " skipped" not in done.stdout
    # What the suite made up is gone.
    assert json.loads(site.host.run("amux", "admin", "principals", "list", "--json").stdout)["principals"] == []
    assert "amuxcheck" not in site.host.run("getent", "passwd").stdout


def test_the_suite_fails_on_a_host_that_is_open(site: Site) -> None:
    modes = {"/var/lib/amux": ("0755", "0700"), HUB_YAML: ("0666", "0644")}
    for path, (wrong, _) in modes.items():
        site.host.run("chmod", wrong, path)
    try:
        done = site.control.suite("-k", "test_owner_and_mode or closed or doctor")
    finally:
        for path, (_, right) in modes.items():
            site.host.run("chmod", right, path)
    failed = re.findall(r"^tests/host/(\S+\[.*\]) FAILED", done.stdout, re.MULTILINE)
    assert len(failed) == 5, done.stdout
    for place in (f"mode[ssh://{site.host.address}-{HUB_YAML}]", "-/var/lib/amux]", "-ls /var/lib/amux]", "-test -w "):
        assert any(place in name for name in failed), (place, failed)


def test_a_change_is_reloaded_or_restarted_as_the_setting_needs(site: Site) -> None:
    host, before, as_it_was = site.host, _process(site.host), site.host.get(HUB_YAML)
    limits = {"connections_per_uid": 64}

    checked = site.deploy("--check", amux_hub_limits=limits)
    assert checked.changed == ["Write the configuration", "Reload amux-hub"], checked.output
    assert _running(host, "limits.connections_per_uid") == "128"

    changed = site.deploy(amux_hub_limits=limits)
    assert changed.changed == ["Write the configuration", "Reload amux-hub"], changed.output
    host.wait("the new limit", lambda: _running(host, "limits.connections_per_uid") == "64")
    assert _process(host) == before

    good = host.get(HUB_YAML)
    refused = site.deploy(amux_hub_limits={"connections_per_uid": 0})
    assert refused.failed
    assert "limits.connections_per_uid: found 0, wanted a whole number from 1 to 65536" in refused.output
    assert (host.get(HUB_YAML), _process(host)) == (good, before)

    other = {"amux_hub_aliases": {"ann-admin": "ann"}, "amux_hub_services": ["games"], "amux_hub_memory_enabled": None}
    restarted = site.deploy(**other)
    assert restarted.changed[-1] == "Restart it for what a reload does not change", restarted.output
    assert _process(host) != before
    wanted = {"memory.enabled": "false", "identity.aliases": "{ann-admin: ann}", "identity.services": "[games]"}
    assert {key: _running(host, key) for key in wanted} == wanted
    host.put(as_it_was, HUB_YAML)
    host.run("systemctl", "restart", "amux-hub")


def test_an_upgrade_brings_the_new_package_and_keeps_the_configuration(
    site: Site, higher: Callable[[str], Path]
) -> None:
    """And enables what somebody disabled."""
    host = site.host
    before, configuration = _process(host), host.get(HUB_YAML)
    host.run("systemctl", "disable", "amux-mcp.socket")
    role = {**site.role, "amux_hub_package_file": str(higher("bookworm"))}
    play = site.control.play("upgrade.yml", **role)
    assert play.changed == ["Copy the package", "Install the package", "Enable the sockets"], play.output
    assert host.run("systemctl", "is-enabled", "amux-mcp.socket").stdout == "enabled\n"
    assert _version(host) == f"installed {HIGHER}+deb12"
    assert json.loads(host.run("amux", "status", "--json").stdout)["version"] == HIGHER
    assert host.get(HUB_YAML) == configuration
    assert _process(host) != before


def test_a_leaver_is_retired_and_purged_only_when_asked(site: Site) -> None:
    host, control = site.host, site.control
    ann = host.account("ann").name
    write = ("amux", "memory", "upsert", "note.md", "--expected-revision", "absent")
    host.run(*write, user=ann, stdin="mine\n")
    kept = host.run("sh", "-c", "echo /var/lib/amux/memory/users/*/note.md").stdout.strip()
    leaver = {"amux_hub_retire": ann}

    assert control.play("retire-user.yml", **leaver).changed == ["Retire it"]
    assert host.run("amux", "memory", "list", user=ann, check=False).returncode != 0
    assert host.get(kept) == b"mine\n"
    # The second run retires nobody again.
    assert control.play("retire-user.yml", amux_hub_purge=True, **leaver).changed == ["Delete its memory for good"]
    assert host.run("test", "-e", str(Path(kept).parent), check=False).returncode == 1
    gone = control.play("retire-user.yml", amux_hub_purge=True, **leaver)
    assert (gone.failed, gone.changed) == (0, [])
    assert "ann is no principal of this host" in gone.output
    assert control.play("retire-user.yml").failed, "a principal must be named"


def test_removing_keeps_the_memory_and_says_where(site: Site) -> None:
    host, control = site.host, site.control
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

    back = site.deploy()
    assert not back.failed, back.output
    assert host.run("amux", "memory", "show", "note.md", user=ben).returncode == 0
    play = control.play("remove.yml", amux_hub_remove_configuration=True)
    assert not play.failed, play.output
    assert host.run("test", "-e", "/etc/amux", check=False).returncode == 1
    assert host.get(kept) == b"mine\n"


def test_debian_13_by_sudo_from_its_own_apt_sources(
    boot: Callable[..., Machine], package: Callable[[str], Path], higher: Callable[[str], Path], folder: Path
) -> None:
    """Only upgrade.yml takes what is newer there: amux_hub_package_state is `present` in deploy.yml, `latest` in it."""
    host = boot("trixie")
    host.account("deploy")
    host.put(b"deploy ALL=(ALL) NOPASSWD: ALL\n", "/etc/sudoers.d/deploy", 0o440)
    host.run("sh", "-c", "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; install -d /srv/packages")
    host.put(b"deb [trusted=yes] file:/srv/packages ./\n", "/etc/apt/sources.list")
    _offer(host, package("trixie"))
    with Control(host, folder, "deploy") as control:
        first = control.play("deploy.yml", **MEMORY)
        assert not first.failed, first.output
        assert "Install from the apt sources of the host" in first.changed
        assert _running(host, "memory.enabled") == "true"
        done = control.suite("--sudo")
        assert done.returncode == 0, done.stdout + done.stderr

        _offer(host, higher("trixie"))
        again = control.play("deploy.yml", **MEMORY)
        assert (again.failed, again.changed) == (0, []), again.output
        newest = control.play("upgrade.yml", **MEMORY)
        assert newest.changed == ["Install from the apt sources of the host"], newest.output
        assert _version(host) == f"installed {HIGHER}+deb13"
        assert json.loads(host.run("amux", "status", "--json").stdout)["version"] == HIGHER


def _offer(machine: Machine, deb: Path) -> None:
    """Put a package into the archive that is the only one of the machine's apt sources."""
    machine.put(deb, f"/srv/packages/{deb.name}")
    fields = machine.run("dpkg-deb", "--field", f"/srv/packages/{deb.name}").stdout.strip()
    digest = machine.run("sha256sum", f"/srv/packages/{deb.name}").stdout.split()[0]
    entry = f"{fields}\nFilename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"
    machine.run("sh", "-c", "cat >>/srv/packages/Packages; echo >>/srv/packages/Packages", stdin=entry)
