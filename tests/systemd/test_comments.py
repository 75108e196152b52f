"""Every directive says why it is there and where it is explained; an expected one that is missing, why not."""

from __future__ import annotations

import re

import pytest

from tests.systemd.units import SYSTEMD, UNITS, directives

MAN_PAGE = re.compile(r"\b[A-Za-z0-9_.-]+\([1-8]\)")
EXPECTED = {
    "amux-hub.service": (
        "AmbientCapabilities BindReadOnlyPaths CapabilityBoundingSet ConfigurationDirectory DeviceAllow DevicePolicy "
        "DynamicUser ExecPaths IPAddressDeny InaccessiblePaths KeyringMode LimitCORE LimitNOFILE "
        "LoadCredential LockPersonality MemoryMax MemoryDenyWriteExecute NoExecPaths NoNewPrivileges "
        "PrivateDevices PrivateIPC PrivateMounts PrivateNetwork PrivateTmp PrivateUsers ProcSubset "
        "ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs ProtectKernelModules "
        "ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC Restart RestrictAddressFamilies "
        "RestrictFileSystems RestrictNamespaces RestrictRealtime RestrictSUIDSGID RootDirectory "
        "RuntimeDirectory StartLimitIntervalSec StateDirectory SupplementaryGroups SystemCallArchitectures "
        "SystemCallErrorNumber SystemCallFilter TasksMax TemporaryFileSystem TimeoutStopSec UMask WatchdogSec"
    ),
    "amux-pam.service": (
        "AmbientCapabilities BindReadOnlyPaths CapabilityBoundingSet ConfigurationDirectory DeviceAllow DevicePolicy "
        "DynamicUser ExecPaths IPAddressDeny InaccessiblePaths KeyringMode KillMode LimitCORE LimitNOFILE "
        "LoadCredential LockPersonality MemoryDenyWriteExecute MemoryMax NoExecPaths NoNewPrivileges "
        "PrivateDevices PrivateIPC PrivateMounts PrivateNetwork PrivateTmp PrivateUsers ProcSubset "
        "ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs ProtectKernelModules "
        "ProtectKernelTunables ProtectProc ProtectSystem RemoveIPC Restart RestrictAddressFamilies "
        "RestrictFileSystems RestrictNamespaces RestrictRealtime RestrictSUIDSGID RootDirectory "
        "RuntimeDirectory StartLimitIntervalSec StateDirectory SupplementaryGroups SystemCallArchitectures "
        "SystemCallErrorNumber SystemCallFilter TasksMax TemporaryFileSystem TimeoutStopSec UMask User WatchdogSec"
    ),
    "amux-materializer.service": (
        "AmbientCapabilities BindReadOnlyPaths CapabilityBoundingSet ConfigurationDirectory DeviceAllow DevicePolicy "
        "DynamicUser ExecPaths IPAddressDeny InaccessiblePaths KeyringMode KillMode LimitCORE LimitNOFILE "
        "LoadCredential LockPersonality MemoryDenyWriteExecute MemoryMax NoExecPaths NoNewPrivileges "
        "PrivateDevices PrivateIPC PrivateMounts PrivateNetwork PrivateTmp PrivateUsers ProcSubset "
        "ProtectClock ProtectControlGroups ProtectHome ProtectHostname ProtectKernelLogs ProtectKernelModules "
        "ProtectKernelTunables ProtectProc ProtectSystem ReadWritePaths RemoveIPC RequiresMountsFor Restart "
        "RestrictAddressFamilies RestrictFileSystems RestrictNamespaces RestrictRealtime RestrictSUIDSGID "
        "RootDirectory RuntimeDirectory StartLimitIntervalSec StateDirectory SupplementaryGroups "
        "SystemCallArchitectures SystemCallErrorNumber SystemCallFilter TasksMax TemporaryFileSystem "
        "TimeoutStopSec UMask User WatchdogSec"
    ),
    **{
        f"amux-{name}.socket": (
            "Accept Backlog DirectoryMode FileDescriptorName MaxConnectionsPerSource PassCredentials RemoveOnStop "
            "SocketGroup SocketMode SocketUser StartLimitIntervalSec TriggerLimitIntervalSec"
        )
        for name in ("hub", "mcp", "admin", "pam", "materializer")
    },
}


@pytest.mark.parametrize("unit", UNITS)
def test_every_directive_has_its_reason_and_its_man_page(unit: str) -> None:
    silent = [f"{one.name}={one.value}" for one in directives(unit) if not MAN_PAGE.search(one.comment)]
    assert not silent


@pytest.mark.parametrize("unit", EXPECTED)
def test_what_is_expected_is_there_or_its_absence_explained(unit: str) -> None:
    there = {one.name for one in directives(unit)}
    text = (SYSTEMD / unit).read_text(encoding="utf-8")
    for line in re.findall(r"^# No (\w+=(?:, \w+=)*), [\w.-]+\([1-8]\)", text, re.MULTILINE):
        there |= {name.rstrip("=") for name in line.split(", ")}
    assert not set(EXPECTED[unit].split()) - there


def test_nothing_is_said_twice() -> None:
    """Lists may go on over several lines; anything else said twice is a mistake."""
    lists = {"InaccessiblePaths", "SystemCallFilter", "ExecReload", "ExecStartPre", "ExecPaths"}
    for unit in UNITS:
        names = [(one.section, one.name) for one in directives(unit) if one.name not in lists]
        assert sorted(set(names)) == sorted(names), unit
