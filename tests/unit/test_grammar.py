"""The grammar of paths: semantics of "Paths", refused and never repaired; C6, C7, D3."""

from __future__ import annotations

import unicodedata

import pytest

from amux_hub.store.paths import check_document, check_prefix, entry_fault, twin_key
from tests.refusals import refused

GOOD = [
    "MEMORY.md",
    "a.md",
    "projects/web/decisions.md",
    "用户/偏好.md",
    "notes/with space inside.md",
    "é.md",
    "e\u0301.md",
    "50%.md",
    "100%off.md",
    "%2.md",
    "sub/~tilde.md",
    "a..b.md",
    "a.b.c.md",
    "-rf.md",
    "$(reboot).md",
    '"quoted".md',
    "*.md",
    "CON.md",
    "a\u200db.md",
    "/".join(["d"] * 15 + ["x.md"]),
    "c" * 252 + ".md",
    "部" * 84 + ".md",
]

REFUSED = {
    "c6_parent": "../x.md",
    "c6_parent_inside": "a/../x.md",
    "c6_parent_at_the_end": "a/..",
    "c6_here": "./x.md",
    "c6_percent_escape": "%2e%2e%2fx.md",
    "c6_percent_escape_upper": "a/%2Fx.md",
    "c6_percent_escape_in_the_name": "a%41.md",
    "c6_backslash": "..\\x.md",
    "c6_backslash_inside": "a\\b.md",
    "c6_nul": "a\0.md",
    "c6_home": "~/x.md",
    "c6_home_of_somebody": "~root/x.md",
    "c6_tilde_name": "~x.md",
    "c7_absolute": "/etc/cron.d/x.md",
    "c7_absolute_of_nothing": "/x.md",
    "c7_empty_component": "a//b.md",
    "c7_two_slashes_first": "//x.md",
    "empty": "",
    "slash_at_the_end": "a.md/",
    "hidden": ".x.md",
    "hidden_suffix_alone": ".md",
    "hidden_directory": ".git/x.md",
    "temporary_name": ".amux-tmp-0123456789abcdef0123456789abcdef",
    "dots": "a/.../x.md",
    "leading_space": " x.md",
    "leading_space_inside": "a/ x.md",
    "trailing_space": "x.md ",
    "trailing_space_of_a_directory": "a /x.md",
    "leading_no_break_space": "\u00a0x.md",
    "trailing_ideographic_space": "a\u3000/x.md",
    "d3_trailing_dot": "x.md.",
    "d3_trailing_dot_of_a_directory": "a./x.md",
    "d3_newline": "a\nb.md",
    "d3_escape": "a\x1bb.md",
    "d3_delete": "a\x7fb.md",
    "d3_c1_control": "a\x85b.md",
    "d3_right_to_left_override": "a\u202eb.md",
    "d3_right_to_left_mark": "a\u200fb.md",
    "d3_isolate": "a\u2066b.md",
    "d3_arabic_letter_mark": "a\u061cb.md",
    "directory_ends_in_md": "a.md/x.md",
    "no_suffix": "x",
    "other_suffix": "x.txt",
    "suffix_in_capitals": "x.MD",
    "lone_surrogate": "a\ud800.md",
    "d3_component_of_256_bytes": "c" * 253 + ".md",
    "d3_component_of_256_bytes_in_chinese": "部" * 84 + "c.md",
    "d3_directory_of_256_bytes": "d" * 256 + "/x.md",
    "depth_17": "/".join(["d"] * 16 + ["x.md"]),
    "path_of_1025_bytes": "/".join(["d" * 204] * 4 + ["d" * 200, "x.md"]),
}


@pytest.mark.parametrize("path", GOOD)
def test_paths_that_are_accepted_come_back_as_their_components(path: str) -> None:
    assert check_document(path) == path.split("/")


@pytest.mark.parametrize("path", REFUSED.values(), ids=REFUSED.keys())
def test_paths_that_are_refused(path: str) -> None:
    error = refused("invalid_path", check_document, path)
    assert error.details["reason"]
    error.message.encode()  # what is shown of a path can be sent


def test_a_path_of_exactly_1024_bytes_is_accepted() -> None:
    longest = "/".join(["d" * 204] * 4 + ["e" * 198, "xx.md"])
    assert len(longest) == 1024
    check_document(longest)
    refused("invalid_path", check_document, longest.replace("e", "ee", 1))
    in_chinese = longest.replace("e" * 198, "部" * 66)
    assert len(in_chinese.encode()) == 1024
    check_document(in_chinese)


def test_d3_no_control_character_is_in_a_path() -> None:
    for code in range(0x110000):
        if unicodedata.category(chr(code)) == "Cc":
            refused("invalid_path", check_document, f"a{chr(code)}b.md")


def test_a_prefix_is_a_directory_or_a_document_and_empty_is_all() -> None:
    assert check_prefix("") == []
    assert check_prefix("projects/web") == ["projects", "web"]
    assert check_prefix("projects/web.md") == ["projects", "web.md"]
    for path in ("/", "a/", "../a", "a//b", "~", ".hidden", "a\\b", "a.md/b", "%2e", "a."):
        refused("invalid_path", check_prefix, path)


def test_the_refusal_of_a_long_path_is_short() -> None:
    error = refused("invalid_path", check_document, "x" * 100_000)
    assert len(error.message) < 400


def test_twin_keys_fold_case_and_normal_form_and_nothing_else() -> None:
    assert twin_key("A.md") == twin_key("a.md")
    assert twin_key("É.md") == twin_key("e\u0301.md")
    assert twin_key("Straße") == twin_key("STRASSE")
    assert twin_key("Σ") == twin_key("ς")
    assert twin_key("é.md") != twin_key("e.md")
    assert twin_key("Ａ.md") != twin_key("A.md")  # full width is another letter
    assert twin_key("I") != twin_key("ı")  # no Turkish rule


def test_names_on_disk_are_judged_by_the_same_grammar() -> None:
    for path in GOOD:
        components = path.split("/")
        assert entry_fault(components, directory=False) is None, path
        for depth in range(1, len(components)):
            assert entry_fault(components[:depth], directory=True) is None, path
    for name, path in REFUSED.items():
        if path.endswith(".md") and "//" not in path and not path.startswith("/"):
            components = path.split("/")
            last = len(components)
            assert any(entry_fault(components[:depth], directory=depth < last) for depth in range(1, last + 1)), name


def test_a_name_that_is_no_utf8_is_a_fault() -> None:
    assert entry_fault(["caf\udce9.md"], directory=False) == "not valid UTF-8"
