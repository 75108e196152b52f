"""hub.yaml and settings.yaml: reading, checking, and what is in force. The keys themselves stand in `keys`.

Promises: a file that this module accepts can be run; one that it refuses is refused with every problem
listed, each naming file, line, key, the value found and the value wanted. It must not decide anything that
needs the running service, and it opens no file but the two that it is given.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from amux_hub.keys import KEYS, Key, Value

__all__ = ["KEYS", "Config", "ConfigError", "Key", "Problem", "Value", "load", "parse", "read", "reload"]

SETTINGS_NAME = "settings.yaml"
SYSTEM_FILE = "/etc/amux/hub.yaml"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong in a configuration file. `line` counts from 1, None for the file as a whole."""

    file: str
    line: int | None
    key: str
    found: str
    wanted: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        key = f"{self.key}: " if self.key else ""
        return f"{where}: {key}found {self.found}, wanted {self.wanted}"


class ConfigError(Exception):
    """A configuration that cannot be used: all its problems, in the order of the file."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True)
class Config:
    """The configuration in force: `hub.yaml` over `settings.yaml` over the defaults.

    `pinned` and `saved` are what each file says; `file` is where `hub.yaml` was looked for (it may be
    missing). `system` says that it is a system Hub's.
    """

    file: str
    pinned: Mapping[str, Value] = field(default_factory=dict)
    saved: Mapping[str, Value] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    given: bool = False
    system: bool = False

    def __getitem__(self, name: str) -> Any:
        for layer in (self.pinned, self.saved):
            if name in layer:
                return layer[name]
        return self.default(name)

    def source(self, name: str) -> str:
        """The file that decides `name`, or `default`."""
        if name in self.pinned:
            return self.file
        return os.path.join(self["home"], SETTINGS_NAME) if name in self.saved else "default"

    def default(self, name: str) -> Value:
        key = KEYS[name]
        if self.system and key.system is not None:
            return key.system
        if key.default is not None:
            return key.default
        if name == "home":
            return default_home(self.env)
        if name == "sockets.hub":
            return os.path.join(runtime_directory(self.env, self["home"]), "hub.sock")
        return os.path.join(os.path.dirname(self["sockets.hub"]), name.removeprefix("sockets.") + ".sock")

    def values(self) -> dict[str, Value]:
        """Every key with its value in force."""
        return {name: self[name] for name in KEYS}


def default_file(env: Mapping[str, str]) -> str:
    """`$XDG_CONFIG_HOME/amux/hub.yaml`, by the XDG Base Directory Specification."""
    base = env.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else _at_home(env, ".config"), "amux", "hub.yaml")


def default_home(env: Mapping[str, str]) -> str:
    return env.get("AMUX_HOME") or _at_home(env, ".local/state/amux")


def _at_home(env: Mapping[str, str], path: str) -> str:
    """`path` in the home directory. A relative HOME would let the working directory choose: the account's then."""
    home = env.get("HOME", "")
    if not os.path.isabs(home):
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            home = "/"
    return os.path.join(home, path)


def runtime_directory(env: Mapping[str, str], home: str) -> str:
    """Where the sockets of a private Hub stand; the client looks at the same places."""
    base = env.get("XDG_RUNTIME_DIR", "")
    return os.path.join(base, "amux") if os.path.isabs(base) else os.path.join(home, "run")


def load(file: str | None, env: Mapping[str, str], *, system: bool = False) -> Config:
    """Read `hub.yaml` (`file`, else the default place, where it may be missing) and `settings.yaml`.

    With `system` as the Hub of a host: nothing comes from the environment, and `hub.yaml` must be root's alone.
    Raises ConfigError with all problems of both files.
    """
    if system:
        return _load(file or SYSTEM_FILE, {}, given=file is not None, system=True)
    return _load(file or default_file(env), env, given=file is not None, system=False)


def reload(config: Config) -> Config:
    """The same files as they are now. Raises ConfigError."""
    return _load(config.file, config.env, given=config.given, system=config.system)


def _load(file: str, env: Mapping[str, str], *, given: bool, system: bool) -> Config:
    problems = _of_root(file) if system else _of_owner(file)
    named = env.get("AMUX_HOME", "")
    if named and not os.path.isabs(named):
        problems.append(Problem("the environment", None, "AMUX_HOME", _shown(named), "an absolute path"))
    pinned = read(file, problems, missing_ok=not given)
    home = Config(file, pinned, {}, env, system=system)["home"]
    saved = read(os.path.join(home, SETTINGS_NAME), problems, missing_ok=True, savable_only=True)
    if problems:
        raise ConfigError(problems)
    return Config(file, pinned, saved, env, given, system)


def _of_owner(file: str) -> list[Problem]:
    """A private Hub does what its own account says, or root, and nobody else."""
    try:
        status = os.stat(file)
    except OSError:
        return []  # reading it says what is wrong
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid in (0, os.geteuid()) and not mode & 0o002:
        return []
    found = f"owner UID {status.st_uid}, mode {mode:04o}"
    return [Problem(file, None, "", found, f"owner UID {os.geteuid()} or root, and no write permission for everybody")]


