"""How much a scope and a disk may hold; D5, D6."""

from __future__ import annotations

import os

import pytest

from amux import limits
from amux_hub.store import Store
from tests.refusals import refused
from tests.store.kit import Home, sha


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SCOPE_DOCUMENTS", 3)
    monkeypatch.setattr(limits, "SCOPE_BYTES", 1000)


def test_the_limits_of_the_contract() -> None:
    assert (limits.SCOPE_DOCUMENTS, limits.SCOPE_BYTES) == (1024, 16 << 20)


def test_1024_documents_and_no_more(home: Home) -> None:
    for number in range(1024):
        home.put(f"{number % 8}/{number}.md", "x")
    error = refused("limit_exceeded", home.scope.upsert, "new.md", "x", "absent")
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("scope_documents", 1024, 1025)
    home.upsert("0/0.md", "an existing one may change")
    home.scope.forget("1/1.md", sha(b"x"))
    home.upsert("new.md", "x")
    refused("limit_exceeded", home.scope.upsert, "newer.md", "x", "absent")


@pytest.mark.usefixtures("small")
def test_bytes_to_the_last_one(home: Home) -> None:
    home.upsert("a.md", "x" * 600)
    home.upsert("b.md", "x" * 400)
    error = refused("limit_exceeded", home.scope.upsert, "b.md", "x" * 401, sha(b"x" * 400))
    assert (error.details["limit"], error.details["value"], error.details["found"]) == ("scope_bytes", 1000, 1001)
    refused("limit_exceeded", home.scope.upsert, "c.md", "x", "absent")
    home.upsert("c.md", "")  # no byte more
    home.upsert("a.md", "x" * 599)
    home.upsert("c.md", "x")


@pytest.mark.usefixtures("small")
def test_a_scope_over_quota_may_shrink_and_forget_always_works(home: Home) -> None:
    for number in range(6):
        home.put(f"{number}.md", "x" * 900)
    refused("limit_exceeded", home.scope.upsert, "0.md", "x" * 901, sha(b"x" * 900))
    home.upsert("0.md", "y" * 900)  # neither measure grew
    home.upsert("1.md", "x" * 899)
    refused("limit_exceeded", home.scope.upsert, "new.md", "", "absent")
    for number in range(2, 6):
        home.scope.forget(f"{number}.md", sha(b"x" * 900))
    refused("limit_exceeded", home.scope.upsert, "new.md", "x", "absent")
    home.upsert("new.md", "")
    assert len(home.tree()) == 3


@pytest.mark.usefixtures("small")
def test_invalid_oversize_and_unsafe_files_count_and_links_and_hidden_ones_do_not(home: Home) -> None:
    home.put("bad.md", b"\xff" * 400)
    home.put(".hidden.md", b"x" * 5000)
    home.put("notes.txt", b"x" * 5000)
    home.put("bell\x07.md", b"x" * 5000)  # no path can name it
    (home.disk / "link.md").symlink_to("notes.txt")
    os.mkfifo(home.disk / "fifo.md")
    os.link(home.put("pair.txt", b"x" * 400), home.disk / "pair.md")
    assert refused("limit_exceeded", home.scope.upsert, "a.md", "x" * 201, "absent").details["found"] == 1001
    home.upsert("a.md", "x" * 200)
    error = refused("limit_exceeded", home.scope.upsert, "b.md", "", "absent")
    assert (error.details["limit"], error.details["found"]) == ("scope_documents", 4)


@pytest.mark.usefixtures("small")
def test_a_name_in_another_normal_form_counts(home: Home) -> None:
    for name in ("e\u0301", "a\u0301", "o\u0301"):
        home.put(f"{name}.md", "x")
    refused("limit_exceeded", home.scope.upsert, "a.md", "x", "absent")


@pytest.mark.usefixtures("small")
def test_what_another_program_added_or_took_counts_at_once(home: Home, looking: str) -> None:
    for number in range(2):
        home.upsert(f"{number}.md", "x" * 100)
    home.put("by-hand.md", "x" * 100)
    refused("limit_exceeded", home.scope.upsert, "a.md", "x", "absent")
    (home.disk / "by-hand.md").unlink()
    home.put("0.md", "x" * 850)
    assert refused("limit_exceeded", home.scope.upsert, "a.md", "x" * 51, "absent").details["limit"] == "scope_bytes"
    home.upsert("a.md", "x" * 50)


def test_a_sparse_file_counts_with_its_size_and_can_be_forgotten(home: Home) -> None:
    target = home.put("sparse.md", b"")
    os.truncate(target, limits.SCOPE_BYTES + 1)
    refused("limit_exceeded", home.scope.upsert, "a.md", "x", "absent")
    refused("limit_exceeded", home.scope.get, "sparse.md")
    row = home.scope.listing()["documents"][0]
    assert (row["bytes"], row["revision"]) == (limits.SCOPE_BYTES + 1, None)
    home.scope.forget("sparse.md", sha(bytes(limits.SCOPE_BYTES + 1)))
    home.upsert("a.md", "x")


def free(home: Home) -> int:
    status = os.statvfs(home.path)
    return status.f_bavail * status.f_frsize


def test_d6_below_the_reserve_writes_are_refused_and_reads_and_deletes_are_not(home: Home) -> None:
    revision = home.upsert("a.md", "x")
    home.scope.free_bytes = free(home) * 2
    for path, expected in (("a.md", revision), ("b.md", "absent")):
        error = refused("storage_full", home.scope.upsert, path, "y", expected)
        assert (error.details["limit"], error.details["value"]) == ("free_bytes", home.scope.free_bytes)
        assert isinstance(error.details["found"], int)
    assert home.get("a.md")["content"] == "x"
    assert home.hits("x") == ["a.md"]
    home.scope.forget("a.md", revision)
    assert home.tree() == {}


def test_d6_a_write_may_use_what_is_above_the_reserve_to_the_last_byte(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve, size = 1000, 300
    home.scope.free_bytes = reserve
    real = os.statvfs(home.disk)

    def with_free(bytes_free: int) -> None:
        status = list(real)
        status[0] = status[1] = 1  # sizes of a block
        status[3], status[4] = bytes_free + 5000, bytes_free  # what root may use is not for the Hub
        monkeypatch.setattr(os, "fstatvfs", lambda _fd: os.statvfs_result(status))

    with_free(reserve + size - 1)
    error = refused("storage_full", home.scope.upsert, "a.md", "x" * size, "absent")
    assert error.details["found"] == reserve + size - 1
    with_free(reserve + size)
    home.upsert("a.md", "x" * size)


def test_d6_the_reserve_is_what_the_store_was_opened_with(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("home")
    store = Store(str(path), 1 << 20, 1 << 60)
    refused("storage_full", store.scope("global").upsert, "a.md", "x", "absent")
    store.close()
