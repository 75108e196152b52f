"""The grammar of paths and of queries against naive ones; nothing but the typed refusals ever comes out; D3, C6, C7."""

from __future__ import annotations

import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from amux.errors import AmuxError
from amux_hub.store.paths import check_document, check_prefix, entry_fault, twin_key
from amux_hub.store.text import match_key, parse_query

BIDI = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
HEX = set("0123456789abcdefABCDEF")
WHITE = set("\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {chr(c) for c in range(0x2000, 0x200B)}

components = st.one_of(
    st.sampled_from([
        "a", "a.md", "..", ".", "", ".x", "x.", "x ", " x", "~", "~x", "%41", "%4", "%", "b\\c", "é.md", "e\u0301.md",
        "部" * 85, "部" * 84 + ".md", "c" * 255, "c" * 253 + ".md", "x.MD", "a\u202eb.md", "\u3000x.md", "x\x00.md",
        "\x7f", "\x85", "\ud800", ".md", "a.md.md", "x\u200b.md",
    ]),
    st.text(max_size=12),
    st.text(max_size=8).map(lambda text: text + ".md"),
)  # fmt: skip
paths = st.lists(components, min_size=1, max_size=18).map("/".join)


def is_utf8(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def good_component(component: str, *, last: bool) -> bool:
    return (
        component != ""
        and component[0] != "."
        and component[-1] != "."
        and component[0] not in WHITE
        and component[-1] not in WHITE
        and len(component.encode()) <= 255
        and (last or not component.endswith(".md"))
    )


def good(path: str) -> bool:
    """The rules of a path as they stand in the documentation, one after the other."""
    if not is_utf8(path) or len(path.encode()) > 1024 or path[:1] in ("/", "~"):
        return False
    if any(c == "\\" or unicodedata.category(c) == "Cc" or c in BIDI for c in path):
        return False
    if any(path[i] == "%" and len(path[i : i + 3]) == 3 and set(path[i + 1 : i + 3]) <= HEX for i in range(len(path))):
        return False
    parts = path.split("/")
    return len(parts) <= 16 and all(good_component(p, last=n == len(parts) - 1) for n, p in enumerate(parts))


@given(path=paths)
@example(path="")
@example(path="/".join(["d"] * 16))
@example(path="/".join(["d"] * 15 + ["x.md"]))
def test_paths(path: str) -> None:
    for check, expected in ((check_document, good(path) and path.endswith(".md")), (check_prefix, good(path))):
        try:
            assert check(path) == (path.split("/") if path else [])
            accepted = True
        except AmuxError as error:
            assert error.code == "invalid_path"
            error.message.encode()
            accepted = False
        assert accepted == (expected or (check is check_prefix and path == "")), check.__name__


@given(path=paths)
def test_what_is_found_on_disk_is_reachable_by_its_path_or_is_named_as_skipped(path: str) -> None:
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part or len(part.encode(errors="replace")) > 255 for part in parts):
        return  # no name on a disk
    # As a walk goes: into a directory only if its name is a path's.
    faulty = any(entry_fault(parts[:depth], directory=depth < len(parts)) for depth in range(1, len(parts) + 1))
    assert faulty != good(path)


@given(one=st.text(max_size=20), other=st.text(max_size=20))
def test_twin_keys_agree_with_their_definition(one: str, other: str) -> None:
    def key(text: str) -> str:
        return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())

    assert twin_key(one) == match_key(one) == key(one)
    assert (twin_key(one) == twin_key(other)) == (key(one) == key(other))
    assert twin_key(unicodedata.normalize("NFD", one)) == twin_key(one)


@given(
    query=st.one_of(
        st.text(max_size=300), st.lists(st.sampled_from(["a", "B", "ß", " ", "\u3000", "部署", "\x1c"])).map("".join)
    )
)
def test_queries(query: str) -> None:
    words = "".join(" " if c in WHITE else c for c in query).split(" ")
    words = [word for word in words if word]
    try:
        terms = parse_query(query)
    except AmuxError as error:
        if not is_utf8(query) or not words:
            assert error.code == "invalid_argument" or len(query.encode(errors="replace")) > 512
        else:
            assert error.code == "limit_exceeded"
            assert len(query.encode()) > 512 or len(words) > 16
    else:
        assert 1 <= len(words) <= 16
        assert len(query.encode()) <= 512
        assert terms == list(dict.fromkeys(match_key(word).encode() for word in words))
