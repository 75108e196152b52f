"""Snippets: the line with most distinct keywords, at most 240 bytes around its first hit."""

from __future__ import annotations

from amux_hub.store.snippet import Snippet, snippet
from amux_hub.store.text import match_key, match_key_bytes


def taken(text: str, *terms: str) -> Snippet:
    raw = text.encode()
    return snippet(raw, match_key_bytes(raw), [match_key(term).encode() for term in terms])


def test_the_line_with_most_distinct_keywords() -> None:
    found = taken("red red red\nred\rred blue\r\ngreen blue red\n", "red", "green", "blue")
    assert (found.line, found.text, found.truncated) == (4, "green blue red", False)


def test_the_first_line_on_a_tie() -> None:
    assert taken("x\nred\nblue\nred\n", "red", "blue").line == 2
    assert taken("x\nred blue\nblue red\n", "red", "blue").line == 2


def test_a_hit_by_the_path_alone_shows_line_1() -> None:
    assert (taken("first\nsecond", "elsewhere").line, taken("first\nsecond", "elsewhere").text) == (1, "first")
    assert (taken("", "elsewhere").line, taken("", "elsewhere").text) == (1, "")
    assert (taken("\nx", "elsewhere").line, taken("\nx", "elsewhere").text) == (1, "")


def test_a_keyword_that_only_the_path_has_does_not_count_for_the_line() -> None:
    assert taken("x\ny\nred\n", "elsewhere", "red").line == 3


def test_the_text_is_the_original_one() -> None:
    found = taken("eins\nDie STRASSE, die Straße\n", "strasse")
    assert (found.line, found.text) == (2, "Die STRASSE, die Straße")


def test_c14_lines_are_numbered_as_get_numbers_them() -> None:
    assert taken("a\u2028b\r\nc\x85d\re\x0bf\nneedle", "needle").line == 4
    assert taken("a\u2028b\r\nc\x85d\re\x0bf\nneedle other", "needle", "other").line == 4


def test_c13_a_byte_order_mark_stays() -> None:
    assert taken("\ufeffneedle", "needle").text == "\ufeffneedle"


def test_240_bytes_are_not_truncated_and_241_are() -> None:
    assert not taken("n" * 240, "n").truncated
    found = taken("n" * 241, "n")
    assert found.truncated
    assert len(found.text.encode()) == 240


def test_the_first_hit_is_shown_whatever_stands_around_it() -> None:
    for filler in ("x", "部", "👍", "ß", "ﬁ", "e\u0301", "İ"):
        for before in (0, 1, 50, 5000):
            for after in (0, 1, 50, 5000):
                text = filler * before + "NEEDLE" + filler * after
                found = taken(text, "needle")
                assert len(found.text.encode()) <= 240
                assert "NEEDLE" in found.text, (filler, before, after)
                assert found.text in text
                assert found.truncated == (len(text.encode()) > 240)


def test_the_hit_is_found_though_folding_made_one_part_longer_and_another_shorter() -> None:
    text = "ß" * 300 + "NEEDLE" + "e\u0301" * 300
    assert "NEEDLE" in taken(text, "needle").text


def test_the_room_is_used_up() -> None:
    assert len(taken("x" * 1000 + "needle" + "x" * 1000, "needle").text.encode()) == 240
    assert len(taken("needle" + "x" * 1000, "needle").text.encode()) == 240
    assert len(taken("x" * 1000 + "needle", "needle").text.encode()) == 240
    assert len(taken("部" * 1000 + "needle" + "部" * 1000, "needle").text.encode()) > 230


def test_it_is_cut_at_code_points() -> None:
    for shift in range(4):
        found = taken("x" * shift + "部" * 300 + "needle" + "署" * 300, "needle")
        assert set(found.text) <= set("xneedle部署")


def test_the_first_hit_of_any_keyword_counts() -> None:
    found = taken("a" * 300 + "late" + "b" * 300 + "early" + "c" * 300, "early", "late")
    assert "late" in found.text
