"""One JSON parser for everything that comes off a socket, stricter than RFC 8259 demands.

Refused, with `protocol_error`: what is not UTF-8, duplicate keys, NaN and Infinity (also as 1e999), integers
outside 64 bits, lone surrogates, a raw NUL or other control character, nesting over 16, more than 1,024 values.
An escaped U+0000 is text, which the operations refuse by their own grammar. No message quotes what was received.

The common frame costs microseconds: each expensive check runs only if a cheap one, at memchr speed, says that
it could matter.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from amux import limits
from amux.errors import AmuxError

_INT64 = 1 << 63
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# Possessive, and an unterminated string reaches to the end: linear whatever the bytes are.
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NOT_BRACKETS = re.compile(rb"[^\[\]{}]+")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _integer(text: str) -> int:
    # The length first: turning a long numeral into an int takes quadratic time.
    if len(text) > 20 or not -_INT64 <= (value := int(text)) < _INT64:
        raise ValueError("an integer does not fit 64 bits")
    return value


def _real(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number is out of range")
    return value


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


_decode = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_integer, parse_float=_real, parse_constant=_constant
).decode
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def loads(frame: bytes) -> Any:
    """The value of one frame, without its terminator. Raises AmuxError `protocol_error`."""
    try:
        if crowded(frame):
            raise ValueError(f"it holds more than {limits.JSON_VALUES} values")
        if frame.count(b"{") + frame.count(b"[") > limits.JSON_DEPTH:
            _check_depth(frame)
        value = _decode(frame.decode())
        if b"\\u" in frame and _SURROGATE.search(frame):
            _check_surrogates(value)
        return value
    except UnicodeDecodeError as error:
        raise refused(f"the message is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise refused("a text of the message holds half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise refused(f"the message is no JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise refused(f"the message is no strict JSON: {error}") from None


def dumps(value: object) -> bytes:
    """Compact UTF-8, nothing escaped that need not be. ValueError for what is no JSON."""
    return _encode(value).encode()


def crowded(frame: bytes) -> bool:
    """Whether `frame` holds over `limits.JSON_VALUES` values; what is no JSON may pass.

    Half a megabyte of `{},` takes a quarter of a second to parse and forty times its size in memory: for the price
    of sending it, one peer would hold up all the others.
    """
    if frame.count(b",") + frame.count(b"{") + frame.count(b"[") < limits.JSON_VALUES:
        return False
    rest, strings = _STRINGS.subn(b"", frame, 2 * limits.JSON_VALUES + 1)
    if strings > 2 * limits.JSON_VALUES:  # a value has a key at the most
        return True
    return rest.count(b",") + rest.count(b"{") + rest.count(b"[") >= limits.JSON_VALUES


def _check_depth(frame: bytes) -> None:
    """Nesting over the limit is refused before the recursive parser sees it."""
    depth = 0
    for bracket in _NOT_BRACKETS.sub(b"", _STRINGS.sub(b"", frame)):
        if bracket in b"{[":
            depth += 1
            if depth > limits.JSON_DEPTH:
                raise ValueError(f"it is nested deeper than {limits.JSON_DEPTH}")
        else:
            depth -= 1


def _check_surrogates(value: Any) -> None:
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, dict):
        for key, item in value.items():
            key.encode()
            _check_surrogates(item)
    elif isinstance(value, list):
        for item in value:
            _check_surrogates(item)


def refused(what: str) -> AmuxError:
    """The answer to a violation of the wire's rules; the connection ends with it."""
    return AmuxError("protocol_error", f"{what}; the connection is closed")
