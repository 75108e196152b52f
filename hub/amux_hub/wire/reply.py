"""Replies and errors as frames: compact UTF-8, 8,192 bytes at most, the terminating NUL included.

An error that would be longer keeps its code and loses words; a reply that would be longer is our own mistake
and never leaves. Only interface descriptions are exempt.
"""

from __future__ import annotations

from collections.abc import Mapping

from amux import limits
from amux.errors import AmuxError, varlink_name
from amux_hub.wire import strictjson

_SHORT = 200


class OversizeError(Exception):
    """A reply over the limit: `size` in bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(f"a reply of {size} bytes, over {limits.REPLY_BYTES}")
        self.size = size


def encode(parameters: Mapping[str, object], *, unbounded: bool = False) -> bytes:
    """The frame of a reply. Raises OversizeError."""
    frame = strictjson.dumps({"parameters": parameters}) + b"\0"
    if len(frame) > limits.REPLY_BYTES and not unbounded:
        raise OversizeError(len(frame))
    return frame


def encode_error(name: str, parameters: Mapping[str, object]) -> bytes:
    """The frame of an error, shortened if need be: first details, then every text, then all but the name."""
    details = parameters.get("details")
    shorter = dict(parameters)
    if isinstance(details, Mapping):
        shorter["details"] = _shortened(details)
    for candidate in (parameters, shorter, _shortened(shorter), {}):
        frame = strictjson.dumps(_valid({"error": name, "parameters": candidate})) + b"\0"
        if len(frame) <= limits.REPLY_BYTES:
            break
    return frame


def encode_failure(error: AmuxError) -> bytes:
    """The frame of one of our own errors, `io.amux.Hub.<Code>`."""
    return encode_error(varlink_name(error.code), {"message": error.message, "details": error.details})


def _shortened(values: Mapping[str, object]) -> dict[str, object]:
    return {
        key: value[:_SHORT] + "…" if isinstance(value, str) and len(value) > _SHORT else value
        for key, value in values.items()
    }


def _valid(value: object) -> object:
    """Texts that UTF-8 cannot carry, such as a file name's raw bytes, with those bytes as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {key: _valid(item) for key, item in value.items()}
    return value
