"""`amux memory export`: one document, byte for byte, or nothing."""

from __future__ import annotations

import os
import secrets
import stat

import click

from amux import endpoint, output
from amux.cli import whole
from amux.cli.paths import complete_path
from amux.client import Client
from amux.errors import EXIT_OK, AmuxError
from amux.memory import utf8


@click.command()
@click.argument("path", shell_complete=complete_path)
@click.option(
    "--output", "file", metavar="FILE", type=click.Path(readable=False), help="Write the bytes here, all or none."
)
@click.option("--json", "_json", is_flag=True, help="Print errors as JSON at a terminal too.")
def export(path: str, file: str | None, _json: bool) -> int:
    """Write one document to standard output exactly as it is stored.

    Nothing is written unless all of it was read at one revision; a document that changes meanwhile is a
    conflict (exit 4), a missing one is not found (exit 3).
    """
    path = utf8(path, "path", "invalid_path")
    with Client(endpoint.choose()) as client:
        data, revision = whole.read(client, path)
    if revision == "absent":
        raise AmuxError("not_found", f"there is no document {path}: nothing was exported", path=path)
    if file is not None:
        try:
            replace(file, data)
        except OSError as error:
            raise AmuxError("invalid_argument", f"cannot write {file}: {error.strerror}", argument="output") from error
    elif output.is_terminal(1):
        output.text(1, output.escape(data.decode().replace("\r\n", "\n"), "\n\t"))
    else:
        output.write(1, data)
    return EXIT_OK


def replace(file: str, data: bytes) -> None:
    """Make `data` the content of `file` at once, mode 0600 less the umask; what is no regular file is written
    into. Raises OSError, the old content whole."""
    try:
        regular = stat.S_ISREG(os.stat(file).st_mode)
    except FileNotFoundError:
        regular = True
    if not regular:  # a device or a pipe: replacing it would break it for everybody
        # By the name as given: that of a pipe behind /dev/stdout leads nowhere.
        descriptor = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
        try:
            output.write(descriptor, data)
        finally:
            os.close(descriptor)
        return
    target = os.path.realpath(file)
    directory, name = os.path.split(target)
    temporary = os.path.join(directory, f".{name[:200]}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        try:
            output.write(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
