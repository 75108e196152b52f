"""The first line of `amux mcp` and its answer, before any MCP (docs/reference/wire.md).

    → {"amux":1,"session":"…","binding":"…"}        session and binding may be missing
    ← {"amux":1,"version":"0.1.0"}                   or {"error":{"code","message","details"}}, then close

A session and a binding are preconditions, never credentials: who is calling comes from the kernel alone. And
the last line of a Hub that stops:

    ← {"amux":1,"closing":true}                      what is not answered by now was not run
"""

from __future__ import annotations

from dataclasses import dataclass

from amux import __version__
from amux.errors import AmuxError
from amux_hub.mcp.pages import compact

PROTOCOL = 1
_KEYS = frozenset({"amux", "session", "binding"})


@dataclass(frozen=True, slots=True)
class Preamble:
    """What a relay says of itself: the launch that it belongs to and the scope that it began with; empty: none."""

    session: str = ""
    binding: str = ""


def parse(value: object) -> Preamble:
    """Raises `invalid_argument` for anything but the three keys, `version_mismatch` for another protocol."""
    if not isinstance(value, dict):
        raise _invalid("it is not a JSON object")
    protocol = value.get("amux")
    if isinstance(protocol, bool) or not isinstance(protocol, int):
        raise _invalid('it has no number "amux"')
    if protocol != PROTOCOL:
        raise AmuxError(
            "version_mismatch",
            f"this Hub ({__version__}) speaks protocol {PROTOCOL} with amux mcp, not {protocol}: use the amux "
            "that came with the Hub",
            value=PROTOCOL,
            found=protocol,
        )
    unknown = sorted(set(value) - _KEYS)
    if unknown:
        raise _invalid(f"the key {unknown[0][:40]!r} is unknown")
    for key in ("session", "binding"):
        if key in value and not isinstance(value[key], str):
            raise _invalid(f'"{key}" is not a string')
    return Preamble(value.get("session", ""), value.get("binding", ""))


def accepted() -> bytes:
    return compact({"amux": PROTOCOL, "version": __version__}).encode()


def refused(error: AmuxError) -> bytes:
    """The one line, without its line end, that a connection gets which is not served."""
    return compact(error.to_json()).encode()


CLOSING = compact({"amux": PROTOCOL, "closing": True}).encode()


def _invalid(what: str) -> AmuxError:
    return AmuxError(
        "invalid_argument",
        f'the first line of a connection to mcp.sock is refused: {what}; wanted is {{"amux":1}}, with '
        '"session" and "binding" if there are any (`amux mcp` writes it)',
    )
