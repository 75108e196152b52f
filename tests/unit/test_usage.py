"""`amux admin usage`, from the interface to what a person reads: whose memory a line is about."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from amux.cli import admin
from amux_hub.administration import Administration, Measured
from amux_hub.identity import Caller
from amux_hub.interfaces.people import PAGE, PeopleMethods

_SCOPES = ["global", "principal:ann", "principal:global"]


class _Counted:
    """In the place of Administration."""

    def __init__(self, scopes: list[str]) -> None:
        self.scopes = scopes

    async def usage(self, after: str, most: int) -> tuple[list[Measured], int]:
        behind = [scope for scope in self.scopes if scope > after]
        return [Measured(scope, 1, 1024) for scope in behind[:most]], len(self.scopes)


class _Methods(PeopleMethods):
    def __init__(self, scopes: list[str]) -> None:
        self._administration = cast("Administration", _Counted(scopes))

    async def _administrator(self) -> Caller:
        return Caller(0, "root", "", "", administrator=True)


def _ask(scopes: list[str], after: str | None = None) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        return cast("dict[str, Any]", (await _Methods(scopes).GetUsage(after=after)).parameters)

    return asyncio.run(main())


def test_the_interface_names_the_scope_beside_the_principal() -> None:
    found = [(one["scope"], one["principal"]) for one in _ask(_SCOPES)["usage"]]
    assert found == [("global", "global"), ("principal:ann", "ann"), ("principal:global", "global")]


def test_pages_go_on_behind_the_last_scope() -> None:
    scopes = ["global", *(f"principal:{number:02}" for number in range(PAGE)), "principal:global"]
    first = _ask(scopes)
    second = _ask(scopes, first["next_after"])
    assert [one["scope"] for one in first["usage"] + second["usage"]] == scopes
    assert "next_after" not in second


def test_a_memory_that_cannot_be_counted_says_why_in_its_line(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    async def usage(_self: _Counted, _after: str, _most: int) -> tuple[list[Measured], int]:
        return [Measured("principal:ann", 0, 0, "is another's"), Measured("principal:bob", 1, 1024)], 2

    monkeypatch.setattr(_Counted, "usage", usage)
    reply = _ask([])
    assert [one.get("refused") for one in reply["usage"]] == ["is another's", None]
    monkeypatch.setattr(admin, "_pages", lambda _method, field: (reply.pop(field), reply))
    monkeypatch.setattr(admin, "as_json", lambda _options: False)
    admin.usage.main([], standalone_mode=False)
    ann, bob = capfd.readouterr().out.splitlines()
    assert ann.split(maxsplit=1) == ["principal:ann", "is another's"] and " 1 of 1024 documents" in bob


def test_a_person_reads_whose_memory_it_is(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    reply = _ask(_SCOPES)
    monkeypatch.setattr(admin, "_pages", lambda _method, field: (reply.pop(field), reply))
    monkeypatch.setattr(admin, "as_json", lambda _options: False)
    admin.usage.main([], standalone_mode=False)
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == _SCOPES
    assert len({line.index(" of 1024 documents") for line in lines}) == 1, "one column"
