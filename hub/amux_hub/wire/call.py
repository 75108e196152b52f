"""A Varlink call as it comes off the wire, https://varlink.org/Service, and the version that it speaks.

Promises: a frame becomes a `Call` or one AmuxError; no field says who is calling, and unknown fields mean
nothing. The extension field `amux` carries the client's `<major>.<minor>`; a call without one is served, so
that any Varlink tool works.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from amux import __version__
from amux.errors import AmuxError
from amux_hub.wire import strictjson

_VERSION = re.compile(r"(\d{1,6})\.(\d{1,6})", re.ASCII)
MAJOR, MINOR = (int(part) for part in __version__.split(".")[:2])
VERSION = f"{MAJOR}.{MINOR}"
_NAME_BYTES = 255
# Interface, dot, method: https://varlink.org/Interface-Definition.
_METHOD = re.compile(r"[A-Za-z](?:-*[A-Za-z0-9])*(?:\.[A-Za-z0-9](?:-*[A-Za-z0-9])*)+\.[A-Z][A-Za-z0-9]*")


class Call(NamedTuple):
    """`interface` and `method` are well-formed names, at most 255 bytes together."""

    interface: str
    method: str
    parameters: dict[str, Any]
    oneway: bool
    version: object


def parse(frame: bytes) -> Call:
    """Raises `protocol_error` for what is no call; the connection ends with it."""
    message = strictjson.loads(frame)
    if type(message) is not dict:
        raise strictjson.refused("the message is no object")
    name = message.get("method")
    if not isinstance(name, str) or len(name) > _NAME_BYTES or not _METHOD.fullmatch(name):
        raise strictjson.refused("the field method is no qualified method name")
    parameters = message.get("parameters")
    if parameters is None:
        parameters = {}
    elif type(parameters) is not dict:
        raise strictjson.refused("the field parameters is no object")
    flags = [field for field in ("oneway", "more", "upgrade") if _flag(message, field)]
    if len(flags) > 1:
        raise strictjson.refused(f"the fields {' and '.join(flags)} exclude each other")
    if flags == ["upgrade"]:
        raise strictjson.refused("no method here upgrades a connection")
    interface, _, method = name.rpartition(".")
    return Call(interface, method, parameters, flags == ["oneway"], message.get("amux"))


def _flag(message: dict[str, Any], name: str) -> bool:
    value = message.get(name)
    if value is None or isinstance(value, bool):
        return value is True
    raise strictjson.refused(f"the field {name} is no boolean")


def check_version(version: object) -> None:
    """Serve a client of this minor version or the previous one; any other gets one `version_mismatch`."""
    if version is None:
        return
    found = _VERSION.fullmatch(version) if isinstance(version, str) else None
    if found is None or int(found[1]) != MAJOR or not MINOR - 1 <= int(found[2]) <= MINOR:
        shown = str(version)[:32]
        raise AmuxError(
            "version_mismatch",
            f"the client speaks version {shown!r} and this Hub {MAJOR}.{MINOR}, which serves its own and the "
            "previous minor version: install the same version on both sides",
            client=shown,
            hub=f"{MAJOR}.{MINOR}",
        )
