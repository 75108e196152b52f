"""Whether /etc/pam.d/amux may be asked at all.

Promises: where this says yes, libpam decides by that file. Without it, or if it holds no account rule, libpam takes
the stack `other`, pam.conf(5), and an `other` that permits would let everybody in. Checked at the start and again
before every verdict.
"""

from __future__ import annotations

import os
import stat

SERVICE = "amux"
PATH = "/etc/pam.d/amux"
_BYTES = 64 * 1024
_SHIPPED = "install the package's file again"


class UnfitError(Exception):
    """The file must not decide; the message says why and what to do."""


def check(path: str = PATH, owner: int = 0) -> None:
    """Raises `UnfitError` unless `path` is a regular file of `owner`, nobody else can write or replace it, and it
    holds an account rule of its own."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise UnfitError(f"{path} is missing, and PAM would ask the stack `other` instead: {_SHIPPED}") from None
    except OSError as error:
        raise UnfitError(f"{path} cannot be opened as a regular file ({error.strerror}): {_SHIPPED}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise UnfitError(f"{path} is no regular file: {_SHIPPED}")
        _of_owner(path, status, owner)
        text = os.read(fd, _BYTES)
    finally:
        os.close(fd)
    directory = os.path.dirname(path)
    _of_owner(directory, os.stat(directory), owner)
    if not any(_is_account_rule(line) for line in text.split(b"\n")):
        raise UnfitError(f"{path} has no account rule, and PAM would ask the stack `other` instead: {_SHIPPED}")


def _of_owner(path: str, status: os.stat_result, owner: int) -> None:
    if status.st_uid != owner:
        raise UnfitError(f"{path} belongs to UID {status.st_uid}, not to {owner}: chown root:root {path}")
    if (mode := stat.S_IMODE(status.st_mode)) & 0o022:
        raise UnfitError(f"{path} may be written by others (mode {mode:04o}): chmod go-w {path}")


def _is_account_rule(line: bytes) -> bool:
    words = line.partition(b"#")[0].split()
    return len(words) >= 3 and words[0].lower() == b"account"
