"""Which account is which principal, pinned at first use.

Promises: a principal keeps its memory through nothing but its own accounts. A UID under another name, a name under
another UID, a principal that was retired: each is refused by name until an administrator says what is meant. A record
that cannot be read stands for nobody, and as long as there is one, nobody new is enrolled: it might be theirs.

All of this blocks: call it in a thread. Thread-safe. The Hub that holds the root lock is the only writer.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace

from amux.errors import AmuxError
from amux_hub.accounts import Account
from amux_hub.registry.files import Files
from amux_hub.registry.record import ALIAS, REBIND, REPLACED, SELF, Pin, Record


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Registry:
    """The principals of the Hub at `home`."""

    def __init__(self, home: str) -> None:
        self._lock = threading.Lock()
        self._files = Files(home)

    def close(self) -> None:
        self._files.close()

    @property
    def damaged(self) -> dict[str, str]:
        """Files that are no records of ours, each with what is wrong."""
        with self._lock:
            return dict(self._files.damaged)

    def records(self) -> list[Record]:
        """All principals, by name."""
        with self._lock:
            return [self._files.records[name] for name in sorted(self._files.records)]

    def get(self, principal: str) -> Record | None:
        with self._lock:
            return self._files.records.get(principal)

    # Who is calling

    def principal_of(self, account: Account, alias: str | None) -> tuple[str, bool]:
        """The principal of an account, and whether it was enrolled just now.

        `alias` is what `identity.aliases` says of its name. Raises `identity_refused`, naming what an administrator
        has to decide, or `identity_unavailable`.
        """
        with self._lock:
            by_uid = self._files.uids.get(account.uid)
            by_name = self._files.names.get(account.name)
            if by_uid is not None and by_uid[1].name != account.name:
                principal, pin = by_uid
                what = f"UID {account.uid} was account {pin.name} of principal {principal} and is {account.name} now"
                raise _refused(what, account, principal)
            if by_name is not None and by_name[1].uid != account.uid:
                principal, pin = by_name
                what = f"account {account.name} of principal {principal} had UID {pin.uid} and has {account.uid} now"
                raise _refused(what, account, principal)
            if by_uid is None:
                return self._enrol(account, alias), True
            principal, pin = by_uid
            self._check_disk(principal)
            if alias == principal or (alias is None and pin.by != ALIAS):
                return principal, False
            return self._move(account, alias, principal, pin), True

    def _enrol(self, account: Account, alias: str | None) -> str:
        principal = account.name if alias is None else alias
        record = self._check_new(account, alias)
        pin = Pin(account.name, account.uid, SELF if alias is None else ALIAS)
        former = _others(record.former, account)
        self._files.write(replace(record, accounts=(*record.accounts, pin), former=former))
        return principal

    def _move(self, account: Account, alias: str | None, principal: str, pin: Pin) -> str:
        """`identity.aliases` changed: the account is another principal's now. Its old principal keeps its memory."""
        self._check_new(account, alias)
        record = self._files.records[principal]
        self._files.write(_without(record, pin))
        return self._enrol(account, alias)

    def _check_new(self, account: Account, alias: str | None) -> Record:
        """The record that `account` may join, perhaps a new one."""
        principal = account.name if alias is None else alias
        if self._files.damaged:
            raise AmuxError(
                "identity_unavailable",
                f"{len(self._files.damaged)} records of the registry are damaged, so nobody new is enrolled: ask the "
                "administrator to run amux doctor",
            )
        self._check_disk(principal)
        record = self._files.records.get(principal)
        if record is None:
            return Record(principal, _now())
        if record.retired:
            raise _refused(f"principal {principal} was retired on {record.retired}", account, principal)
        # Only an account that an alias led away comes back by itself.
        if alias is None and not any(_same(pin, account) and pin.by != REPLACED for pin in record.former):
            owners = ", ".join(map(str, record.accounts or record.former))
            what = f"principal {principal} is {owners}, not account {account.name} with UID {account.uid}"
            raise _refused(what, account, principal)
        return record

    def _check_disk(self, principal: str) -> None:
        """What was changed behind the Hub's back is not believed, whoever did it."""
        if self._files.read(principal) != self._files.records.get(principal):
            raise AmuxError(
                "identity_unavailable",
                f"the record of principal {principal} was changed, made or removed while the Hub runs: ask the "
                "administrator to undo that, or to restart amux-hub if it was meant",
                principal=principal,
            )

    # What an administrator decides

    def rebind(self, principal: str, old_uid: int, account: Account) -> Record:
        """Give the place of the account with `old_uid` in `principal` to `account`, the new or renamed one.

        Raises `not_found`, or `conflict` if the account belongs to another principal.
        """
        with self._lock:
            record = self._existing(principal)
            pin = next((one for one in record.accounts if one.uid == old_uid), None)
            if pin is None:
                has = ", ".join(map(str, record.accounts)) or "none"
                what = f"principal {principal} has no account with UID {old_uid}; its accounts: {has}"
                raise AmuxError("not_found", what, principal=principal)
            for claimed in (self._files.uids.get(account.uid), self._files.names.get(account.name)):
                if claimed is not None and claimed != (principal, pin):
                    raise AmuxError(
                        "conflict",
                        f"account {claimed[1]} belongs to principal {claimed[0]}: retire or rebind that one first",
                        principal=claimed[0],
                    )
            former = (*_others(record.former, pin, account), Pin(pin.name, pin.uid, REPLACED))
            rest = tuple(one for one in record.accounts if one != pin)
            new = replace(record, accounts=(*rest, Pin(account.name, account.uid, REBIND)), former=former)
            self._files.write(new)
            return new

    def retire(self, principal: str) -> Record:
        """End a principal: nobody is it any more, its memory stays until it is purged. Repeating changes nothing."""
        with self._lock:
            record = self._existing(principal)
            if not record.retired:
                former = (*record.former, *record.accounts)
                record = replace(record, accounts=(), former=former, retired=_now())
                self._files.write(record)
            return record

    def remove(self, principal: str) -> None:
        """Delete the record of a retired principal, durably; its memory must be gone already."""
        with self._lock:
            if not self._existing(principal).retired:
                raise AmuxError(
                    "forbidden",
                    f"principal {principal} is not retired: amux admin principals retire comes first",
                    principal=principal,
                )
            self._files.remove(principal)

    def _existing(self, principal: str) -> Record:
        record = self._files.records.get(principal)
        if record is None:
            raise AmuxError("not_found", f"there is no principal {principal[:80]!r}", principal=principal[:80])
        self._check_disk(principal)
        return record


def _same(pin: Pin, account: Account | Pin) -> bool:
    return (pin.name, pin.uid) == (account.name, account.uid)


def _others(pins: tuple[Pin, ...], *but: Account | Pin) -> tuple[Pin, ...]:
    return tuple(pin for pin in pins if not any(_same(pin, one) for one in but))


def _without(record: Record, pin: Pin) -> Record:
    rest = tuple(one for one in record.accounts if one != pin)
    return replace(record, accounts=rest, former=(*_others(record.former, pin), pin))


def _refused(what: str, account: Account, principal: str) -> AmuxError:
    return AmuxError(
        "identity_refused",
        f"{what}: the administrator decides with amux admin principals rebind, or retire",
        uid=account.uid,
        account=account.name,
        principal=principal,
    )
