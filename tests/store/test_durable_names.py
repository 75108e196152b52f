"""D4: a document is only as durable as the names of the directories that lead to it."""

from __future__ import annotations

import os

import pytest

from tests.store.kit import Home


def synced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes synced from now on, in order."""
    inodes: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        inodes.append(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return inodes


def test_d4_directories_that_somebody_else_made_are_synced_before_the_first_write_into_them(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.upsert("there.md", "x")
    (home.disk / "by" / "hand").mkdir(parents=True)
    inodes = synced(monkeypatch)
    home.upsert("by/hand/a.md", "x")
    above = [path.stat().st_ino for path in (home.disk.parent, home.disk, home.disk / "by")]
    assert inodes[: len(above)] == above
    inodes.clear()
    home.upsert("by/hand/b.md", "x")  # once is enough
    assert not set(above) & set(inodes)


def test_d4_a_directory_put_in_the_place_of_another_is_synced_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.upsert("topic/a.md", "x")
    home.upsert("topic/b.md", "x")
    (home.disk / "topic").rename(home.disk / "moved")
    (home.disk / "topic").mkdir()
    inodes = synced(monkeypatch)
    home.upsert("topic/a.md", "x")
    assert home.disk.stat().st_ino in inodes
