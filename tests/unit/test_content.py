"""New content: valid UTF-8, no NUL, may be empty, within its limits; C21."""

from __future__ import annotations

import pytest

from amux_hub.store.content import check
from tests.refusals import refused


def test_content_is_stored_as_it_is() -> None:
    for text in ("", "\ufeffx", "a\r\nb\rc\n", "x" * 65536, "部署\n", "\x01\x7f\u202e"):
        assert check("a.md", text) == text.encode()


def test_nul_and_lone_surrogates_are_invalid_content() -> None:
    assert refused("invalid_content", check, "a.md", "部\0").details["position"] == 3
    refused("invalid_content", check, "a.md", "ab\ud800")
    refused("invalid_content", check, "MEMORY.md", "\0" * 5000)


def test_64_kib_of_utf8_and_one_more() -> None:
    check("a.md", "部" * 21845 + "x")
    error = refused("limit_exceeded", check, "a.md", "部" * 21845 + "xx")
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("document_bytes", 65536, 65537)


def test_c21_the_entry_file_over_2_kib_is_refused_with_the_numbers() -> None:
    check("MEMORY.md", "部" * 682 + "xx")
    error = refused("limit_exceeded", check, "MEMORY.md", "部" * 683)
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("entry_bytes", 2048, 2049)
    assert "2048" in error.message
    assert "2049" in error.message


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_c21_the_entry_file_over_64_lines_is_refused_with_the_numbers(end: str) -> None:
    check("MEMORY.md", f"x{end}" * 64)
    check("MEMORY.md", f"x{end}" * 63 + "tail")
    error = refused("limit_exceeded", check, "MEMORY.md", f"x{end}" * 64 + "tail")
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("entry_lines", 64, 65)


@pytest.mark.parametrize("path", ["sub/MEMORY.md", "memory2.md", "a.md"])
def test_only_that_name_at_the_root_has_the_limits_of_the_entry(path: str) -> None:
    check(path, "x\n" * 3000)
