"""The registry read from its files, without the Hub: records that count, and what is wrong with the others."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field

from amux_hub.doctor.finding import Findings, shell
from amux_hub.registry import record as records
from amux_hub.registry.record import Record
from amux_hub.store.write import TEMPORARY

DIRECTORY = "registry"
_NAME = re.compile(r"[0-9a-f]{64}\.json")
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_REPAIR = "restore this file from a backup, or move it away; then restart amux-hub"


@dataclass
class Registered:
    """`records` by principal, those that count; `findings` tell of the others."""

    records: dict[str, Record] = field(default_factory=dict)
    findings: Findings = field(default_factory=Findings)

    def by_directory(self) -> dict[str, str]:
        """SHA-256 as in `memory/users` → principal."""
        return {records.file_name(name).removesuffix(".json"): name for name in self.records}


def read(home: str, owner: int, sudo: str, account: str) -> Registered:
    """Everything in `<home>/registry`. Raises OSError where the directory cannot be listed."""
    found = Registered()
    path = os.path.join(home, DIRECTORY)
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return found
    try:
        for name in sorted(os.listdir(directory)):
            _look(found, path, directory, name, owner, f"{sudo}chown {account}: -- ", sudo)
    finally:
        os.close(directory)
    return found


def _look(found: Registered, where: str, directory: int, name: str, owner: int, chown: str, sudo: str) -> None:
    path = os.path.join(where, name)
    findings = found.findings
    if TEMPORARY.fullmatch(name):
        findings.note("temporary", path, "left by a write that a crash ended", "", "the next start removes it")
        return
    if not _NAME.fullmatch(name):
        findings.problem("stranger", path, "no name of a record", "records alone", f"{sudo}mv -- {shell(path)} /root/")
        return
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return  # gone since it was listed
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        kind = "more than one hard link" if stat.S_ISREG(status.st_mode) else "no regular file"
        findings.problem("kind", path, kind, "a regular file with one link", _REPAIR)
        return
    if status.st_uid != owner:
        findings.problem("owner", path, f"owner UID {status.st_uid}", f"UID {owner}", chown + shell(path))
    if stat.S_IMODE(status.st_mode) & 0o077:
        findings.warning(
            "mode", path, f"mode {stat.S_IMODE(status.st_mode):04o}", "0600", f"{sudo}chmod 600 -- {shell(path)}"
        )
    _parse(found, path, directory, name)


def _parse(found: Registered, path: str, directory: int, name: str) -> None:
    try:
        fd = os.open(name, _OPEN, dir_fd=directory)
        try:
            data = b"" if not stat.S_ISREG(os.fstat(fd).st_mode) else os.read(fd, records.RECORD_BYTES + 1)
        finally:
            os.close(fd)
        record = records.parse(data)
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        what = error.strerror if isinstance(error, OSError) else "no record of a principal"
        found.findings.problem("damaged", path, what or "unreadable", "a record of the registry", _REPAIR)
        return
    if records.file_name(record.principal) != name:
        found.findings.problem(
            "moved",
            path,
            f"the record of principal {record.principal}: it was moved or copied",
            f"that record as {records.file_name(record.principal)[:12]}….json alone",
            _REPAIR,
        )
        return
    found.records[record.principal] = record
