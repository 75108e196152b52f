"""One principal as it stands in the registry, and its file: JSON, 64 KiB at the most.

Promises: what `parse` answers is well-formed in every field; anything else is a ValueError.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

from amux.errors import AmuxError

RECORD_BYTES = 64 * 1024
SELF, ALIAS, REBIND, REPLACED = "self", "alias", "rebind", "replaced"
"""How an account came to its principal: as itself, by `identity.aliases`, by an administrator; or, of a former one,
that an administrator gave its place to another: it does not come back by itself."""


@dataclass(frozen=True)
class Pin:
    """One account of a principal."""

    name: str
    uid: int
    by: str

    def __str__(self) -> str:
        return f"{self.name} (UID {self.uid})"


@dataclass(frozen=True)
class Record:
    """One principal. `former` are accounts that it had; `retired` is when it was retired, "" while it is not.

    Times are RFC 3339 in UTC.
    """

    principal: str
    first_seen: str
    accounts: tuple[Pin, ...] = ()
    former: tuple[Pin, ...] = ()
    retired: str = ""


def file_name(principal: str) -> str:
    """The file of a principal's record."""
    return hashlib.sha256(principal.encode()).hexdigest() + ".json"


def encode(record: Record) -> bytes:
    """Raises `limit_exceeded`: hundreds of accounts came and went."""
    data = json.dumps(asdict(record), ensure_ascii=False, indent=1).encode() + b"\n"
    if len(data) > RECORD_BYTES:
        raise AmuxError(
            "limit_exceeded",
            f"the record of {record.principal} would have {len(data)} bytes; the limit is {RECORD_BYTES}: retire the "
            "principal",
            limit="record_bytes",
            value=RECORD_BYTES,
            found=len(data),
        )
    return data


def parse(data: bytes) -> Record:
    """Raises ValueError for what is no record."""
    if len(data) > RECORD_BYTES:
        raise ValueError(f"it has over {RECORD_BYTES} bytes")
    try:
        value = json.loads(data)
        record = Record(
            value["principal"],
            value["first_seen"],
            tuple(map(_pin, value["accounts"])),
            tuple(map(_pin, value["former"])),
            value["retired"],
        )
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__} {error}") from None
    if not all(isinstance(text, str) for text in (record.principal, record.first_seen, record.retired)):
        raise ValueError("a text is none")
    if not record.principal:
        raise ValueError("the principal is empty")
    return record


def _pin(value: Any) -> Pin:
    pin = Pin(value["name"], value["uid"], value["by"])
    if type(pin.uid) is not int or not 0 <= pin.uid < 1 << 32:
        raise ValueError("a UID is none")
    if not isinstance(pin.name, str) or not pin.name or pin.by not in (SELF, ALIAS, REBIND, REPLACED):
        raise ValueError("an account is none")
    return pin
