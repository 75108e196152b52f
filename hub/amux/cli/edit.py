"""`amux memory edit`: one document in the person's own editor.

Promises that the document is only changed if nobody else changed it meanwhile, and that a text that was typed
is never lost: if it could not be saved, it stays in a private file whose path is printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile

import click

from amux import endpoint, output
from amux.cli import whole
from amux.cli.paths import complete_path
from amux.client import MEMORY, Client
from amux.errors import EXIT_OK, AmuxError
from amux.memory import as_json, check_content, utf8

FALLBACKS = ("editor", "vi", "nano")
"""Tried in this order if neither VISUAL nor EDITOR is set; Debian policy 11.4 names the first."""


@click.command()
@click.argument("path", shell_complete=complete_path)
@click.option("--json", "json", is_flag=True, help="Print JSON at a terminal too.")
def edit(path: str, json: bool) -> int:
    """Edit one document in $VISUAL or $EDITOR; a missing one is created.

    The text is saved only if the document is still the one that you began with. If it cannot be saved, it
    stays in a file that only you can read, and its path is printed.
    """
    path = utf8(path, "path", "invalid_path")
    command = _editor()
    with Client(endpoint.choose()) as client:
        before, revision = whole.read(client, path)
    directory = tempfile.mkdtemp(prefix="amux-edit-")  # 0700
    file = os.path.join(directory, os.path.basename(path) or "document.md")
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as begin:
            begin.write(before)
        _run(command, file)
        reply = _save(path, _read_back(file), before, revision)
    except BaseException as error:
        _keep(error, directory, file, before)
        raise
    shutil.rmtree(directory, ignore_errors=True)
    if reply is None:
        output.line(2, f"amux: {path} is unchanged: nothing was saved")
        reply = {"path": path, "revision": revision}
    if as_json({"json": json}):
        output.write(1, output.as_json(reply))
    elif reply["revision"] != revision:
        output.line(1, f"saved {path}, revision {reply.get('revision')}")
    return EXIT_OK


def _editor() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        wanted = os.environ.get(variable, "").strip()
        if not wanted:
            continue
        try:
            return shlex.split(wanted)
        except ValueError as error:
            raise AmuxError("invalid_argument", f"{variable} is {wanted!r}: {error}", argument=variable) from error
    for name in FALLBACKS:
        if shutil.which(name):
            return [name]
    raise AmuxError("invalid_argument", "no editor: set VISUAL or EDITOR", argument="EDITOR")


def _run(command: list[str], file: str) -> None:
    # Ctrl-C belongs to the editor while it runs. A handler, not SIG_IGN: the child must not inherit that.
    before = signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        status = subprocess.run([*command, file], check=False).returncode
    except OSError as error:
        raise AmuxError(
            "invalid_argument", f"the editor {command[0]} cannot be run: {error.strerror}", argument="EDITOR"
        ) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if status != 0:
        raise AmuxError("invalid_argument", f"the editor {command[0]} ended with {status}: nothing was saved")


def _read_back(file: str) -> bytes:
    try:
        with open(file, "rb") as after:
            return after.read()
    except OSError as error:
        raise AmuxError("invalid_argument", f"the editor left no text at {file}: {error.strerror}") from error


def _save(path: str, after: bytes, before: bytes, revision: str) -> dict[str, object] | None:
    """The reply of the upsert; None if there was nothing to save."""
    if after == before:
        return None
    content = check_content(after)
    parameters = {"path": path, "content": content, "expected_revision": revision}
    with Client(endpoint.choose()) as client:
        return client.call(MEMORY + "Upsert", parameters, writes=path)


def _keep(error: BaseException, directory: str, file: str, before: bytes) -> None:
    """Keep what was typed and add its path to the error; remove the directory if nothing was."""
    try:
        with open(file, "rb") as after:
            typed = after.read() != before
    except OSError:
        typed = len(os.listdir(directory)) > 0
    if not typed:
        shutil.rmtree(directory, ignore_errors=True)
    elif isinstance(error, AmuxError):
        error.message = f"{error.message}; your text is kept in {file}"
        error.details["kept"] = file
    else:
        output.line(2, f"amux: your text is kept in {file}")
