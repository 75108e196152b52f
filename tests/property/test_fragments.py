"""Fragments of any text: they concatenate to the file, fit their budget, and are cut where the rules say; C14, C18."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amux_hub.store import read
from amux_hub.store.fragment import cut, escaped_size, fitting, joined
from amux_hub.store.lines import count_lines
from tests.property.texts import PIECES, long_texts, texts
from tests.store.kit import frame_size, sha


def fragments(path: str, data: bytes, end_line: int = 0) -> list[dict[str, Any]]:
    """All fragments of a document, following next_offset."""
    found: list[dict[str, Any]] = [read.get(path, data, 0, end_line, 0)]
    while found[-1]["truncated"]:
        offset = found[-1]["next_offset"]
        assert offset > found[-1]["offset"]  # always progress
        found.append(read.get(path, data, 0, end_line, offset))
    return found


def naive_lines(data: bytes) -> list[bytes]:
    """Lines by hand: LF, CRLF or a lone CR end one."""
    lines, begin, at = [], 0, 0
    while at < len(data):
        if data[at : at + 2] == b"\r\n":
            at += 2
        elif data[at : at + 1] in (b"\r", b"\n"):
            at += 1
        else:
            at += 1
            continue
        lines.append(data[begin:at])
        begin = at
    return lines + ([data[begin:]] if begin < len(data) else [])


@pytest.mark.parametrize("piece", PIECES)
def test_every_piece_64_kib_long(piece: str) -> None:
    data = (piece * (65536 // len(piece.encode()))).encode()
    found = fragments("a.md", data)
    assert "".join(page["content"] for page in found).encode() == data
    assert all(frame_size(page) <= 8192 for page in found)


@given(text=long_texts(), path=st.sampled_from(["a.md", '"' * 200 + ".md", "部/" * 15 + "x.md"]))
def test_fragments_concatenate_to_the_file_and_fit(text: str, path: str) -> None:
    data = text.encode()
    found = fragments(path, data)
    assert "".join(page["content"] for page in found).encode() == data
    begin = 0
    for page in found:
        assert frame_size(page) <= 8192
        assert page["offset"] == begin
        assert (page["revision"], page["size_bytes"]) == (sha(data), len(data))
        assert page["total_lines"] == len(naive_lines(data)) == count_lines(data)
        begin += len(page["content"].encode())
        assert ("next_offset" in page) == page["truncated"]
        if page["truncated"]:
            assert page["next_offset"] == begin
            assert data[begin - 1 : begin + 1] != b"\r\n"
            # Where it is cut inside a joined sequence, that is longer than 32 code points.
            rest = text.encode()[:begin].decode()
            assert not joined(text, len(rest)) or all(joined(text, len(rest) - back) for back in range(32))
            # One code point more would not have fitted, or it was cut back to something better.
            assert len(page["content"]) > 0


@given(text=texts, start=st.integers(0, 12), end=st.integers(0, 12))
def test_ranges_are_those_of_a_naive_oracle(text: str, start: int, end: int) -> None:
    if end and start > end:
        return
    data = text.replace("\0", "").encode()
    lines = naive_lines(data)
    answer: dict[str, Any] = read.get("a.md", data, start, end, 0)
    wanted = lines[max(start - 1, 0) : end or None]
    assert answer["content"].encode() == b"".join(wanted)
    assert answer["total_lines"] == len(lines)
    assert answer["truncated"] is False
    if wanted:
        assert (answer["start_line"], answer["end_line"]) == (max(start, 1), max(start, 1) + len(wanted) - 1)
        assert answer["offset"] == len(b"".join(lines[: max(start - 1, 0)]))


@given(text=texts, number=st.integers(0, 200))
def test_every_offset_between_code_points_reads_on_from_there(text: str, number: int) -> None:
    data = text.replace("\0", "").encode()
    offset = len(data.decode()[:number].encode())
    answer: dict[str, Any] = read.get("a.md", data, 0, 0, offset)
    assert answer["content"].encode() == data[offset:]
    if offset < len(data):
        lines = naive_lines(data)
        position = 0
        for line, content in enumerate(lines, 1):
            if offset < position + len(content):
                assert answer["start_line"] == line
                break
            position += len(content)
        assert answer["end_line"] == len(lines)


def naive_cut(text: str, fits: int) -> int:
    """The rule of cuts, by trying every place from the best to the worst."""
    fits = max(fits, 1)
    if fits >= len(text):
        return len(text)
    for at in range(fits, 0, -1):
        ends_line = text[at - 1] in "\r\n" and not (text[at - 1] == "\r" and text[at] == "\n")
        if ends_line and 2 * len(text[:at].encode()) > len(text[:fits].encode()):
            return at
    for at in range(fits, max(fits - 32, 0), -1):
        if not joined(text, at):
            return at
    if text[fits - 1 : fits + 1] == "\r\n":
        return fits - 1 if fits > 1 else 2
    return fits


@given(text=texts, fits=st.integers(0, 200))
@example(text="a\r\nb", fits=2)
@example(text="\r\nb", fits=1)
@example(text="\r", fits=0)
def test_cuts_are_those_of_a_naive_oracle(text: str, fits: int) -> None:
    at = cut(text, fits)
    assert at == naive_cut(text, fits)
    if text:
        assert 1 <= at <= max(fits, 2)
    if 0 < at < len(text):
        assert not (text[at - 1] == "\r" and text[at] == "\n")


@given(text=texts, budget=st.integers(-1, 400))
def test_what_fits_is_the_longest_beginning_that_does(text: str, budget: int) -> None:
    fits = fitting(text, budget)
    assert escaped_size(text[:fits]) <= max(budget, 0)
    assert fits == len(text) or escaped_size(text[: fits + 1]) > budget


@given(
    text=st.text(alphabet=st.characters(categories=["Mn", "Mc", "Me"]), min_size=1, max_size=31), base=st.characters()
)
def test_no_combining_mark_is_cut_off_its_letter(text: str, base: str) -> None:
    if base in "\r\n":
        return
    whole = "." * 5 + base + text + "."
    for fits in range(6, 6 + len(text)):
        assert cut(whole, fits) <= 5 or unicodedata.category(whole[cut(whole, fits)]) not in ("Mn", "Mc", "Me")
