"""The units hold together: systemd accepts them, the confinement is as tight as promised, names agree with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from amux import endpoint
from amux.launch import materializer
from amux_hub import sockets, verdicts
from amux_hub.keys import KEYS
from amux_materializer import __main__ as launches
from amux_materializer import child
from amux_materializer import manager as launch_manager
from amux_materializer import server as launch_server
from amux_pam import manager, server
from tests.systemd.units import SYSTEM_UNITS, SYSTEMD, directives, value, values

SOCKETS = ("hub", "mcp", "admin")
EXPOSURE_TENTHS = {"amux-hub.service": 8, "amux-pam.service": 8, "amux-materializer.service": 14}
"""systemd-analyze security counts exposure from 0 (best) to 100; 8 is 0.8 as it prints it."""


def _analyze(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["systemd-analyze", *arguments], cwd=cwd, capture_output=True, text=True, check=False)


def _copies(directory: Path) -> list[str]:
    """The system's units as an installed host has them: their programs exist."""
    for name in SYSTEM_UNITS:
        text = (SYSTEMD / name).read_text(encoding="utf-8")
        (directory / name).write_text(re.sub(r"/usr/lib/amux/bin/[\w-]+", "/bin/true", text), encoding="utf-8")
    return [f"./{name}" for name in SYSTEM_UNITS]


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    done = _analyze("verify", "--man=no", *_copies(tmp_path), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_accepts_the_units_of_a_user(tmp_path: Path) -> None:
    text = (SYSTEMD / "user" / "amux-hub.service").read_text(encoding="utf-8")
    (tmp_path / "amux-hub.service").write_text(text.replace("/usr/lib/amux/bin/amux-hub", "/bin/true"))
    done = _analyze("verify", "--user", "--man=no", "./amux-hub.service", cwd=tmp_path)
    assert "amux-hub.service" not in done.stderr


def test_verify_finds_a_mistake(tmp_path: Path) -> None:
    names = _copies(tmp_path)
    with (tmp_path / "amux-hub.socket").open("a") as unit:
        unit.write("[Socket]\nSocketMoed=0666\n")
    assert "SocketMoed" in _analyze("verify", "--man=no", *names, cwd=tmp_path).stderr


@pytest.mark.parametrize("name", EXPOSURE_TENTHS)
def test_n6_the_confinement_is_as_tight_as_promised(tmp_path: Path, name: str) -> None:
    _copies(tmp_path)
    command = ["security", "--offline=true", f"--threshold={EXPOSURE_TENTHS[name]}", f"./{name}"]
    done = _analyze(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    unit = tmp_path / name
    unit.write_text(re.sub("CapabilityBoundingSet=.*\n", "", unit.read_text()))
    assert _analyze(*command, cwd=tmp_path).returncode != 0


def test_sockets_stand_where_clients_look_and_bear_the_names_that_the_hub_knows() -> None:
    assert set(sockets.NAMES) == set(SOCKETS) == set(endpoint.SOCKETS)
    for name in SOCKETS:
        unit = f"amux-{name}.socket"
        assert value(unit, "ListenStream") == f"{endpoint.SYSTEM_DIRECTORY}/{endpoint.SOCKETS[name]}"
        assert value(unit, "FileDescriptorName") == name
        assert value(unit, "Service") == "amux-hub.service"
        assert value(unit, "SocketMode") == ("0600" if name == "admin" else "0666")
        assert value(unit, "SocketUser") == "root"


def test_the_service_takes_all_sockets_and_brings_them_along() -> None:
    units = {f"amux-{name}.socket" for name in SOCKETS}
    for name in ("Sockets", "Requires", "Also"):
        assert set(value("amux-hub.service", name).split()) == units
    assert units <= set(value("amux-hub.service", "After").split())


def test_the_socket_of_the_helper_is_where_the_hub_asks_and_the_hubs_alone() -> None:
    unit = "amux-pam.socket"
    assert value(unit, "ListenStream") == verdicts.SOCKET
    assert value(unit, "FileDescriptorName") == manager.NAME
    assert (value(unit, "SocketMode"), value(unit, "SocketUser")) == ("0600", value("amux-hub.service", "User"))
    assert value("amux-pam.service", "Requires") == unit == value("amux-pam.service", "Also")
    assert unit in value("amux-hub.service", "Wants").split()


def test_the_helper_is_root_without_a_right_and_outlives_its_verdicts() -> None:
    unit = "amux-pam.service"
    assert not values(unit, "User")
    assert value(unit, "CapabilityBoundingSet") == value(unit, "AmbientCapabilities") == ""
    assert value(unit, "ProtectSystem") == "strict" and not values(unit, "ReadWritePaths")
    assert value(unit, "RestrictAddressFamilies") == "AF_UNIX"
    assert {"-/run/dbus", "-/run/systemd/private"} <= set(" ".join(values(unit, "InaccessiblePaths")).split())
    assert value(unit, "KillMode") == "mixed"
    # pam_unix since PAM 1.6: setuid(0), then its checker; without either it refuses every local account.
    assert "setuid" in values(unit, "SystemCallFilter")
    assert "/usr/sbin/unix_chkpwd" in value(unit, "ExecPaths").split()
    assert int(value(unit, "TimeoutStopSec")) > server.VERDICT_SECONDS
    assert int(value(unit, "LimitNOFILE")) > 2 * server.CONNECTIONS
    assert int(value(unit, "TasksMax")) > 2 * server.AT_ONCE


def test_the_socket_of_launches_is_where_the_client_looks_and_everybodys() -> None:
    unit = "amux-materializer.socket"
    assert value(unit, "ListenStream") == materializer.SOCKET
    assert value(unit, "FileDescriptorName") == launch_manager.NAME
    assert (value(unit, "SocketMode"), value(unit, "SocketUser")) == ("0666", "root")
    assert value("amux-materializer.service", "Requires") == unit == value("amux-materializer.service", "Also")


def test_m8_the_helper_of_launches_has_three_rights_and_no_way_to_more() -> None:
    unit = "amux-materializer.service"
    assert not values(unit, "User")
    assert value(unit, "CapabilityBoundingSet").split() == ["CAP_SETUID", "CAP_SETGID", "CAP_CHOWN"]
    assert value(unit, "AmbientCapabilities") == ""
    assert (value(unit, "ProtectSystem"), value(unit, "ProtectHome")) == ("strict", "yes")
    assert values(unit, "ReadWritePaths") == [launches.LAUNCHES] == values(unit, "RequiresMountsFor")
    closed = set(" ".join(values(unit, "InaccessiblePaths")).split())
    assert {"-/run/dbus", "-/run/systemd/private", "-/run/amux", "-/var/lib/amux", "-/etc/shadow"} <= closed
    assert value(unit, "RestrictAddressFamilies") == "AF_UNIX"
    assert (value(unit, "KillMode"), value(unit, "KeyringMode"), value(unit, "LimitCORE")) == ("mixed", "private", "0")
    assert int(value(unit, "TimeoutStopSec")) > child.ALARM_SECONDS
    assert int(value(unit, "LimitNOFILE")) > launch_server.LAUNCHES + 100
    assert int(value(unit, "TasksMax")) > launch_server.LAUNCHES + 1


def test_run_directories_are_a_file_system_of_their_own_that_is_bounded() -> None:
    (unit,) = (name for name in SYSTEM_UNITS if name.endswith(".mount"))
    escaped = subprocess.run(["systemd-escape", "--path", "--suffix=mount", launches.LAUNCHES], stdout=-1, check=True)
    assert escaped.stdout.decode().strip() == unit
    assert (value(unit, "Where"), value(unit, "Type")) == (launches.LAUNCHES, "tmpfs")
    options = dict(option.partition("=")[::2] for option in value(unit, "Options").split(","))
    assert {"nosuid", "nodev", "noexec", "size"} <= set(options)
    assert (options["mode"], options["uid"], options["gid"]) == ("0711", "0", "0")
    files = 2 + len(child.FOLDERS) + 2  # the directory, its lock, folders, what is in them
    assert int(options["nr_inodes"]) >= 10 * files * launch_server.LAUNCHES


def test_what_may_be_executed_cannot_be_written() -> None:
    """ExecPaths= makes mounts that ProtectSystem= leaves writable; tests/booted/test_mounts.py has the proof."""
    for unit in EXPOSURE_TENTHS:
        assert value(unit, "ExecPaths") == value(unit, "BindReadOnlyPaths")
        assert value(unit, "NoExecPaths").split()[0] == "/"


def test_c39_no_service_owns_the_directory_of_the_sockets() -> None:
    for unit in SYSTEM_UNITS:
        assert not values(unit, "RuntimeDirectory")
    lines = (SYSTEMD / "tmpfiles.d" / "amux.conf").read_text(encoding="utf-8").splitlines()
    assert [line.split() for line in lines if not line.startswith("#")] == [
        ["d", endpoint.SYSTEM_DIRECTORY, "0755", "root", "root", "-", "-"]
    ]


def test_c38_no_limit_of_starts_ends_a_socket_for_good() -> None:
    for service in EXPOSURE_TENTHS:
        assert value(service, "StartLimitIntervalSec") == "0"
        assert int(value(service, "RestartSec")) >= 1
    for name in (*SOCKETS, "pam", "materializer"):
        assert value(f"amux-{name}.socket", "TriggerLimitIntervalSec") == "0"
        assert value(f"amux-{name}.socket", "StartLimitIntervalSec") == "0"
        assert value(f"amux-{name}.socket", "RemoveOnStop") == "no"


def test_the_service_leaves_the_hub_its_time_and_its_numbers() -> None:
    drain, connections = KEYS["timeouts.drain"].default, KEYS["limits.connections"].default
    assert isinstance(drain, float) and isinstance(connections, int)
    assert int(value("amux-hub.service", "TimeoutStopSec")) >= drain + 5
    assert int(value("amux-hub.service", "LimitNOFILE")) >= 2 * connections
    assert f"/var/lib/{value('amux-hub.service', 'StateDirectory')}" == KEYS["home"].system
    assert value("amux-hub.service", "StateDirectoryMode") == "0700"


def test_the_account_of_the_service_is_made_and_cannot_log_in() -> None:
    lines = (SYSTEMD / "sysusers.d" / "amux.conf").read_text(encoding="utf-8").splitlines()
    (line,) = (line for line in lines if not line.startswith("#"))
    kind, name, uid, rest = line.split(" ", 3)
    assert (kind, name, uid) == ("u", value("amux-hub.service", "User"), "-")
    assert rest.endswith(" /var/lib/amux /usr/sbin/nologin")


def test_sysusers_and_tmpfiles_read_their_files(tmp_path: Path) -> None:
    """systemd's own readers on an empty tree, as this account: nothing is wrong with the lines."""
    sysusers = shutil.which("systemd-sysusers")
    assert sysusers, "systemd-sysusers is part of systemd"
    (tmp_path / "etc").mkdir()
    conf = SYSTEMD / "sysusers.d" / "amux.conf"
    done = subprocess.run(
        [sysusers, f"--root={tmp_path}", "--dry-run", str(conf)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "amux" in done.stdout + done.stderr


@pytest.mark.parametrize("name", SYSTEM_UNITS)
def test_c36_no_unit_holds_an_environment(name: str) -> None:
    """Anybody may read it with systemctl show."""
    assert not [one.name for one in directives(name) if "Environment" in one.name or "Credential" in one.name]