def _of_root(file: str) -> list[Problem]:
    """Whoever may write the file of a system Hub, or rename another one to its place, is its administrator."""
    problems = []
    for path in (os.path.dirname(os.path.abspath(file)), file):
        try:
            status = os.stat(path)
        except OSError:
            continue  # reading it says what is wrong
        mode = stat.S_IMODE(status.st_mode)
        if status.st_uid != 0 or mode & 0o022:
            found = f"owner UID {status.st_uid}, mode {mode:04o}"
            problems.append(Problem(path, None, "", found, "owner root, and no write permission for others"))
    return problems


def read(file: str, problems: list[Problem], *, missing_ok: bool, savable_only: bool = False) -> dict[str, Value]:
    """The keys of one file that are right; what is wrong is appended to `problems`."""
    try:
        data = _bytes_of(file)
    except FileNotFoundError:
        if not missing_ok:
            problems.append(Problem(file, None, "", "no such file", "a YAML file"))
        return {}
    except OSError as error:
        problems.append(Problem(file, None, "", error.strerror or str(error), "a readable file"))
        return {}
    return parse(file, data, problems, savable_only=savable_only)


def _bytes_of(file: str) -> bytes:
    """Only a regular file: a FIFO would keep whoever reads it waiting for ever."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "something that is no file")
        return opened.read()


def parse(file: str, data: bytes, problems: list[Problem], *, savable_only: bool = False) -> dict[str, Value]:
    """Like `read`, on the bytes of a file. Every key is looked at, whatever stands before it."""
    try:
        loader = yaml.SafeLoader(data)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        problems.append(Problem(file, line, "", _shown(error.problem or "no YAML"), "valid YAML"))
        return {}
    except RecursionError:
        problems.append(Problem(file, None, "", "lists or mappings nested too deeply", "a mapping of keys"))
        return {}
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last two: escapes that are no character
        problems.append(Problem(file, None, "", _shown(str(error)), "valid YAML in UTF-8"))
        return {}
    if root is None:
        return {}
    if not isinstance(root, yaml.MappingNode):
        found = _shown(getattr(root, "value", "a list"))
        problems.append(Problem(file, root.start_mark.line + 1, "", found, "a mapping of keys"))
        return {}
    values: dict[str, Value] = {}
    for name, node, wrong in _leaves(root, ""):
        line = node.start_mark.line + 1
        if wrong:
            problems.append(Problem(file, line, _printable(name), *wrong))
            continue
        key = KEYS[name]
        value = _construct(loader, node)
        if savable_only and not key.savable:
            savable = ", ".join(other.name for other in KEYS.values() if other.savable)
            problems.append(Problem(file, line, name, "a key of hub.yaml", f"only {savable}"))
        elif key.accepts(value):
            values[name] = float(value) if key.kind is float else tuple(value) if key.kind is tuple else value
        else:
            entry = key.wrong_entry(value) if key.kind in (dict, tuple) else None
            found = _shown(value) if entry is None else _printable(entry)
            problems.append(Problem(file, line, name, found, key.wanted()))
    return values


def _construct(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    try:
        return loader.construct_object(node, deep=True)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return getattr(node, "value", node.tag)


_Wrong = tuple[str, str] | None


def _leaves(mapping: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, yaml.Node, _Wrong]]:
    """Each value of the mapping under its dotted name, with (found, wanted) where the name is wrong."""
    seen: set[str] = set()
    for key_node, node in mapping.value:
        text = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list or mapping as a key"
        name = prefix + text
        section = any(key.startswith(name + ".") for key in KEYS)
        if name in seen:
            yield name, key_node, ("the key a second time", "each key once")
        elif section and isinstance(node, yaml.MappingNode):
            yield from _leaves(node, name + ".")
        elif section and not (isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"):
            yield name, node, (_shown(getattr(node, "value", "")), "a mapping of keys")
        elif not section and (name not in KEYS or "." in text):
            yield name, key_node, ("an unknown key", _nearest(name))
        elif not section and (twice := _twice(node)) is not None:
            yield name, twice, ("a name a second time", "each name once")
        elif not section:
            yield name, node, None
        seen.add(name)


def _twice(node: yaml.Node) -> yaml.Node | None:
    """The second of two equal keys of a mapping, which YAML itself would let pass."""
    seen = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        text = key.value if isinstance(key, yaml.ScalarNode) else None
        if text in seen:
            return key  # type: ignore[no-any-return]
        seen.add(text)
    return None


def _nearest(name: str) -> str:
    """The known keys of the same section, so that a typing error shows."""
    if name in KEYS:
        section, _, rest = name.partition(".")
        return f"{rest} indented below {section}:"
    section = name.rpartition(".")[0]
    known = [key for key in KEYS if key.rpartition(".")[0] == section] if section else []
    return "one of " + ", ".join(known or sorted({key.partition(".")[0] for key in KEYS}))


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def _printable(text: str) -> str:
    return _CONTROL.sub("?", text if len(text) <= 80 else text[:79] + "…")


def _shown(value: object) -> str:
    """A value as a person wrote it, short and on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a mapping"
    if value is None:
        return "nothing"
    return _printable(f"'{value}'" if isinstance(value, str) else str(value))
