"""Lines end at LF, CRLF or a lone CR, nothing else; C14."""

from __future__ import annotations

import pytest

from amux_hub.store.lines import count_lines, line_range

COUNTS = {
    b"": 0,
    b"a": 1,
    b"\n": 1,
    b"a\n": 1,
    b"a\nb": 2,
    b"\r\n": 1,
    b"\r": 1,
    b"\n\r": 2,
    b"\r\r\n": 2,
    b"\r\n\r\n": 2,
    b"a\rb\r\nc\n": 3,
    "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode(): 1,
}


@pytest.mark.parametrize(("data", "count"), COUNTS.items())
def test_the_count_is_the_terminators_plus_one_for_a_tail(data: bytes, count: int) -> None:
    assert count_lines(data) == count


RANGES = [
    ((0, 0), b"one\r\ntwo\rthree\nfour"),
    ((1, 0), b"one\r\ntwo\rthree\nfour"),
    ((1, 1), b"one\r\n"),
    ((0, 1), b"one\r\n"),
    ((2, 2), b"two\r"),
    ((2, 3), b"two\rthree\n"),
    ((4, 4), b"four"),
    ((3, 99), b"three\nfour"),
    ((4, 0), b"four"),
    ((5, 0), b""),
    ((5, 9), b""),
]


@pytest.mark.parametrize(("asked", "expected"), RANGES)
def test_c14_ranges_are_inclusive_and_keep_the_bytes(asked: tuple[int, int], expected: bytes) -> None:
    data = b"one\r\ntwo\rthree\nfour"
    begin, end = line_range(data, *asked)
    assert data[begin:end] == expected


def test_an_empty_file_has_no_line() -> None:
    for asked in ((0, 0), (1, 1), (0, 5), (7, 9)):
        assert line_range(b"", *asked) == (0, 0)
