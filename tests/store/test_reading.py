"""What a get answers: semantics of "Reading"."""

from __future__ import annotations

import pytest

from tests.refusals import refused
from tests.store.kit import Home, frame_size, sha


def test_every_field_of_a_whole_document(home: Home) -> None:
    home.put("a/b.md", "one\ntwo\n")
    assert home.get("a/b.md") == {
        "path": "a/b.md",
        "exists": True,
        "revision": sha(b"one\ntwo\n"),
        "content": "one\ntwo\n",
        "offset": 0,
        "start_line": 1,
        "end_line": 2,
        "total_lines": 2,
        "size_bytes": 8,
        "truncated": False,
    }


def test_a_missing_document_is_no_error(home: Home) -> None:
    for path in ("no.md", "no/such/directory.md"):
        answer = home.get(path)
        assert (answer["exists"], answer["revision"], answer["content"]) == (False, "absent", "")
        assert (answer["total_lines"], answer["size_bytes"], answer["truncated"]) == (0, 0, False)
    assert home.get("no.md", start_line=5)["exists"] is False
    assert home.get("no.md", offset=5)["exists"] is False


def test_an_empty_document_exists_and_has_the_hash_of_nothing(home: Home) -> None:
    home.put("a.md", b"")
    answer = home.get("a.md")
    assert (answer["exists"], answer["revision"], answer["content"]) == (True, sha(b""), "")
    assert (answer["total_lines"], answer["size_bytes"], answer["truncated"]) == (0, 0, False)


def test_nothing_of_the_scope_is_made_by_reading(home: Home) -> None:
    home.disk.rmdir()
    assert home.get("a.md")["exists"] is False
    assert home.hits("a") == []
    assert home.scope.listing()["documents"] == []
    assert home.scope.forget("a.md", "absent")["already_absent"] is True
    assert not home.disk.exists()


def test_c14_lines_are_the_same_for_every_line_end(home: Home) -> None:
    home.put("a.md", b"one\r\ntwo\rthree\nfour\x0b\x0c\xe2\x80\xa8still four")
    answer = home.get("a.md", start_line=2, end_line=3)
    assert answer["content"] == "two\rthree\n"
    assert (answer["offset"], answer["start_line"], answer["end_line"], answer["total_lines"]) == (5, 2, 3, 4)
    assert home.get("a.md", start_line=4)["content"] == "four\x0b\x0c\u2028still four"
    assert home.get("a.md", end_line=1)["content"] == "one\r\n"
    assert home.whole("a.md") == (home.disk / "a.md").read_bytes()


def test_a_start_beyond_the_end_is_empty_and_an_end_before_the_start_an_error(home: Home) -> None:
    home.put("a.md", "one\ntwo\n")
    answer = home.get("a.md", start_line=3)
    assert (answer["content"], answer["truncated"], answer["revision"]) == ("", False, sha(b"one\ntwo\n"))
    assert "next_offset" not in answer
    assert home.get("a.md", start_line=3, end_line=9)["content"] == ""
    refused("invalid_argument", home.scope.get, "a.md", 3, 2)


def test_offsets_are_bytes_of_the_whole_file(home: Home) -> None:
    home.put("a.md", "部署\nx")
    answer = home.get("a.md", offset=3)
    assert (answer["content"], answer["offset"], answer["start_line"], answer["end_line"]) == ("署\nx", 3, 1, 2)
    answer = home.get("a.md", offset=7)
    assert (answer["content"], answer["start_line"], answer["end_line"]) == ("x", 2, 2)
    at_the_end = home.get("a.md", offset=8)
    assert (at_the_end["content"], at_the_end["offset"], at_the_end["truncated"]) == ("", 8, False)


@pytest.mark.parametrize("offset", [1, 2, 4, 5, 9, 10**30])
def test_an_offset_inside_a_code_point_or_beyond_the_end_is_refused(home: Home, offset: int) -> None:
    home.put("a.md", "部署\nx")
    refused("invalid_argument", home.scope.get, "a.md", 0, 0, offset)


