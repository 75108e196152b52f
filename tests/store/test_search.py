"""What a search finds, in which order, and what it says of itself; C10 to C13, C18."""

from __future__ import annotations

import itertools
import time

import pytest

from amux_hub.store import search as search_module
from amux_hub.store.census import Document
from tests.refusals import refused
from tests.store.kit import Home, frame_size, sha


def test_every_field_of_an_answer(home: Home) -> None:
    home.put("a/b.md", "# Title\nred and blue\n")
    assert home.search("blue red nothing") == {
        "matches": [
            {
                "path": "a/b.md",
                "line": 2,
                "snippet": "red and blue",
                "truncated": False,
                "revision": sha(b"# Title\nred and blue\n"),
                "keywords": 2,
            }
        ],
        "scanned_files": 1,
        "incomplete": False,
        "incomplete_reason": None,
        "truncated": False,
        "skipped_files": 0,
        "skipped": [],
    }


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("部署", "昨天自动部署脚本失败了"),
        ("用户身份", "检查用户身份之后"),
        ("しりとり", "みんなでしりとりをする"),
        ("끝말잇기", "우리는끝말잇기를했다"),
        ("끝말잇기".encode().decode(), "\u1101\u1173\u11c0\u1106\u1161\u11af\u110b\u1175\u11ba\u1100\u1175"),
        ("gen", "重跑gen-itgc后"),
        ("itgc后", "重跑gen-ITGC后"),
    ],
)
def test_c10_phrases_without_spaces_are_found(home: Home, query: str, text: str) -> None:
    home.put("found.md", text)
    home.put("other.md", "nothing of it: 部 署, 用户, 身份, しり")
    assert home.hits(query) == ["found.md"]


@pytest.mark.parametrize(
    "query",
    ["src/auth.rs", "docker-compose", '"', "(python", "foo AND bar", "title:x", "a\\b", "[a-z]*", "100%", "$HOME"],
)
def test_c11_punctuation_is_literal(home: Home, query: str) -> None:
    home.put("found.md", f"before {query} after")
    home.put("other.md", "xyz 1 2 3 srcXauth-rs pythonic\n")
    assert home.hits(query) == ["found.md"]


def test_c12_nine_keywords_of_which_four_are_present(home: Home) -> None:
    home.put("a.md", "one two three four")
    home.put("b.md", "one one one two two three three three")
    home.put("c.md", "nine")
    query = "one two three four five six seven eight nine"
    answer = home.search(query)
    assert [(match["path"], match["keywords"]) for match in answer["matches"]] == [
        ("a.md", 4),
        ("b.md", 3),
        ("c.md", 1),
    ]


def test_c13_a_byte_order_mark_hides_no_front_matter(home: Home) -> None:
    home.put("a.md", "needle")
    home.put("b.md", b"\xef\xbb\xbf---\r\ntitle: needle\r\n---\r\n")
    assert home.hits("needle") == ["b.md", "a.md"]


def test_order_distinct_keywords_then_path_or_title_then_path_bytes(home: Home) -> None:
    home.put("z/red.md", "blue")  # 2 keywords, 1 named: red
    home.put("b.md", "red blue")  # 2 keywords, none named
    home.put("a.md", "# red\nblue")  # 2 keywords, 1 in the title
    home.put("c.md", "# red blue")  # 2 named
    home.put("red.md", "red red red red")  # 1 keyword, 1 named
    home.put("é.md", "red")
    home.put("ab.md", "red")
    home.put("a/b.md", "red")
    home.put("A.md", "blue")
    expected = ["c.md", "a.md", "z/red.md", "b.md", "red.md", "A.md", "a/b.md", "ab.md", "é.md"]
    assert home.hits("red blue") == expected
    assert home.hits("BLUE red Red blue") == expected


def test_path_bytes_are_the_order_though_a_directory_stands_between(home: Home) -> None:
    names = ["a.md", "a/x.md", "a-b.md", "a b.md", "a0.md", "ab/x.md", "Z.md", "部.md", "\U0001f600.md", "\uff21.md"]
    for name in names:
        home.put(name, "needle")
    assert home.hits("needle") == sorted(names, key=str.encode)


def test_a_keyword_in_the_path_counts_and_the_first_line_is_shown(home: Home) -> None:
    home.put("projects/web/plan.md", "first line\nsecond")
    answer = home.search("WEB")["matches"][0]
    assert (answer["line"], answer["snippet"], answer["keywords"]) == (1, "first line", 1)
    assert home.hits("web/pl") == ["projects/web/plan.md"]
    assert home.hits("plan.mdfirst") == []  # path and content are two things


