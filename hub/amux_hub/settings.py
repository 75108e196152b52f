"""settings.yaml: what `amux system config set` saves. Saved is not running: the Hub reads it when it starts.

Promises: the file holds savable keys alone, is replaced atomically with mode 0600, and is never written by
anything but `save`. Every function here blocks on the disk: call them off the loop.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Mapping

import yaml

from amux.errors import AmuxError
from amux_hub.config import KEYS, SETTINGS_NAME, Config, Key, Problem, Value, read


def load(home: str) -> dict[str, Value]:
    """What is saved at this moment. A broken file is `storage_io`, naming line and key."""
    problems: list[Problem] = []
    values = read(os.path.join(home, SETTINGS_NAME), problems, missing_ok=True, savable_only=True)
    if problems:
        raise AmuxError("storage_io", f"{problems[0]}: correct the file", file=problems[0].file)
    return values


def parse_value(key: Key, text: str) -> Value:
    """The value that a person typed for `key`; `invalid_argument` says what is wanted."""
    value: object = text
    if key.kind is bool:
        value = {"true": True, "false": False}.get(text)
    elif key.kind is not str:
        with contextlib.suppress(ValueError):
            value = int(text) if key.kind is int else float(text)
    if not key.accepts(value):
        raise AmuxError("invalid_argument", f"{key.name} is {key.wanted()}, not {text[:80]!r}", key=key.name)
    assert isinstance(value, bool | int | float | str)  # no other kind is savable
    return value


def shown(value: Value) -> str:
    """The inverse of `parse_value`; lists and mappings as hub.yaml has them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | Mapping):
        plain = list(value) if isinstance(value, tuple) else dict(value)
        return yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=1 << 20).strip()
    return f"{value:g}" if isinstance(value, float) else str(value)


def known(name: str) -> Key:
    if name not in KEYS:
        raise AmuxError(
            "invalid_argument",
            f"there is no setting {name[:80]!r}: `amux system config list` shows them",
            key=name[:80],
        )
    return KEYS[name]


def save(config: Config, name: str, text: str) -> Value:
    """Save one setting. Refused for a key that is not savable, or pinned by hub.yaml (`forbidden`)."""
    key = known(name)
    if not key.savable:
        raise AmuxError(
            "forbidden", f"{name} is set in {config.file} alone, not saved: edit that file", file=config.file
        )
    if name in config.pinned:
        raise AmuxError("forbidden", f"{name} is pinned by {config.file}: change or remove it there", file=config.file)
    value = parse_value(key, text)
    home: str = config["home"]
    _replace(home, {**load(home), name: value})
    return value


def _replace(home: str, values: dict[str, Value]) -> None:
    """Write, sync, rename, sync the directory: rename(2) and fsync(2) make the change whole and lasting."""
    tree: dict[str, dict[str, Value]] = {}
    for name, value in values.items():
        section, _, rest = name.partition(".")
        tree.setdefault(section, {})[rest] = value
    data = b"# Saved by `amux system config set`.\n" + yaml.safe_dump(tree).encode()
    temporary = f".{SETTINGS_NAME}.{secrets.token_hex(8)}"
    try:
        directory = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _storage(home, error) from error
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o600, dir_fd=directory)
        try:
            with open(fd, "wb") as stream:
                os.fchmod(fd, 0o600)
                stream.write(data)
                stream.flush()
                os.fsync(fd)
            os.rename(temporary, SETTINGS_NAME, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=directory)
            raise
        os.fsync(directory)
    except OSError as error:
        raise _storage(home, error) from error
    finally:
        os.close(directory)


def _storage(home: str, error: OSError) -> AmuxError:
    codes = {errno.ENOSPC: "storage_full", errno.EDQUOT: "storage_full", errno.EROFS: "storage_readonly"}
    return AmuxError(
        codes.get(error.errno or 0, "storage_io"),
        f"settings.yaml in {home} could not be saved: {error.strerror}; the old settings stay",
        errno=error.errno or 0,
    )
