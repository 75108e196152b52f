"""Match keys and queries: semantics of "Searching"."""

from __future__ import annotations

import unicodedata

import pytest

from amux_hub.store.text import match_key, match_key_bytes, parse_query
from tests.refusals import refused


def test_match_key_is_nfc_of_casefold_of_nfc() -> None:
    for text in ("Straße", "ΣΊΣΥΦΟΣ", "e\u0301", "\u1e9b\u0323", "\u0345\u0301", "ŉ", "İ", "ﬁ", "ΐ", "끝말잇기"):
        nfc = unicodedata.normalize("NFC", text)
        assert match_key(text) == unicodedata.normalize("NFC", nfc.casefold())
        assert match_key_bytes(text.encode()) == match_key(text).encode()


@pytest.mark.parametrize(
    ("query", "text"),
    [("ß", "ss"), ("STRASSE", "Straße"), ("Σ", "ς"), ("e\u0301", "É"), ("é", "e\u0301"), ("K", "\u212a")],
)
def test_these_are_the_same_to_a_search(query: str, text: str) -> None:
    assert match_key(query) == match_key(text)


@pytest.mark.parametrize(
    ("query", "text"), [("API", "ＡＰＩ"), ("i", "ı"), ("I", "İ"), ("e", "é"), ("1", "①"), ("か", "カ")]
)
def test_these_are_not(query: str, text: str) -> None:
    assert match_key(query) != match_key(text)


def test_a_key_keeps_the_line_ends_of_its_text() -> None:
    text = "ẞ\r\nΣ\r\re\u0301\n\u2028ﬁ\x85\x0b\x0c\x1c"
    lines = text.encode().splitlines()
    assert match_key(text).encode().splitlines() == [match_key(line.decode()).encode() for line in lines]


def test_a_query_is_split_at_every_unicode_white_space() -> None:
    white = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    for space in [*white, *"\u2028\u2029\u202f\u205f\u3000", "\r\n", " \u3000 "]:
        assert parse_query(f"{space}a{space}b{space}") == [b"a", b"b"], repr(space)
    for other in "\u200b\u2060\ufeff\x1c\x1f,;.":
        assert len(parse_query(f"a{other}b")) == 1, repr(other)


def test_duplicates_collapse_after_folding_and_order_stays() -> None:
    assert parse_query("b A a ß SS B") == [b"b", b"a", b"ss"]


def test_sixteen_terms_are_counted_before_folding() -> None:
    assert parse_query("a " * 16) == [b"a"]
    error = refused("limit_exceeded", parse_query, "a " * 17)
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("query_terms", 16, 17)


def test_512_bytes_are_counted_as_given() -> None:
    assert parse_query("部" * 170 + "xx") == [("部" * 170 + "xx").encode()]
    error = refused("limit_exceeded", parse_query, "部" * 171)
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("query_bytes", 512, 513)
    refused("limit_exceeded", parse_query, "a" + " " * 512)  # white space counts too
    refused("limit_exceeded", parse_query, "ẞ" * 171)  # 513 bytes as given; folding would make it less


@pytest.mark.parametrize("query", ["", " ", "\u3000\u2003\n"])
def test_a_query_without_a_keyword_is_invalid(query: str) -> None:
    refused("invalid_argument", parse_query, query)


def test_a_query_that_is_no_unicode_is_invalid() -> None:
    refused("invalid_argument", parse_query, "a\ud800")


@pytest.mark.parametrize(
    "query",
    [
        "src/auth.rs",
        "docker-compose",
        '"',
        "(python",
        "foo AND bar",
        "title:x",
        "*",
        "[a-z]+",
        "a\\b",
        "%",
        "NOT",
        "-x",
    ],
)
def test_c11_punctuation_is_literal_and_never_an_error(query: str) -> None:
    assert parse_query(query) == [word.lower().encode() for word in query.split(" ")]
