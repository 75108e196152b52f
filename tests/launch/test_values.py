"""What comes from the Hub is matched whole; a Hub that was taken over chooses nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from amux.errors import AmuxError
from amux.launch import values

SESSION = "s-" + "a7" * 13
STATE = {
    "session": SESSION,
    "agent": "pi",
    "kind": "task",
    "isolation": "dac",
    "binding": "principal:ann",
    "native": "0b3d8a92-7a3e-4f0e-9d8e-3f6d1d6a4a11",
}


def test_what_is_right_is_taken() -> None:
    assert values.begun({"session": SESSION, "binding": "global", "more": 1}) == (SESSION, "global")
    assert values.state(STATE, SESSION).native == STATE["native"]
    assert values.state({key: STATE[key] for key in STATE if key != "native"}, SESSION).native is None
    assert values.binding("principal:李 雷@example") == "principal:李 雷@example"


@pytest.mark.parametrize(
    "session",
    [None, 1, "", SESSION + "\n", "\n" + SESSION, SESSION[:-1], SESSION + "a", "s-" + "A" * 26, "s-" + "1" * 26,
     "s-" + "a" * 25 + "/", "../" + SESSION, [SESSION]],
)  # fmt: skip
def test_m1_another_session_id_is_not_used(session: Any) -> None:
    with pytest.raises(AmuxError) as refused:
        values.begun({"session": session, "binding": "global"})
    assert refused.value.code == "protocol_error"


@pytest.mark.parametrize(
    "binding",
    [None, 0, "", "Global", "global\n", "global ", "principal:", "principal:a:b", "principal:a/b", "principal:a\nb",
     "principal:a\0", "principal:\x85", "principal:\udc80", "user:ann", "principal:" + "a" * 256,
     "principal:" + "李" * 86, "--help", {"principal": "ann"}],
)  # fmt: skip
def test_m1_another_binding_is_not_used(binding: Any) -> None:
    with pytest.raises(AmuxError):
        values.begun({"session": SESSION, "binding": binding})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("session", "s-" + "b" * 26),
        ("agent", "../evil"),
        ("agent", "pi --mode rpc"),
        ("agent", None),
        ("kind", "root"),
        ("kind", ["task"]),
        ("isolation", "off"),
        ("isolation", None),
        ("binding", "principal:a/b"),
        ("native", "a b"),
        ("native", "x" * 257),
        ("native", "é"),
        ("native", 5),
        ("native", ""),
        ("native", "a\n"),
    ],
)
def test_m1_another_launch_state_is_not_used(field: str, value: Any) -> None:
    with pytest.raises(AmuxError) as refused:
        values.state({**STATE, field: value}, SESSION)
    assert refused.value.code == "protocol_error"
