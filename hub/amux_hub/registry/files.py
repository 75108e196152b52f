"""The directory of the records and what all of them say together. Writing is durable, reading trusts nothing.

Two records that claim one account are both in doubt: the second one found counts as damaged, and so does what cannot
be read, or lies under another principal's name.
"""

from __future__ import annotations

import os

from amux.errors import AmuxError
from amux_hub.registry import record as records
from amux_hub.registry.record import Pin, Record
from amux_hub.store import tree, write

DIRECTORY = "registry"


class Files:
    """`<home>/registry`, 0700. `records` by principal; `uids` and `names` tell whose an account is."""

    def __init__(self, home: str) -> None:
        fd = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._directory = tree.make_root(DIRECTORY, fd)
        finally:
            os.close(fd)
        self.records: dict[str, Record] = {}
        self.uids: dict[int, tuple[str, Pin]] = {}
        self.names: dict[str, tuple[str, Pin]] = {}
        self.damaged: dict[str, str] = {}
        try:
            self._load()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._directory)

    def read(self, principal: str) -> Record | None:
        """The record as it lies on disk now, None if there is none. Raises `identity_unavailable`, `unsafe_file`."""
        return self._read(records.file_name(principal))

    def write(self, record: Record) -> None:
        """Durable before it counts. Raises storage errors with the old record in force."""
        data = records.encode(record)
        write.replace(self._directory, records.file_name(record.principal), data, f"the record of {record.principal}")
        self._drop(record.principal)
        self._enter(record)

    def remove(self, principal: str) -> None:
        write.remove(self._directory, records.file_name(principal), f"the record of {principal}")
        self._drop(principal)

    def _load(self) -> None:
        with os.scandir(self._directory) as entries:
            names = sorted(entry.name for entry in entries)
        for name in names:
            if write.TEMPORARY.fullmatch(name):
                os.unlink(name, dir_fd=self._directory)
                continue
            try:
                record = self._read(name)
                if record is not None:
                    self._check_claims(record)
                    self._enter(record)
            except AmuxError as error:
                self.damaged[name] = error.message

    def _read(self, name: str) -> Record | None:
        path = f"{DIRECTORY}/{name}"
        fd = tree.open_file(name, self._directory, path)
        if fd is None:
            return None
        try:
            data, _ = tree.read_file(fd, records.RECORD_BYTES + 1, path)
        finally:
            os.close(fd)
        try:
            record = records.parse(data)
        except ValueError as error:
            raise AmuxError("identity_unavailable", f"{path} is damaged: {str(error)[:120]}", path=path) from None
        if records.file_name(record.principal) != name:
            raise AmuxError(
                "identity_unavailable",
                f"{path} is the record of principal {record.principal}: it was moved or copied",
                path=path,
            )
        return record

    def _check_claims(self, record: Record) -> None:
        for pin in record.accounts:
            for claimed in (self.uids.get(pin.uid), self.names.get(pin.name)):
                if claimed is not None:
                    raise AmuxError(
                        "identity_unavailable",
                        f"account {pin} stands in the record of {record.principal} and in that of {claimed[0]}",
                    )

    def _enter(self, record: Record) -> None:
        self.records[record.principal] = record
        for pin in record.accounts:
            self.uids[pin.uid] = self.names[pin.name] = (record.principal, pin)

    def _drop(self, principal: str) -> None:
        known = self.records.pop(principal, None)
        for pin in () if known is None else known.accounts:
            self.uids.pop(pin.uid, None)
            self.names.pop(pin.name, None)