def test_an_offset_and_an_end_line_go_together(home: Home) -> None:
    home.put("a.md", "one\ntwo\nthree\n")
    assert home.get("a.md", offset=2, end_line=2)["content"] == "e\ntwo\n"
    answer = home.get("a.md", offset=8, end_line=2)
    assert (answer["content"], answer["truncated"]) == ("", False)
    refused("invalid_argument", home.scope.get, "a.md", 1, 0, 1)


def test_an_offset_between_cr_and_lf_is_still_the_line_that_they_end(home: Home) -> None:
    home.put("a.md", b"one\r\ntwo")
    answer = home.get("a.md", offset=4)
    assert (answer["content"], answer["start_line"], answer["end_line"]) == ("\ntwo", 1, 2)


def test_truncated_means_that_the_budget_cut_before_the_requested_end(home: Home) -> None:
    text = "".join(f"line {number}\n" for number in range(2000))
    home.put("a.md", text)
    answer = home.get("a.md")
    assert answer["truncated"] is True
    assert answer["next_offset"] == len(answer["content"].encode())
    assert answer["content"].endswith("\n")  # at a line end
    assert frame_size(answer) > 8000
    assert answer["total_lines"] == 2000
    lines = answer["content"].count("\n")
    assert (answer["start_line"], answer["end_line"]) == (1, lines)
    following = home.get("a.md", offset=answer["next_offset"])
    assert (following["start_line"], following["offset"]) == (lines + 1, answer["next_offset"])
    short = home.get("a.md", end_line=10)
    assert (short["truncated"], short["end_line"]) == (False, 10)
    assert "next_offset" not in short
    assert home.whole("a.md") == text.encode()


def test_c18_one_line_of_64_kib_of_whatever_json_escapes(home: Home) -> None:
    for filler in ("x", '"', "\x01", "部", "👨\u200d👩\u200d👧\u200d👦", "\\", "\u2028", "\x7f"):
        data = (filler * 65536).encode()[:65536].decode(errors="ignore").encode()
        home.put("a.md", data)
        answer = home.get("a.md")
        assert frame_size(answer) <= 8192
        assert frame_size(answer) > 8192 - 64  # and used well: nothing is left that another piece would fit in
        assert (answer["start_line"], answer["end_line"]) == (1, 1)
        assert home.whole("a.md") == data


def test_c13_a_byte_order_mark_is_a_character_at_offset_0(home: Home) -> None:
    data = b"\xef\xbb\xbf---\ntitle: Marked words\n---\nbody\n"
    home.put("a.md", data)
    answer = home.get("a.md")
    assert answer["content"].startswith("\ufeff---")
    assert (answer["revision"], answer["size_bytes"]) == (sha(data), len(data))
    assert home.get("a.md", offset=3)["content"].startswith("---")
    home.put("b.md", "marked marked")
    home.put("0.md", "marked in the text")
    assert [match["path"] for match in home.search("marked")["matches"]] == ["a.md", "0.md", "b.md"]  # by its title
    assert (home.disk / "a.md").read_bytes() == data


def test_a_file_up_to_1_mib_can_be_read_and_one_byte_more_cannot(home: Home) -> None:
    home.put("a.md", b"x" * (1 << 20))
    assert home.get("a.md", offset=(1 << 20) - 3)["content"] == "xxx"
    home.put("a.md", b"x" * ((1 << 20) + 1))
    error = refused("limit_exceeded", home.scope.get, "a.md")
    assert (error.details["limit"], error.details["value"]) == ("readable_bytes", 1 << 20)
    assert error.details["found"] == (1 << 20) + 1


def test_reading_changes_no_file(home: Home) -> None:
    target = home.put("a.md", b"\xef\xbb\xbfa\r\nb\r")
    before = target.stat()
    home.get("a.md")
    home.search("a")
    home.scope.listing()
    after = target.stat()
    assert (before.st_mtime_ns, before.st_ctime_ns, before.st_ino) == (
        after.st_mtime_ns,
        after.st_ctime_ns,
        after.st_ino,
    )
    assert sorted(home.tree()) == ["a.md"]
