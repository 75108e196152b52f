"""The three isolations: where a launch's `amux` and home come from, and what of the caller's environment it keeps.

`dac`: the person's own home, and a copy of `amux` that the materializer makes under this UID. `private-home`: a home
of the session's own, weak isolation. `none`: the person's home and the installed `amux`. Each is a function that
answers a Place; from there on all three are alike.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from amux import endpoint
from amux.errors import AmuxError
from amux.launch import environment, files, find, materializer
from amux.launch.agent import Tool
from amux.launch.values import DAC, NONE, PRIVATE_HOME

HOMES = ".local/state/amux/homes"
CREDENTIAL_BYTES = 1024 * 1024
"""The largest file that is put into a private home."""
TOOL = "amux"


@dataclass
class Place:
    """Where a launch runs. `lock` is the descriptor that is its life, under dac alone."""

    isolation: str
    environment: dict[str, str]
    home: str
    tool: Tool
    lock: int | None = None


def default(where: endpoint.Endpoint) -> str:
    """`dac` where the system's Hub was chosen and its materializer is installed, else `none`."""
    return DAC if where.kind == "system" and os.path.exists(materializer.SOCKET) else NONE


def check(isolation: str, where: endpoint.Endpoint) -> None:
    """Raises `invalid_argument` for an isolation that cannot be had with this Hub."""
    if isolation == DAC and where.kind != "system":
        raise AmuxError(
            "invalid_argument",
            f"--isolation dac is for the Hub of this host, and {where} was chosen ({where.why}): use "
            f"--isolation {NONE} or {PRIVATE_HOME}",
            argument="isolation",
        )


def dac(environ: dict[str, str], home: str, session: str, binding: str) -> Place:
    """Have the materializer make the run directory, and take its lock."""
    run, lock = materializer.open_launch(session, binding)
    kept = environment.first_on_path(environment.own(environ), materializer.LAUNCH_BIN)
    return Place(DAC, {**kept, "AMUX_RUN": run}, home, Tool((TOOL,), ("AMUX_RUN",)), lock)


def none(environ: dict[str, str], home: str, where: endpoint.Endpoint, session: str, binding: str) -> Place:
    """The installed `amux`, told by the environment which Hub and conversation it serves."""
    words = installed(environ)
    kept = _reachable(environment.own(environ), words)
    tool, variables = _told(where, session, binding)
    return Place(NONE, {**kept, **variables}, home, Tool(words, tool))


def private_home(
    environ: dict[str, str],
    home: str,
    where: endpoint.Endpoint,
    session: str,
    binding: str,
    credentials: Credentials,
) -> Place:
    """A home of the session's own below the person's, with the credentials that were listed and no others."""
    words = installed(environ)
    own = make_home(home, session, credentials.files)
    kept = _reachable(environment.private(environ, own, credentials.variables), words)
    tool, variables = _told(where, session, binding)
    return Place(PRIVATE_HOME, {**kept, **variables}, own, Tool(words, tool))


@dataclass(frozen=True)
class Credentials:
    """What a private home is given: files below the person's home, and environment variables. Nothing by default."""

    files: Sequence[str] = ()
    variables: Sequence[str] = ()


def _told(where: endpoint.Endpoint, session: str, binding: str) -> tuple[tuple[str, ...], dict[str, str]]:
    address = where.path if where.remote is None else f"ssh://{where.remote}"
    told = {"AMUX_HUB": address, "AMUX_SESSION": session, "AMUX_MEMORY_BINDING": binding}
    return tuple(told), told


def installed(environ: dict[str, str]) -> tuple[str, ...]:
    """The words that run this very `amux` from anywhere. Raises `not_found`."""
    started = sys.argv[0]
    path = os.path.abspath(started) if os.sep in started else find.which(started, environ)
    if path is not None and os.path.basename(path) == TOOL and find.runnable(path):
        return (path,)
    if path is not None and path.endswith(".pyz") and os.path.isfile(path):
        return (sys.executable, "-IS", path)
    path = find.which(TOOL, environ)
    if path is None:
        raise AmuxError(
            "not_found", "no executable amux on PATH: the agent would have no way to its memory", found=TOOL
        )
    return (path,)


def _reachable(environ: dict[str, str], words: tuple[str, ...]) -> dict[str, str]:
    """The environment with `amux` on PATH, if the words are one such program. A relative entry before it could be
    a checkout with an `amux` of its own."""
    directory = os.path.dirname(words[0])
    if len(words) > 1:
        return environ
    entries = environ.get("PATH", os.defpath).split(os.pathsep)
    if not all(map(os.path.isabs, entries)):
        return environment.first_on_path(environ, directory)
    if find.which(TOOL, environ) is None:
        return environment.last_on_path(environ, directory)
    return environ


def make_home(home: str, name: str, credentials: Sequence[str]) -> str:
    """Make, or find again, the private home of this name, 0700, and copy the listed files into it."""
    path = os.path.join(home, HOMES, name)
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        if not os.path.lexists(path):
            os.mkdir(path, 0o700)
        found = os.lstat(path)
    except OSError as error:
        raise AmuxError("storage_io", f"the private home {path} cannot be made: {error.strerror}", path=path) from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise AmuxError("unsafe_file", f"{path} is not a directory of yours with mode 0700: it was not used", path=path)
    for file in credentials:
        _provide(home, path, file)
    return path


def _provide(home: str, private: str, file: str) -> None:
    """Copy one file of the person's home to the same place in the private one, 0600."""
    source = os.path.normpath(os.path.join(home, os.path.expanduser(file)))
    inside = os.path.relpath(source, home)
    if inside.startswith(os.pardir) or inside == os.curdir:
        raise AmuxError(
            "invalid_argument", f"--credential-file {file}: it is not below {home}", argument="credential-file"
        )
    target = os.path.join(private, inside)
    try:
        data = files.read(source, CREDENTIAL_BYTES + 1)
        if len(data) > CREDENTIAL_BYTES:
            raise AmuxError(
                "limit_exceeded",
                f"--credential-file {file} has over {CREDENTIAL_BYTES} bytes: that is more than a credential",
                limit="credential_bytes",
                value=CREDENTIAL_BYTES,
            )
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        if os.path.lexists(target):
            os.unlink(target)
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as copy:
            copy.write(data)
    except OSError as error:
        raise AmuxError("invalid_argument", f"--credential-file {file}: {error.strerror}", path=source) from error