def test_match_keys_of_both_sides(home: Home) -> None:
    home.put("sharp.md", "Straße")
    home.put("sigma.md", "ΟΔΟΣ οδος")
    home.put("composed.md", "caf\u00e9")
    home.put("decomposed.md", "cafe\u0301")
    home.put("wide.md", "ＡＰＩ")
    assert home.hits("STRASSE") == ["sharp.md"]
    assert home.hits("ὁδός ΟΔΟΣ") == ["sigma.md"]
    assert home.hits("CAFE\u0301") == ["composed.md", "decomposed.md"]
    assert home.hits("cafe") == []  # accents stay
    assert home.hits("api") == []
    assert home.hits("Ａｐｉ") == ["wide.md"]


def test_limit_5_by_default_and_20_at_most_and_truncated_says_that_there_is_more(home: Home) -> None:
    for number in range(30):
        home.put(f"{number:02}.md", "needle")
    for limit, count in ((0, 5), (1, 1), (5, 5), (20, 20)):
        answer = home.search("needle", limit=limit)
        assert [match["path"] for match in answer["matches"]] == [f"{number:02}.md" for number in range(count)]
        assert answer["truncated"] is True
        assert (answer["scanned_files"], answer["incomplete"]) == (30, False)
    assert home.search("needle", "00.md")["truncated"] is False


def test_path_prefix_is_of_whole_components(home: Home) -> None:
    for path in ("a/x.md", "a/b/y.md", "ab/z.md", "a.md", "a-b.md", "a0/x.md"):
        home.put(path, "needle")
    assert home.hits("needle", "a") == ["a/b/y.md", "a/x.md"]
    assert home.hits("needle", "a/b") == ["a/b/y.md"]
    assert home.hits("needle", "a.md") == ["a.md"]
    assert home.hits("needle", "a/b/y.md") == ["a/b/y.md"]
    assert len(home.hits("needle", "")) == 6
    for nothing in ("nowhere", "a/x", "b", "a/b/y.mdx"):
        answer = home.search("needle", nothing)
        assert (answer["matches"], answer["incomplete"], answer["scanned_files"]) == ([], False, 0)


def test_only_what_is_below_the_prefix_is_scanned_and_skipped(home: Home) -> None:
    home.put("a/x.md", "needle")
    home.put("a/bad.md", b"\xff")
    home.put("b/bad.md", b"\xff")
    home.put("b/ .md", "x")
    answer = home.search("needle", "a")
    assert (answer["scanned_files"], answer["skipped_files"]) == (1, 1)
    assert home.search("needle", "b")["skipped_files"] == 2
    assert home.search("needle", "b/bad.md")["skipped_files"] == 1


