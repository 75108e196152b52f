"""Where a text is cut: semantics of "Cut"; C14, C18."""

from __future__ import annotations

import json

import pytest

from amux_hub.store.fragment import clip, cut, escaped_size, fitting, joined

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
JOINED = {
    "family": FAMILY,
    "skin_tone": "👍🏽",
    "flag": "🇩🇪",
    "flag_of_scotland": "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "keycap": "1\ufe0f\u20e3",
    "variation_selector": "❤\ufe0f",
    "ideographic_variation": "葛\U000e0100",
    "combining": "e\u0301\u0323",
    "devanagari": "क\u094d",
    "thai": "กำ",
    "zwnj": "\u06cc\u200c",
    "hangul_jamo": "\u1101\u1173\u11c0",
    "halfwidth_voiced": "ｶ\uff9e",
    "mark_32_code_points": "a" + "\u0301" * 31,
    "crlf": "\r\n",
}


@pytest.mark.parametrize("sequence", JOINED.values(), ids=JOINED.keys())
def test_a_joined_sequence_is_never_cut_inside(sequence: str) -> None:
    text = "..." + sequence + "..."
    for fits in range(4, 3 + len(sequence)):
        assert cut(text, fits) == 3, fits
    assert cut(text, 3) == 3
    assert cut(text, 3 + len(sequence)) == 3 + len(sequence)


def test_a_row_of_joined_sequences_is_cut_between_them() -> None:
    text = FAMILY * 5
    for fits in range(len(FAMILY), len(text)):
        assert cut(text, fits) % len(FAMILY) == 0
    flags = "🇩🇪🇫🇷🇯🇵🇰🇷"
    for fits in range(2, len(flags)):
        assert cut(flags, fits) % 2 == 0


def test_a_chain_longer_than_32_code_points_is_cut_where_it_no_longer_fits() -> None:
    text = "a" + "\u0301" * 100
    assert cut(text, 50) == 50
    assert cut(text, 31) == 31  # no progress is no choice
    text = "." * 9 + "a" + "\u0301" * 32  # 33 code points
    assert cut(text, 9 + 31) == 9  # seen from here it may be one of 32
    assert cut(text, 9 + 32) == 9 + 32


def test_there_is_always_at_least_one_code_point_of_progress() -> None:
    for text in ("ab", "e\u0301x", FAMILY, "\r\nx", "\n\n", "\u200d\u200d\u200d"):
        for fits in range(len(text) + 1):
            assert 1 <= cut(text, fits) <= max(len(text), 1)
    assert cut("\r\nx", 1) == 2  # even then CRLF stays whole
    assert cut("", 0) == 0


def test_a_line_end_in_the_second_half_is_preferred() -> None:
    assert cut("0123\n56789", 8) == 5
    assert cut("0123\r56789", 8) == 5
    assert cut("0123\r\n6789", 8) == 6
    assert cut("01\n3\n56\n89", 8) == 8  # the last one
    assert cut("012\n456789", 8) == 8  # the first half does not count
    assert cut("0123456\r\n9", 8) == 7  # never inside CRLF, not for a line end either
    assert cut("0123\n56\r\n9", 8) == 5


def test_the_second_half_is_measured_in_bytes() -> None:
    assert cut("部署\n" + "abcde" + "fgh", 8) == 3  # 7 of 12 bytes
    assert cut("abcd\n" + "部署部" + "fgh", 8) == 8  # 5 of 14 bytes


@pytest.mark.parametrize("end", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_other_line_separators_are_no_line_ends(end: str) -> None:
    assert cut(f"0123{end}56789", 8) == 8


def test_a_text_that_fits_is_not_cut() -> None:
    for text in ("", "a", "a\nb", FAMILY):
        assert cut(text, len(text)) == len(text)
        assert cut(text, len(text) + 5) == len(text)


def test_joined_is_false_at_both_ends() -> None:
    assert not joined(FAMILY, 0)
    assert not joined(FAMILY, len(FAMILY))
    assert joined(FAMILY, 1)
    assert not joined("a\n\u0301", 2)  # a mark after a line end belongs to nothing


def test_fitting_counts_what_json_makes_of_the_text() -> None:
    for text in ("plain", "部署" * 9, '"\\' * 20, "\x00\x1f\x7f" * 9, "👍" * 9, "\u2028\n\t"):
        size = len(json.dumps(text, ensure_ascii=False).encode()) - 2
        assert escaped_size(text) == size
        for budget in range(size + 2):
            fits = fitting(text, budget)
            assert escaped_size(text[:fits]) <= budget
            assert fits == len(text) or escaped_size(text[: fits + 1]) > budget
    assert fitting("x", -1) == 0


def test_clip_counts_utf8_and_cuts_at_a_code_point() -> None:
    assert clip("部署", 6) == "部署"
    assert clip("部署", 5) == "部"
    assert clip("部署", 2) == ""
