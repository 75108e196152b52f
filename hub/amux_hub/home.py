"""Private directories: the Hub's home and that of its sockets, 0700 and our own, whatever the umask is.

Promises: a directory that others could look into, or that belongs to somebody else, is refused, not repaired:
the message says what was found, what is wanted and the command.
"""

from __future__ import annotations

import os
import shlex
import stat

from amux.errors import AmuxError


def private_directory(path: str, what: str) -> None:
    """Make `path` with mode 0700, its missing parents too; refuse an existing one that is not private."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            os.mkdir(path, 0o700)
            os.chmod(path, 0o700)  # the umask may have taken bits of our own
        except FileExistsError:
            pass
        status = os.stat(path)
    except OSError as error:
        raise AmuxError("storage_io", f"the {what} {path} cannot be made: {error.strerror}", path=path) from error
    if not stat.S_ISDIR(status.st_mode):
        raise AmuxError("unsafe_file", f"the {what} {path} is no directory: move it away", path=path)
    mode = stat.S_IMODE(status.st_mode)
    quoted = shlex.quote(path)
    if status.st_uid != os.geteuid():
        raise AmuxError(
            "unsafe_file",
            f"the {what} {path} belongs to UID {status.st_uid}, and this Hub runs as UID {os.geteuid()}: "
            f"chown {os.geteuid()} {quoted}, or choose another",
            path=path,
            found=status.st_uid,
            value=os.geteuid(),
        )
    if mode & 0o077:
        raise AmuxError(
            "unsafe_file",
            f"the {what} {path} has mode {mode:04o} and must have 0700: chmod 700 {quoted}",
            path=path,
            found=f"{mode:04o}",
            value="0700",
        )
