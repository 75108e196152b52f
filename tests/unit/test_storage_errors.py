"""What the operating system refused, as codes: full, read-only, broken."""

from __future__ import annotations

import errno

import pytest

from amux_hub.store.faults import storage_error, unsafe

CODES = {
    errno.ENOSPC: "storage_full",
    errno.EDQUOT: "storage_full",
    errno.EROFS: "storage_readonly",
    errno.EACCES: "storage_readonly",
    errno.EPERM: "storage_readonly",
    errno.EIO: "storage_io",
    errno.EMFILE: "storage_io",
    errno.ESTALE: "storage_io",
}


@pytest.mark.parametrize(("number", "code"), CODES.items(), ids=[errno.errorcode[number] for number in CODES])
def test_every_refusal_of_the_system_has_a_code_and_says_what_was_done(number: int, code: str) -> None:
    error = storage_error(OSError(number, "x"), "writing a.md")
    assert error.code == code
    assert error.message.startswith("writing a.md ")
    assert error.details["errno"] == errno.errorcode[number]
    assert "\n" not in error.message


def test_an_error_without_a_number_is_storage_io() -> None:
    assert storage_error(OSError("odd"), "writing a.md").code == "storage_io"
    assert storage_error(OSError(99999, "odd"), "writing a.md").details["errno"] == "error"


def test_unsafe_names_the_path_and_the_reason() -> None:
    error = unsafe("a.md", "not a regular file")
    assert (error.code, error.details) == ("unsafe_file", {"path": "a.md", "reason": "not a regular file"})
