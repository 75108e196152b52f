"""`list`: path, bytes, revision by path, bounded like the rest, with an `after` cursor and totals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.kit import Home, frame_size, sha


def pages(home: Home, prefix: str = "") -> list[dict[str, Any]]:
    """Every row, page by page."""
    rows: list[dict[str, Any]] = []
    after = ""
    while True:
        page = home.scope.listing(after, prefix)
        assert frame_size(page) <= 8192
        assert page["incomplete"] is False
        rows += page["documents"]
        if page["next_after"] is None:
            return rows
        assert page["documents"][-1]["path"] == page["next_after"]
        after = page["next_after"]


def test_path_bytes_and_revision_in_byte_order_with_totals(home: Home) -> None:
    home.put("b.md", "12345")
    home.put("a/x.md", "1")
    home.put("bad.md", b"\xff\xfe")
    home.put("big.md", b"x" * 70000)
    page = home.scope.listing()
    assert page["documents"] == [
        {"path": "a/x.md", "bytes": 1, "revision": sha(b"1")},
        {"path": "b.md", "bytes": 5, "revision": sha(b"12345")},
        {"path": "bad.md", "bytes": 2, "revision": sha(b"\xff\xfe")},
        {"path": "big.md", "bytes": 70000, "revision": sha(b"x" * 70000)},
    ]
    assert (page["total_documents"], page["total_bytes"], page["next_after"]) == (4, 70008, None)


@pytest.mark.parametrize("name", ["x" * 40, '"' * 200, "部" * 60])
def test_c18_every_document_is_on_exactly_one_page(home: Home, name: str) -> None:
    names = sorted((f"{number % 3}/{name}{number}.md" for number in range(300)), key=str.encode)
    for path in names:
        home.put(path, path)
    rows = pages(home)
    assert [row["path"] for row in rows] == names
    assert all(row["revision"] == sha(row["path"].encode()) for row in rows)
    assert [row["path"] for row in pages(home, "1")] == [path for path in names if path.startswith("1/")]
    first = home.scope.listing()
    assert (first["total_documents"], first["total_bytes"]) == (300, sum(len(path.encode()) for path in names))


def test_the_longest_paths_fit(home: Home) -> None:
    directory = "/".join(['"' * 204] * 4)
    names = [f"{directory}/{number}{'q' * 190}.md" for number in range(5)]
    for path in names:
        home.put(path, "x")
    assert [row["path"] for row in pages(home)] == names


def test_a_cursor_need_not_name_a_document(home: Home) -> None:
    for path in ("a.md", "c.md"):
        home.put(path, "x")
    assert [row["path"] for row in home.scope.listing("b")["documents"]] == ["c.md"]
    assert home.scope.listing("z")["documents"] == []
    assert home.scope.listing("z")["total_documents"] == 2
    assert [row["path"] for row in home.scope.listing("a.md")["documents"]] == ["c.md"]


def test_a_prefix_is_of_whole_components(home: Home) -> None:
    for path in ("a/x.md", "ab/x.md", "a.md"):
        home.put(path, "x")
    assert [row["path"] for row in pages(home, "a")] == ["a/x.md"]
    assert [row["path"] for row in pages(home, "a.md")] == ["a.md"]
    assert pages(home, "nothing") == []
