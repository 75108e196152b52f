"""Strict JSON: what it takes is what `json` takes, less everything that two parsers could read differently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux import limits
from amux.errors import AmuxError
from amux_hub.wire import strictjson

_texts = st.text(st.characters(exclude_categories=["Cs"]))
_scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
_values = st.recursive(
    _scalars | _texts, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4)
)

_REFUSED = {
    "duplicate key": b'{"a":1,"a":1}',
    "duplicate key deeper": b'{"b":[{"a":1,"a":2}]}',
    "duplicate key by escape": b'{"a":1,"\\u0061":2}',
    "NaN": b'{"a":NaN}',
    "Infinity": b"[Infinity]",
    "-Infinity": b"[-Infinity]",
    "overflow": b"[1e999]",
    "negative overflow": b"[-1e999]",
    "65 bits": b"[9223372036854775808]",
    "a long integer": b"[" + b"9" * 5000 + b"]",
    "half a surrogate pair": b'["\\ud83d"]',
    "the other half": b'["\\uDE00"]',
    "half in a key": b'{"\\ud83d":1}',
    "halves in the wrong order": b'["\\ude00\\ud83d"]',
    "surrogate in UTF-8": b'["\xed\xa0\xbd"]',
    "overlong UTF-8": b'["\xc0\xaf"]',
    "Latin-1": '["é"]'.encode("latin-1"),
    "byte-order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "raw NUL": b'["\x00"]',
    "raw newline in a text": b'["\n"]',
    "trailing data": b"{}{}",
    "comment": b"{}//",
    "nothing": b"",
    "white space": b"  ",
    "single quotes": b"{'a':1}",
    "trailing comma": b"[1,]",
    "unterminated": b'{"a":"b',
    "depth": b"[" * 17 + b"]" * 17,
    "depth of objects": b'{"a":' * 17 + b"1" + b"}" * 17,
    "depth without an end": b"[" * limits.FRAME_BYTES,
}


@pytest.mark.parametrize("data", _REFUSED.values(), ids=_REFUSED)
def test_s6_what_is_ambiguous_is_refused(data: bytes) -> None:
    with pytest.raises(AmuxError) as caught:
        strictjson.loads(data)
    assert caught.value.code == "protocol_error"


def test_s6_sixteen_levels_are_accepted_and_brackets_in_texts_do_not_count() -> None:
    assert strictjson.loads(b"[" * 16 + b"]" * 16) is not None
    text = '[{"\\' * 1000
    assert strictjson.loads(strictjson.dumps({"a": text})) == {"a": text}


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"\\", b'"\\', b'"a\\"', b'["', b"{", b"]"])
def test_s6_hostile_frames_take_linear_time(piece: bytes) -> None:
    """Half a megabyte of each: quadratic work would take hours, not fail."""
    data = b"[" * 17 + piece * (limits.FRAME_BYTES // len(piece) - 17)
    with pytest.raises(AmuxError):
        strictjson.loads(data)
    with pytest.raises(AmuxError):
        strictjson.loads(b'"' + data)


@given(_values)
def test_round_trip(value: Any) -> None:
    assert strictjson.loads(strictjson.dumps(value)) == value


@given(
    st.binary()
    | _values.map(lambda value: json.dumps(value).encode())
    | st.text().map(lambda t: t.encode("utf-8", "replace"))
)
def test_s6_any_bytes_give_a_value_or_protocol_error(data: bytes) -> None:
    try:
        value = strictjson.loads(data)
    except AmuxError as error:
        assert error.code == "protocol_error"
        return
    assert value == json.loads(data)
    assert strictjson.loads(strictjson.dumps(value)) == value


@given(st.text(min_size=12))
def test_a_refusal_does_not_quote_the_message(text: str) -> None:
    data = b'{"' + text.encode("utf-8", "replace") + b'":'
    with pytest.raises(AmuxError) as caught:
        strictjson.loads(data)
    assert text not in caught.value.message


def test_dumps_is_compact_and_not_escaped() -> None:
    assert strictjson.dumps({"a": ["你好", 1]}) == '{"a":["你好",1]}'.encode()
