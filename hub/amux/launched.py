"""The copy of `amux` that belongs to one launch: it knows its Hub and conversation from the file beside it.

`connection.json` stands beside `amux.pyz` in the run directory: `{"hub": PATH, "session": ID, "binding": SCOPE}`. It
is looked for beside the running archive, never in the working directory. What the environment names comes first. Every
tool call of an agent passes here: for any other `amux` it costs a comparison of text.
"""

from __future__ import annotations

import os
import sys

from amux.errors import EXIT_OK, AmuxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

ARCHIVE = "amux.pyz"
CONNECTION = "connection.json"
CONNECTION_BYTES = 4096
_HUB, _SESSION, _BINDING = "AMUX_HUB", "AMUX_SESSION", "AMUX_MEMORY_BINDING"


def settle(environ: MutableMapping[str, str] = os.environ, archive: str | None = None) -> int:
    """Take from the launch's connection file what the environment does not name; EXIT_OK.

    Session and binding go together, and only with the Hub of the file. Raises `unsafe_file` for a file that is not
    this account's own, `invalid_argument` for one that is not what a launch writes.
    """
    archive = sys.argv[0] if archive is None else archive
    if not archive.endswith("/" + ARCHIVE) or not archive.startswith("/"):
        return EXIT_OK
    path = archive[: -len(ARCHIVE)] + CONNECTION
    data = _read(path)
    if data is None:
        return EXIT_OK
    hub, session, binding = _parse(path, data)
    if environ.get(_HUB) not in (None, "", hub):
        return EXIT_OK
    environ[_HUB] = hub
    if not environ.get(_SESSION) and not environ.get(_BINDING):
        environ[_SESSION] = session
        environ[_BINDING] = binding
    return EXIT_OK


def _read(path: str) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AmuxError("unsafe_file", f"{path} cannot be read: {error.strerror}", path=path) from error
    try:
        found = os.fstat(file)
        if found.st_mode & 0o170000 != 0o100000 or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise AmuxError("unsafe_file", f"{path} is not a file that only you can write: it was not used", path=path)
        return os.read(file, CONNECTION_BYTES + 1)
    finally:
        os.close(file)


def _parse(path: str, data: bytes) -> tuple[str, str, str]:
    import json

    try:
        if len(data) > CONNECTION_BYTES:
            raise ValueError(f"over {CONNECTION_BYTES} bytes")
        value = json.loads(data)
        hub, session, binding = value["hub"], value["session"], value["binding"]
        for text in (hub, session, binding):
            if not isinstance(text, str) or not text or "\0" in text:
                raise ValueError("not a text")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AmuxError("invalid_argument", f"{path} is not what a launch writes: {error!r}", path=path) from error
    return hub, session, binding
