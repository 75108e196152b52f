"""Where the agent is installed: the program that was named, PATH, then where npm and the vendors put things.

Promises that nothing comes from the working directory: entries of PATH that are not absolute are passed over, as a
checkout must not choose what is run. Answers an absolute path.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from amux.errors import AmuxError
from amux.launch import files
from amux.launch.agent import Agent

NPM = (
    ".local/bin",
    ".npm-global/bin",
    ".npm-packages/bin",
    ".volta/bin",
    ".bun/bin",
    ".local/share/pnpm",
    ".yarn/bin",
    ".asdf/shims",
    ".local/share/mise/shims",
    "n/bin",
)
"""Below the home: `npm install -g` with the prefixes that npm's own pages recommend, and other node managers."""
SYSTEM = ("/usr/local/bin", "/usr/bin", "/home/linuxbrew/.linuxbrew/bin")
NVM = ".nvm/versions/node"
NPMRC_BYTES = 64 * 1024


def program(agent: Agent, named: str | None, environ: Mapping[str, str], home: str) -> str:
    """The agent's executable. Raises `not_found`, or `invalid_argument` for a named one that cannot be run."""
    if named is not None:
        return _named(named, environ)
    looked: list[str] = []
    for directory in (*on_path(environ), *_usual(agent, home)):
        if directory in looked:
            continue
        looked.append(directory)
        for name in agent.programs:
            path = os.path.join(directory, name)
            if runnable(path):
                return path
    raise AmuxError(
        "not_found",
        f"{agent.name} is not installed where amux looks (PATH, {', '.join(f'~/{place}' for place in agent.places)}"
        f"{', ' if agent.places else ''}npm's usual places): install it ({agent.install}), or name it with --program",
        found=agent.name,
    )


def _named(named: str, environ: Mapping[str, str]) -> str:
    if os.sep in named:
        path = os.path.abspath(os.path.expanduser(named))
        if runnable(path):
            return path
    else:
        found = which(named, environ)
        if found is not None:
            return found
    raise AmuxError("invalid_argument", f"--program {named}: there is no such executable file", argument="program")


def which(name: str, environ: Mapping[str, str]) -> str | None:
    """The first on PATH, as a shell finds it, but never below a relative entry."""
    for directory in on_path(environ):
        path = os.path.join(directory, name)
        if runnable(path):
            return path
    return None


def on_path(environ: Mapping[str, str]) -> list[str]:
    """The absolute entries of PATH."""
    return [entry for entry in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(entry)]


def runnable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _usual(agent: Agent, home: str) -> Iterator[str]:
    for place in (*agent.places, *NPM):
        yield os.path.join(home, place)
    prefix = _npm_prefix(home)
    if prefix is not None:
        yield os.path.join(prefix, "bin")
    versions = os.path.join(home, NVM)
    try:
        found = os.listdir(versions)
    except OSError:
        found = []
    for version in sorted(found, key=_version, reverse=True):  # the newest first
        yield os.path.join(versions, version, "bin")
    yield from SYSTEM


def _version(name: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else 0 for part in name.removeprefix("v").split("."))


def _npm_prefix(home: str) -> str | None:
    """`prefix=` of ~/.npmrc, if it is absolute."""
    try:
        lines = files.read(os.path.join(home, ".npmrc"), NPMRC_BYTES).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        key, equals, value = line.partition("=")
        if equals and key.strip() == "prefix":
            value = value.strip().strip("\"'")
            for variable in ("~", "${HOME}", "$HOME"):
                if value.startswith(variable + "/"):
                    value = home + value.removeprefix(variable)
            return value if os.path.isabs(value) else None
    return None
