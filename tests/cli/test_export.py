"""`amux memory export`: one document whole, byte for byte, or nothing at all."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.cli.scripted import ScriptedHub
from tests.cli.tool import Tool, failure, put
from tests.harness import Hub

EXPORTED = "".join(f"{number} 行\n" for number in range(4000)).encode()


def test_export_joins_pages(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    put(amux, hub, "long.md", EXPORTED)
    assert amux.run("memory", "export", "long.md", hub=hub.sockets["hub"]).out == EXPORTED
    out = tmp_path / "out.md"
    out.write_bytes(b"old")
    result = amux.run("memory", "export", "long.md", "--output", str(out), hub=hub.sockets["hub"])
    assert (result.status, result.out) == (0, b"")
    assert out.read_bytes() == EXPORTED
    assert os.listdir(tmp_path) == ["out.md"]


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o600), (0o022, 0o600), (0o277, 0o400)])
def test_c23_export_respects_the_umask(amux: Tool, hub: Hub, tmp_path: Path, umask: int, mode: int) -> None:
    put(amux, hub, "a.md", b"x")
    out = tmp_path / "out.md"
    words = ("memory", "export", "a.md", "--output", str(out))
    assert amux.run(*words, hub=hub.sockets["hub"], umask=umask).status == 0
    assert stat.S_IMODE(out.stat().st_mode) == mode


def test_export_of_a_missing_document(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    out = tmp_path / "out.md"
    result = amux.run("memory", "export", "no.md", "--output", str(out), hub=hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (3, "not_found")
    assert not out.exists()


def test_export_into_a_device_leaves_the_device(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    put(amux, hub, "a.md", b"through the pipe")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    collected: list[bytes] = []
    reader = threading.Thread(target=lambda: collected.append(pipe.read_bytes()))
    reader.start()
    assert amux.run("memory", "export", "a.md", "--output", str(pipe), hub=hub.sockets["hub"]).status == 0
    reader.join()
    assert collected == [b"through the pipe"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_export_into_a_pipe_without_a_name_of_its_own(amux: Tool, hub: Hub, name: str) -> None:
    put(amux, hub, "a.md", b"through the pipe")
    result = amux.run("memory", "export", "a.md", "--output", name, hub=hub.sockets["hub"])
    assert (result.status, result.out, result.err) == (0, b"through the pipe", b"")


def test_export_goes_where_a_link_leads(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    put(amux, hub, "a.md", b"x")
    link, target = tmp_path / "link.md", tmp_path / "target.md"
    link.symlink_to(target)
    for before in (None, b"old"):
        if before is not None:
            target.write_bytes(before)
        assert amux.run("memory", "export", "a.md", "--output", str(link), hub=hub.sockets["hub"]).status == 0
        assert link.is_symlink() and target.read_bytes() == b"x"


@pytest.mark.parametrize("name", ["no/such/directory/out.md", "."])
def test_export_that_cannot_be_written(amux: Tool, hub: Hub, tmp_path: Path, name: str) -> None:
    put(amux, hub, "a.md", b"x")
    result = amux.run("memory", "export", "a.md", "--output", str(tmp_path / name), hub=hub.sockets["hub"])
    assert (result.status, result.error["code"]) == (2, "invalid_argument")


def page(content: str, revision: str, **more: object) -> dict[str, Any]:
    return {"parameters": {"path": "a.md", "exists": True, "revision": revision, "content": content, **more}}


@pytest.mark.parametrize(
    "second",
    [
        page("new text", "b" * 64, truncated=False),
        {"parameters": {"path": "a.md", "exists": False, "revision": "absent", "content": "", "truncated": False}},
        failure("invalid_argument"),  # the offset lies beyond the new end, or inside a character
        failure("not_utf8"),
        failure("unsafe_file"),
    ],
    ids=["changed", "deleted", "shorter", "not-utf8", "link"],
)
def test_export_conflict_between_pages(
    amux: Tool, scripted: ScriptedHub, tmp_path: Path, second: dict[str, Any]
) -> None:
    first = page("old ", "a" * 64, truncated=True, next_offset=4)
    scripted.then(*[scripted.answers(first, second)] * 2)
    result = amux.run("memory", "export", "a.md", hub=scripted.path)
    assert (result.status, result.out, result.error["code"]) == (4, b"", "conflict")
    out = tmp_path / "out.md"
    result = amux.run("memory", "export", "a.md", "--output", str(out), hub=scripted.path)
    assert result.status == 4
    assert not out.exists()


def test_export_checks_what_it_joined(amux: Tool, scripted: ScriptedHub) -> None:
    scripted.then(scripted.answers(page("not this", "a" * 64, truncated=False)))
    result = amux.run("memory", "export", "a.md", hub=scripted.path)
    assert (result.status, result.out, result.error["code"]) == (1, b"", "protocol_error")
