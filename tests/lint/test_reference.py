"""docs/reference says what the code does: generated parts are current, and every code is explained by hand."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

import pytest
from tests.lint.sources import ROOT

from amux import limits
from amux.errors import CODES

REFERENCE = ROOT / "docs" / "reference"


def _generator() -> ModuleType:
    # By its file: the folder's name is also that of a library.
    spec = importlib.util.spec_from_file_location("gen_docs", ROOT / "packaging" / "gen_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = _generator()


@pytest.mark.parametrize("name", GENERATOR.PARTS)
def test_generated_part_is_current(name: str) -> None:
    page, now, wanted = GENERATOR.rendered(name)
    assert now == wanted, f"{page.name} is out of date: run `make docs`"


@pytest.mark.parametrize("code", CODES)
def test_every_error_code_has_a_section_with_its_exit_status(code: str) -> None:
    sections = dict(re.findall(r"^### (\w+)\n+(.*?)(?=^##|\Z)", _page("errors.md"), re.MULTILINE | re.DOTALL))
    assert code in sections
    assert sections[code].startswith(f"Exit {CODES[code]}. ")


def test_no_section_explains_a_code_that_does_not_exist() -> None:
    assert set(re.findall(r"^### (\w+)$", _page("errors.md"), re.MULTILINE)) == set(CODES)


def test_the_tables_of_limits_agree_with_the_code() -> None:
    """The words of limits.md hold the numbers of `amux.limits`."""
    page = _page("limits.md").split("## By name")[0]
    kib = 1024
    for needed in (
        (f"| `MEMORY.md`, exactly that name at the top of a memory | {limits.ENTRY_BYTES // kib} KiB and "
        f"{limits.ENTRY_LINES} lines |"),
        f"| any other document | {limits.DOCUMENT_BYTES // kib} KiB |",
        f"| {limits.READABLE_BYTES // kib // kib} MiB can be read and exported |",
        f"| documents in one memory | {limits.SCOPE_DOCUMENTS:,} |",
        f"| bytes in one memory | {limits.SCOPE_BYTES // kib // kib} MiB |",
        (f"| a path | {limits.PATH_BYTES:,} bytes, {limits.PATH_DEPTH} components of at most "
        f"{limits.COMPONENT_BYTES} bytes each |"),
        f"| a query | {limits.QUERY_BYTES} bytes, 1 to {limits.QUERY_TERMS} keywords |",
        f"| {limits.SEARCH_DEFAULT} unless asked, at most {limits.SEARCH_MAXIMUM} |",
        f"| one snippet | {limits.SNIPPET_BYTES} bytes",
        (f"| one scan | {limits.SCAN_FILES:,} files, {limits.SCAN_BYTES // kib // kib} MiB, "
        f"{limits.SCAN_ENTRIES:,} directory entries, {limits.SCAN_MILLISECONDS} ms |"),
        f"| skipped files named in one answer | {limits.SKIPPED_NAMED} |",
        f"as compact JSON | {limits.REPLY_BYTES // kib} KiB |",
        f"| one page of an MCP result | {limits.PAGE_BYTES // kib} KiB of text |",
        f"| {limits.CONTINUATIONS}, for {limits.CONTINUATION_SECONDS // 60} minutes |",
        f"| launch states kept for one principal | {limits.SESSIONS} |",
        f"| one message on any socket | {limits.FRAME_BYTES // kib} KiB, nested {limits.JSON_DEPTH} deep |",
        f"first line on `mcp.sock` | {limits.PREAMBLE_BYTES // kib} KiB |",
    ):
        assert needed in page


def _page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")
