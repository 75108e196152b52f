"""The account, and who owns and may write what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testinfra.host import Host

PLACES = [
    ("/etc/amux", "directory", "root", 0o755),
    ("/etc/amux/hub.yaml", "file", "root", 0o644),
    ("/etc/pam.d/amux", "file", "root", 0o644),
    ("/usr/bin/amux", "file", "root", 0o755),
    ("/usr/lib/amux", "directory", "root", 0o755),
    ("/usr/lib/amux/bin/amux-hub", "file", "root", 0o755),
    ("/usr/lib/amux/bin/amux-pam", "file", "root", 0o755),
    ("/usr/lib/amux/bin/amux-materializer", "file", "root", 0o755),
    ("/usr/lib/amux/launch-bin", "directory", "root", 0o755),
    ("/usr/lib/amux/launch-bin/amux", "file", "root", 0o755),
    ("/usr/lib/amux/amux.pyz", "file", "root", 0o644),
    ("/var/lib/amux", "directory", "amux", 0o700),
    ("/run/amux", "directory", "root", 0o755),
    ("/run/amux/hub.sock", "socket", "root", 0o666),
    ("/run/amux/mcp.sock", "socket", "root", 0o666),
    ("/run/amux/admin.sock", "socket", "root", 0o600),
    ("/run/amux/pam.sock", "socket", "amux", 0o600),
    ("/run/amux/launch.sock", "socket", "root", 0o666),
]


def test_the_package_is_installed(host: Host) -> None:
    assert host.package("amux-hub").is_installed


def test_no_program_or_unit_differs_from_the_package(host: Host) -> None:
    lines = host.run("dpkg --verify amux-hub").stdout.splitlines()
    # Files of /etc are the administrator's, and pages may be left out on purpose, dpkg(1) path-exclude.
    assert [line for line in lines if "/usr/lib/" in line or "/usr/bin/" in line] == []


def test_the_account_belongs_to_no_person_and_has_no_further_group(host: Host) -> None:
    account = host.user("amux")
    assert account.exists
    assert 0 < account.uid < 1000
    assert account.home == "/var/lib/amux"
    assert account.shell.endswith(("/nologin", "/false"))
    assert account.groups == ["amux"]
    assert host.group("amux").members == []
    assert host.run("passwd --status amux").stdout.split()[1] == "L"


@pytest.mark.parametrize(("path", "kind", "owner", "mode"), PLACES, ids=[place[0] for place in PLACES])
def test_owner_and_mode(host: Host, path: str, kind: str, owner: str, mode: int) -> None:
    names = {"directory": "directory", "file": "regular file", "socket": "socket"}
    found = host.check_output("stat -c '%%F %%U:%%G %%a' %s", path)
    assert found == f"{names[kind]} {owner}:{owner} {mode:o}"


def test_nobody_but_root_can_change_what_runs(host: Host) -> None:
    wrong = host.check_output("find /usr/lib/amux /etc/amux '(' ! -user root -o -perm /022 ')' ! -type l -print -quit")
    assert wrong == ""


def test_run_directories_are_a_file_system_of_their_own(host: Host) -> None:
    host.run_expect([0], "systemctl start amux-materializer.service")
    assert host.check_output("stat -c '%F %U %a' /run/amux-launches") == "directory root 711"
    options = set(host.check_output("findmnt -no FSTYPE,OPTIONS /run/amux-launches").replace(" ", ",").split(","))
    assert {"tmpfs", "nosuid", "nodev", "noexec"} <= options


def test_all_memory_belongs_to_the_account(host: Host) -> None:
    assert host.check_output("find /var/lib/amux ! -user amux -print -quit") == ""


def test_the_configuration_is_right(host: Host) -> None:
    done = host.run("/usr/lib/amux/bin/amux-hub --system check-config")
    assert done.rc == 0, done.stderr


def test_pam_is_asked_by_a_file_with_an_account_rule(host: Host) -> None:
    lines = host.file("/etc/pam.d/amux").content_string.splitlines()
    rules = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    assert any(rule[0] == "account" or rule == ["@include", "common-account"] for rule in rules)
