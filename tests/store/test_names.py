"""Names that a person would take for one another: C16, C17, the normal form, the reserved name."""

from __future__ import annotations

import pytest

from tests.refusals import refused
from tests.store.kit import Home, sha

NFC, NFD = "\u00e9.md", "e\u0301.md"


def test_c16_a_twin_in_the_other_normal_form_is_refused_and_names_the_first(home: Home) -> None:
    home.upsert(NFC, "first")
    error = refused("name_twin", home.scope.upsert, NFD, "second", "absent")
    assert error.details["existing"] == NFC
    assert sorted(home.tree()) == [NFC]


def test_c16_an_existing_nfd_name_is_reached_by_its_exact_bytes(home: Home) -> None:
    home.put(NFD, "by somebody's Mac")
    assert home.hits("mac") == [NFD]
    assert home.get(NFD)["content"] == "by somebody's Mac"
    assert home.get(NFC)["exists"] is False
    assert refused("name_twin", home.scope.upsert, NFC, "second", "absent").details["existing"] == NFD
    home.upsert(NFD, "changed")
    assert home.tree() == {NFD: b"changed"}
    assert home.scope.forget(NFD, sha(b"changed"))["already_absent"] is False


def test_c16_an_existing_pair_stays_readable_and_reachable(home: Home) -> None:
    home.put(NFC, "needle composed")
    home.put(NFD, "needle decomposed")
    assert home.hits("needle") == [NFD, NFC]  # as they are on disk, in byte order
    assert [row["path"] for row in home.scope.listing()["documents"]] == [NFD, NFC]
    assert home.get(NFC)["content"] == "needle composed"
    assert home.get(NFD)["content"] == "needle decomposed"
    home.upsert(NFC, "needle one")
    home.upsert(NFD, "needle two")
    assert home.tree() == {NFC: b"needle one", NFD: b"needle two"}
    home.scope.forget(NFC, sha(b"needle one"))
    assert home.tree() == {NFD: b"needle two"}
    refused("name_twin", home.scope.upsert, NFC, "again", "absent")


def test_c16_a_pair_of_directories_stays_reachable(home: Home) -> None:
    home.put("Notes/a.md", "needle")
    home.put("notes/b.md", "needle")
    home.upsert("Notes/new.md", "needle")
    home.upsert("notes/new.md", "needle")
    assert home.hits("needle") == ["Notes/a.md", "Notes/new.md", "notes/b.md", "notes/new.md"]
    refused("name_twin", home.scope.upsert, "NOTES/x.md", "x", "absent")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("A.md", "a.md"),
        ("straße.md", "STRASSE.md"),
        ("σ.md", "ς.md"),
        ("dir/A.md", "dir/a.md"),
        ("Dir/a.md", "dir/b.md"),
        ("É/a.md", "é/b.md"),
        ("a/b/C/x.md", "a/b/c/y.md"),
        ("k.md", "\u212a.md"),
    ],
)
def test_c17_the_second_of_two_case_twins_is_refused_naming_the_first(home: Home, first: str, second: str) -> None:
    home.upsert(first, "first")
    error = refused("name_twin", home.scope.upsert, second, "second", "absent")
    existing = str(error.details["existing"])
    assert first == existing or first.startswith(existing + "/")
    assert existing in error.message
    assert list(home.tree()) == [first]
    assert home.get(second)["exists"] is False
    assert home.hits("first") == [first]


def test_d3_a_twin_made_by_another_program_a_moment_ago_is_seen(home: Home, looking: str) -> None:
    home.hits("x")
    home.put("A.md", "x")
    refused("name_twin", home.scope.upsert, "a.md", "x", "absent")
    (home.disk / "A.md").unlink()
    home.upsert("a.md", "x")
    home.put("Dir/x.txt", "no document, but a directory")
    refused("name_twin", home.scope.upsert, "dir/x.md", "x", "absent")


def test_a_link_has_its_name_too(home: Home, looking: str) -> None:
    home.hits("x")
    (home.disk / "A.md").symlink_to("/nowhere")
    refused("name_twin", home.scope.upsert, "a.md", "x", "absent")


def test_c17_a_directory_keeps_its_name_when_its_twin_is_gone(home: Home, looking: str) -> None:
    """`X.MD` is a good name for a directory, and folds to that of a document."""
    home.put("X.MD/a.md", "x")
    home.put("d/Y.MD/a.md", "x")
    home.put("x.md", "x")
    home.put("d/y.md", "x")
    home.put("d/Y.md", "x")
    home.hits("x")
    home.scope.forget("x.md", sha(b"x"))
    assert refused("name_twin", home.scope.upsert, "x.md", "x", "absent").details["existing"] == "X.MD"
    for gone, kept in (("d/y.md", {"d/Y.md", "d/Y.MD"}), ("d/Y.md", {"d/Y.MD"})):
        (home.disk / gone).unlink()
        assert refused("name_twin", home.scope.upsert, "d/y.md", "x", "absent").details["existing"] in kept
    home.scope.forget("d/Y.MD/a.md", sha(b"x"))
    home.upsert("d/y.md", "x")


def test_the_name_of_a_link_becomes_free_too(home: Home, looking: str) -> None:
    (home.disk / "A.md").symlink_to("/nowhere")
    home.hits("x")
    (home.disk / "A.md").unlink()
    home.upsert("a.md", "x")


def test_a_name_becomes_free_when_its_document_is_forgotten(home: Home, looking: str) -> None:
    revision = home.upsert("Dir/A.md", "x")
    home.scope.forget("Dir/A.md", revision)
    home.upsert("dir/a.md", "x")
    assert list(home.tree()) == ["dir/a.md"]


def test_unrelated_letters_are_no_twins(home: Home) -> None:
    for path in ("e.md", NFC, "Ａ.md", "a.md", "ı.md", "i.md"):
        home.upsert(path, "x")
    assert len(home.tree()) == 6


def test_nfc_is_required_to_create_and_the_message_shows_it(home: Home) -> None:
    error = refused("invalid_path", home.scope.upsert, NFD, "x", "absent")
    assert NFC in error.message
    refused("invalid_path", home.scope.upsert, "e\u0301/x.md", "x", "absent")
    assert home.tree() == {}
    home.put("e\u0301/old.md", "x")
    home.upsert("e\u0301/new.md", "x")  # the directory is there already
    refused("invalid_path", home.scope.upsert, f"e\u0301/{NFD}", "x", "absent")


@pytest.mark.parametrize("path", ["memory.md", "Memory.md", "MEMORY.MD/x.md", "memory.MD/sub/x.md"])
def test_at_the_root_names_that_fold_to_memory_md_are_reserved(home: Home, path: str) -> None:
    error = refused("name_twin", home.scope.upsert, path, "x", "absent")
    assert error.details["existing"] == "MEMORY.md"
    assert list(home.disk.iterdir()) == []
    home.upsert("MEMORY.md", "x")
    home.upsert(f"sub/{path}", "x")


def test_a_reserved_name_that_another_program_made_stays_reachable(home: Home) -> None:
    home.put("memory.md", "needle")
    home.upsert("memory.md", "needle changed")
    assert home.hits("needle") == ["memory.md"]
    assert refused("name_twin", home.scope.upsert, "MEMORY.md", "x", "absent").details["existing"] == "memory.md"


def test_d3_two_keys_are_never_one_file(home: Home) -> None:
    names = ["a.md", "á.md", "ä.md", "ß.md", "部.md", "a b.md", "a-b.md", "a_b.md", "a.b.md", "1.md", "１.md"]
    for name in names:
        home.upsert(name, name)
    assert home.tree() == {name: name.encode() for name in names}