def test_at_most_1024_files_are_scanned_warm_and_cold(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amux.limits.SCAN_MILLISECONDS", 60_000)
    for number in range(1030):
        home.put(f"{number:04}.md", "needle" if number == 1029 else "hay")
    for _ in range(2):
        answer = home.search("needle hay", limit=1)
        assert (answer["scanned_files"], answer["incomplete"], answer["incomplete_reason"]) == (1024, True, "files")
        assert answer["matches"][0]["path"] == "0000.md"
    assert home.search("needle", "1029.md")["matches"][0]["path"] == "1029.md"


def test_at_most_8_mib_are_scanned_warm_and_cold(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amux.limits.SCAN_MILLISECONDS", 60_000)
    for number in range(129):
        home.put(f"{number:03}.md", f"n{number} ".ljust(65536, "."))
    for _ in range(2):
        answer = home.search("n128 n127")
        assert (answer["scanned_files"], answer["incomplete"], answer["incomplete_reason"]) == (128, True, "bytes")
        assert [match["path"] for match in answer["matches"]] == ["127.md"]
    assert home.hits("n128", "128.md") == ["128.md"]


def test_at_most_8192_directory_entries_are_walked(home: Home) -> None:
    for number in range(8200):
        (home.disk / f"x{number}").touch()
    home.put("sub/a.md", "needle")
    home.put("a.md", "needle")
    answer = home.search("needle")
    assert (answer["incomplete"], answer["incomplete_reason"]) == (True, "entries")
    assert home.hits("needle", "sub") == ["sub/a.md"]
    assert home.hits("needle", "sub/a.md") == ["sub/a.md"]
    assert home.hits("needle", "a.md") == ["a.md"]
    assert home.hits("needle", "nothing/here") == []
    refused("limit_exceeded", home.scope.upsert, "new.md", "x", "absent")
    home.upsert("sub/a.md", "short")  # what shrinks is never refused
    home.scope.forget("a.md", sha(b"needle"))


def test_time_ends_a_scan_and_what_was_read_before_stays_cached(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10):
        home.put(f"{number}.md", "needle")
    reads = []
    load = home.scope._index.load

    def counted(root: int, document: Document) -> None:
        reads.append(document)
        load(root, document)

    monkeypatch.setattr(home.scope._index, "load", counted)
    ticks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(ticks) * 0.05)
    answer = home.search("needle")
    first = answer["scanned_files"]
    assert (answer["incomplete"], answer["incomplete_reason"]) == (True, "time")
    assert 0 < first < 10
    assert len(reads) == first
    monkeypatch.setattr(time, "monotonic", lambda: 0.6)
    home.search("needle")
    assert home.search("needle")["scanned_files"] == 10
    assert len(reads) == 10  # none was read twice


def test_a_search_that_finds_no_time_says_incomplete(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.put("a.md", "needle")
    monkeypatch.setattr("amux.limits.SCAN_MILLISECONDS", -1)
    answer = home.search("needle")
    assert (answer["matches"], answer["incomplete"], answer["incomplete_reason"]) == ([], True, "time")


def test_c18_a_common_word_over_1024_documents_stays_under_the_cap(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amux.limits.SCAN_MILLISECONDS", 60_000)
    for number in range(1024):
        home.put(f"{'n' * 200}/{number:04}.md", '"' * 300 + "common" + '"' * 300)
    answer = home.search("common", limit=20)
    assert frame_size(answer) <= 8192
    assert answer["truncated"] is True
    assert 1 <= len(answer["matches"]) < 20
    assert answer["scanned_files"] == 1024


def test_one_match_always_fits_beside_the_longest_names(home: Home) -> None:
    quotes = '"' * 190
    directory = "/".join(['"' * 204] * 4)
    home.put(f"{directory}/{'q' * 195}.md", "\x01" * 120 + "needle" + "\x01" * 500)
    for number in range(3):
        home.put(f"{directory}/{number}{quotes}.md", b"\xff")
    answer = home.search("needle")
    assert frame_size(answer) <= 8192
    assert len(answer["matches"]) == 1
    assert answer["skipped_files"] == 3


def test_a_hit_that_changes_under_the_search_is_looked_at_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.put("a.md", "needle one")
    home.put("b.md", "needle two")
    home.hits("needle")
    best = search_module._best
    edits = iter([b"needle changed", b"no more", b"", b"", b""])

    def edit_first(matches: list[search_module.Match], terms: list[bytes], limit: int) -> list[search_module.Match]:
        if edit := next(edits):
            (home.disk / "a.md").write_bytes(edit)
        return best(matches, terms, limit)

    monkeypatch.setattr(search_module, "_best", edit_first)
    answer = home.search("needle")
    assert [match["path"] for match in answer["matches"]] == ["b.md"]
    for match in answer["matches"]:
        assert match["revision"] == sha((home.disk / match["path"]).read_bytes())


def test_a_hit_that_is_removed_under_the_search_is_not_answered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.put("a.md", "needle one")
    home.put("b.md", "needle two")
    best = search_module._best

    def remove_first(matches: list[search_module.Match], terms: list[bytes], limit: int) -> list[search_module.Match]:
        (home.disk / "a.md").unlink(missing_ok=True)
        return best(matches, terms, limit)

    monkeypatch.setattr(search_module, "_best", remove_first)
    answer = home.search("needle")
    assert [match["path"] for match in answer["matches"]] == ["b.md"]
    assert (answer["truncated"], answer["skipped_files"]) == (False, 0)


def test_c18_the_cap_is_exact(home: Home) -> None:
    """Answers that grow by one byte each reach 8,192 bytes and never one more."""
    for number in range(20):
        home.put(f"{number:02}{'p' * 20}.md", f"needle {number:02} ".ljust(240, "."))
    growing = home.put("x.md", "needle")
    sizes = []
    for length in range(1, 250):
        growing = growing.rename(home.disk / f"0{'x' * length}.md")  # between 09 and 10: always among the shown
        answer = home.search("needle", limit=20)
        assert f"0{'x' * length}.md" in [match["path"] for match in answer["matches"]]
        assert answer["truncated"] is True
        sizes.append(frame_size(answer))
    assert max(sizes) == 8192
