"""The cap on replies and errors holds for any content, path and name on the disk; searches equal an oracle; C18."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import Store
from amux_hub.wire.reply import encode, encode_failure
from tests.property import oracle
from tests.property.texts import long_texts, texts
from tests.store.kit import frame_size

names = st.one_of(
    st.sampled_from(['"' * 200, "q", "red", "部" * 60, "Blue 部署", "\u200d" * 80, "é", "x'y", "\u2028" * 70]),
    st.text(alphabet=st.characters(categories=["L", "N", "P", "S", "M", "Cf"]), min_size=1, max_size=40),
)
paths = st.lists(names, min_size=1, max_size=6).map(lambda parts: "/".join(parts) + ".md")
bad_names = st.binary(min_size=1, max_size=60).map(
    lambda raw: raw.replace(b"/", b"\xff").replace(b"\0", b"\xfe") + b".md"
)
bodies = st.one_of(
    texts.map(str.encode),
    long_texts().map(str.encode),
    st.binary(max_size=50),
    st.sampled_from([b"\x01" * 3000, b"red \x01" * 900, b'"' * 5000 + b"red", b"x" * 65537, b"\xff"]),
)
QUERIES = ["red blue", "\x01", '"', "部署", "ß ss é", "x", "red \u3000 BLUE # 👍🏽 title: --- q"]


def fits_a_disk(path: str) -> bool:
    try:
        raw = path.encode()
    except UnicodeEncodeError:
        return False
    return (
        all(part not in ("", ".", "..") and len(part.encode()) <= 255 for part in path.split("/")) and b"\0" not in raw
    )


@contextmanager
def scope_with(files: dict[str, bytes], odd: list[bytes]) -> Iterator[Any]:
    """A scope on whose disk these files lie, and some with names that are no paths."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=base) as home, mock.patch.object(limits, "SCAN_MILLISECONDS", 60_000):
        store = Store(home, 1 << 26, 0)
        disk = Path(home) / "memory" / "global"
        disk.mkdir()
        for path, data in files.items():
            target = disk / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            except (NotADirectoryError, IsADirectoryError, FileExistsError):
                continue  # one name is a file and a directory
        for name in odd:
            if len(name) <= 255 and not os.path.lexists(os.fsencode(disk) + b"/" + name):
                Path(os.fsdecode(os.fsencode(disk) + b"/" + name)).write_bytes(b"red")
        try:
            yield store.scope("global")
        finally:
            store.close()


def capped(reply: dict[str, Any]) -> dict[str, Any]:
    """`reply`, measured by us and by the wire."""
    assert frame_size(reply) <= 8192
    assert len(encode(reply)) == frame_size(reply)
    return reply


@given(
    files=st.dictionaries(paths.filter(fits_a_disk), bodies, max_size=6),
    odd=st.lists(bad_names, max_size=5),
    limit=st.sampled_from([0, 1, 20]),
)
def test_c18_every_reply_fits_whatever_lies_on_the_disk(files: dict[str, bytes], odd: list[bytes], limit: int) -> None:
    with scope_with(files, odd) as scope:
        for query in QUERIES:
            answer = capped(scope.search(query, "", limit))
            if any(answer["matches"]) or answer["truncated"]:
                assert answer["matches"]  # one match always fits
        after, listed = "", 0
        while True:
            page = capped(scope.listing(after))
            listed += len(page["documents"])
            if page["next_after"] is None:
                break
            assert page["next_after"] > after or page["next_after"].encode() > after.encode()
            after = page["next_after"]
        assert listed == page["total_documents"]
        for path in files:
            try:
                offset = 0
                for _ in range(100):
                    answer = capped(scope.get(path, 0, 0, offset))
                    if not answer["truncated"]:
                        break
                    offset = answer["next_offset"]
                assert offset <= answer["size_bytes"]
            except AmuxError as error:
                assert len(encode_failure(error)) <= 8192
            for text in ("x", "\0", "x" * 65537):
                try:
                    capped(scope.upsert(path, text, "0" * 64))
                except AmuxError as error:
                    assert len(encode_failure(error)) <= 8192


words = st.sampled_from(
    ["red", "Blue", "部署", "ß", "SS", "é", "e\u0301", "Σ", "ς", "İ", "👍🏽", "끝말", "a", "d/a", ".md", "#"]
)
documents = st.dictionaries(
    st.sampled_from([f"{d}{n}.md" for d in ("", "d/", "d/e/", "red/", "d-/") for n in ("a", "red", "部署", "é")]),
    st.one_of(
        texts.map(str.encode),
        st.lists(
            st.one_of(words, st.sampled_from(["\n", "\r\n", "\r", " ", "\n# ", "\n```\n", "---\ntitle: "])), max_size=30
        )
        .map("".join)
        .map(str.encode),
        st.sampled_from([b"\xff red", b"red " * 17000]),
    ),
    max_size=20,
)


@given(
    files=documents,
    query=st.lists(words, min_size=1, max_size=6).map(" ".join),
    prefix=st.sampled_from(["", "d", "d/e", "red", "red.md", "d/a.md", "nowhere"]),
)
def test_searches_are_those_of_a_naive_oracle(files: dict[str, bytes], query: str, prefix: str) -> None:
    model = oracle.Scope(dict(files))
    wanted = model.search(query, prefix)
    with scope_with(files, []) as scope:
        for _ in range(2):  # cold and warm
            answer = scope.search(query, prefix, 20)
            assert answer["scanned_files"] == len(model.readable(prefix))
            assert answer["skipped_files"] == model.skipped(prefix)
            assert answer["truncated"] == (len(answer["matches"]) < len(wanted))
            for match, expected in zip(answer["matches"], wanted, strict=False):
                if expected["truncated"]:
                    assert match["snippet"] in expected["snippet"]
                    shown = [term for term in oracle.terms_of(query) if term in oracle.key(match["snippet"])]
                    inside = [term for term in oracle.terms_of(query) if term in oracle.key(expected["snippet"])]
                    assert bool(shown) == bool(inside)
                    match = {**match, "snippet": expected["snippet"]}
                assert match == expected
