"""The registry: its records, their accounts, and the directories that belong to them."""

from __future__ import annotations

import os
import pwd
import re
import stat
import time

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError, count, shell
from amux_hub.doctor.host import Host
from amux_hub.doctor.registered import DIRECTORY
from amux_hub.registry.record import Pin
from amux_hub.store.root import USERS

_NAMES_SECONDS = 30.0
_SCOPE = re.compile(r"[0-9a-f]{64}")
_PURGED = re.compile(r"\.amux-purge-[0-9a-f]{32}")


def _records(host: Host, findings: Findings) -> str:
    _need_registry(host)
    path = os.path.join(host.home, DIRECTORY)
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return "nobody is enrolled yet"
    if status.st_uid != host.owner:
        fix = f"{host.sudo}chown {host.account}: -- {shell(path)}"
        findings.problem("owner", path, f"owner UID {status.st_uid}", f"UID {host.owner}", fix)
    if (mode := stat.S_IMODE(status.st_mode)) != 0o700:
        findings.problem("mode", path, f"mode {mode:04o}", "0700", f"{host.sudo}chmod 700 -- {shell(path)}")
    try:
        found = host.registry
    except OSError as error:
        fix = f"{host.own_sudo}ls -ld -- {shell(path)}"
        findings.problem("unreadable", path, error.strerror or "unreadable", "a directory that the Hub may read", fix)
        return "unreadable"
    findings.kept += found.findings.kept
    findings.counts.update(found.findings.counts)
    _claims(host, findings)
    return count(len(found.records), "principal")


def _claims(host: Host, findings: Findings) -> None:
    """One account in two records is nobody's: the Hub cannot know whose."""
    owners: dict[int | str, str] = {}
    for principal, record in host.registry.records.items():
        for claim in {key for pin in record.accounts for key in (pin.uid, pin.name)}:
            other = owners.setdefault(claim, principal)
            if other != principal:
                what = f"UID {claim}" if isinstance(claim, int) else f"account {claim}"
                fix = f"{host.sudo}amux admin principals retire {shell(principal)}"
                found = f"in the records of {other} and {principal}"
                findings.problem("claim", what, found, "one principal", f"decide whose it is; perhaps: {fix}")


def _accounts(host: Host, findings: Findings) -> str:
    _need_registry(host)
    until = time.monotonic() + _NAMES_SECONDS
    pins = [(name, pin) for name, record in host.registry.records.items() for pin in record.accounts]
    for done, (principal, pin) in enumerate(pins):
        if time.monotonic() > until:
            why = f"the name service is slow: {_NAMES_SECONDS:g} s were over"
            findings.unseen(count(len(pins) - done, "account"), why)
            break
        try:
            _compare(principal, pin, accounts.account_of(pin.uid), host, findings)
        except AmuxError as error:
            if error.code == "identity_unavailable":
                findings.unseen(f"{principal}: {pin}", "the name service failed: nothing is known about this account",
                                f"getent passwd {pin.uid}")  # fmt: skip
            else:
                findings.problem("name", f"{principal}: {pin}", error.message, pin.name)
    return count(len(pins), "account")


def _compare(principal: str, pin: Pin, now: accounts.Account | None, host: Host, findings: Findings) -> None:
    """What the name service says of a pinned account against what it said when it was pinned."""
    what, admin, quoted = f"{principal}: {pin}", f"{host.sudo}amux admin principals", shell(principal)
    retire = f"{admin} retire {quoted}"
    if now is not None:
        if now.name != pin.name:
            found = f"UID {pin.uid} is {now.name} now: renamed, or the UID was given to somebody else"
            fix = f"{admin} rebind {quoted} {pin.uid} {pin.uid}, if it is the same person; else {retire}"
            findings.problem("recycled", what, found, pin.name, fix)
        return
    try:
        other = pwd.getpwnam(pin.name).pw_uid
    except (KeyError, ValueError):
        found = "no such account any more: its memory is kept for nobody"
        findings.warning("gone", what, found, "the account, or a retired principal", retire)
        return
    found = f"{pin.name} has UID {other} now: made anew, or another person of that name"
    fix = f"{admin} rebind {quoted} {pin.uid} {other}, if it is the same person; else {retire}"
    findings.problem("renumbered", what, found, f"UID {pin.uid}", fix)


def _scopes(host: Host, findings: Findings) -> str:
    _need_registry(host)
    known = host.registry.by_directory()
    path = os.path.join(host.home, "memory", USERS)
    try:
        there = set(os.listdir(path))
    except FileNotFoundError:
        there = set()
    for name in sorted(there - set(known)):
        where = os.path.join(path, name)
        if _PURGED.fullmatch(name):
            findings.note("purge", where, "a purge that a crash interrupted", "", host.restart)
        elif not _SCOPE.fullmatch(name):
            fix = f"{host.sudo}mv -- {shell(where)} /root/"
            findings.warning("stranger", where, "no directory of a principal", "those of principals alone", fix)
        else:
            fix = "restore its record from the backup, or move the directory away: "
            fix += f"{host.sudo}mv -- {shell(where)} /root/"
            findings.problem("orphan", where, "memory of no principal: nobody can reach it", "its record", fix)
    empty = [name for directory, name in known.items() if directory not in there]
    for name in sorted(empty) if host.config["isolation"] else ():
        record = host.registry.records[name]
        findings.note("empty", name, f"enrolled {record.first_seen}, nothing written yet, or its memory was lost")
    return f"{count(len(there & set(known)), 'principal')} with a memory, {len(empty):,} without"


def _need_registry(host: Host) -> None:
    if not host.system:
        raise SkippedError("a private Hub has none: its owner is its only principal")
    host.need_home()


CHECKS = (
    Check("registry-records", _records, 60),
    Check("registry-accounts", _accounts, _NAMES_SECONDS + 30),
    Check("registry-scopes", _scopes),
)
