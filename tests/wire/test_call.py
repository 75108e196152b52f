"""What is a call, which versions are served, and how replies and errors stay within 8,192 bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux import limits
from amux.errors import CODES, AmuxError, from_varlink, varlink_name
from amux_hub.wire import call, reply

_NO_CALL: dict[str, Any] = {
    "a list": [],
    "a text": "io.amux.Hub.WhoAmI",
    "no method": {},
    "method is a number": {"method": 1},
    "unqualified": {"method": "WhoAmI"},
    "lower case": {"method": "io.amux.Hub.whoAmI"},
    "two dots": {"method": "io..amux.Hub"},
    "underscore": {"method": "io.amux.Hub._x"},
    "line end": {"method": "io.amux.Hub.WhoAmI\n"},
    "not ASCII": {"method": "io.amux.Hub.Whoé"},
    "long": {"method": "io.amux." + "A" * 255},
    "parameters are a list": {"method": "io.amux.Hub.WhoAmI", "parameters": []},
    "oneway is a number": {"method": "io.amux.Hub.WhoAmI", "oneway": 1},
    "oneway and more": {"method": "io.amux.Hub.WhoAmI", "oneway": True, "more": True},
    "upgrade": {"method": "io.amux.Hub.WhoAmI", "upgrade": True},
}


@pytest.mark.parametrize("message", _NO_CALL.values(), ids=_NO_CALL)
def test_what_is_no_call_breaks_the_protocol(message: Any) -> None:
    with pytest.raises(AmuxError) as caught:
        call.parse(json.dumps(message).encode())
    assert caught.value.code == "protocol_error"


def test_a_call_is_taken_apart_and_unknown_fields_mean_nothing() -> None:
    message = {"method": "io.amux.Hub.WhoAmI", "parameters": None, "oneway": False, "principal": "root", "amux": "0.1"}
    parsed = call.parse(json.dumps(message).encode())
    assert parsed == call.Call("io.amux.Hub", "WhoAmI", {}, False, "0.1")


@pytest.fixture
def of_3_10(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hub of a version that has older and newer ones on every side."""
    monkeypatch.setattr(call, "MAJOR", 3)
    monkeypatch.setattr(call, "MINOR", 10)


@pytest.mark.parametrize("version", ["3.10", "3.9", None])
def test_own_and_previous_minor_version_are_served(of_3_10: None, version: str | None) -> None:
    call.check_version(version)


@pytest.mark.parametrize(
    "version",
    [
        *("3.11", "3.8", "3.0", "3.1", "3.100", "4.10", "2.10", "4.9", "3.9.0", "3.-9", " 3.9", "3.9\n", "٣.٩"),
        "1",
        "",
        "x" * 10000,
        1,
        True,
        ["0.1"],
    ],
)
def test_any_other_version_gets_one_error_that_names_both(of_3_10: None, version: object) -> None:
    with pytest.raises(AmuxError) as caught:
        call.check_version(version)
    assert caught.value.code == "version_mismatch"
    assert caught.value.details["hub"] == "3.10"
    assert str(version)[:32] in str(caught.value.details["client"])


_any_text = st.text(max_size=3000)


@given(st.sampled_from(sorted(CODES)), _any_text, st.dictionaries(_any_text, _any_text | st.integers() | st.none()))
def test_c18_an_error_keeps_its_code_within_the_cap(code: str, message: str, details: dict[str, Any]) -> None:
    error = AmuxError(code, message * 4)
    error.details = details
    frame = reply.encode_failure(error)
    assert len(frame) <= limits.REPLY_BYTES
    assert frame.endswith(b"\0")
    answer = json.loads(frame[:-1])
    assert answer["error"] == varlink_name(code)
    assert from_varlink(answer["error"], answer["parameters"]).code == code


def test_an_error_that_fits_arrives_unchanged() -> None:
    error = AmuxError("conflict", "changed", path="a.md", observed_revision="absent")
    answer = json.loads(reply.encode_failure(error)[:-1])
    assert answer["parameters"] == {"message": "changed", "details": error.details}


def test_c18_a_reply_over_the_cap_never_leaves() -> None:
    room = limits.REPLY_BYTES - len(b'{"parameters":{"a":""}}\0')
    assert len(reply.encode({"a": "x" * room})) == limits.REPLY_BYTES
    with pytest.raises(reply.OversizeError):
        reply.encode({"a": "x" * (room + 1)})
    with pytest.raises(reply.OversizeError):
        reply.encode({"a": "好" * (room // 3 + 1)})
    assert len(reply.encode({"a": "x" * 9000}, unbounded=True)) > limits.REPLY_BYTES
