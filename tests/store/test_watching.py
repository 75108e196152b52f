"""Where the proof of freshness ends and what then takes its place: overflow, no watches, eviction, young entries."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from amux_hub.store import Store, cache, tree, watch
from amux_hub.store import index as index_module
from tests.store.kit import Home, sha


@pytest.fixture
def events_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "FULL_PASS_SECONDS", 1e9)


@pytest.mark.usefixtures("events_alone")
def test_an_overflow_of_the_kernels_queue_means_look_at_everything(home: Home) -> None:
    target = home.put("a.md", "red")
    noisy = home.put("noise.md", "x")
    assert home.hits("red") == ["a.md"]
    before = home.store._watcher.overflows
    queued = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _ in range(queued // 2 + 100):  # an opening and a closing each
        os.close(os.open(noisy, os.O_RDONLY))
    target.write_bytes(b"blue")  # nobody is told
    home.put("new/b.md", "red")
    (home.disk / "noise.md").unlink()
    assert home.hits("red") == ["new/b.md"]
    assert home.store._watcher.overflows == before + 1
    assert home.hits("blue") == ["a.md"]
    assert home.hits("noise") == []
    target.write_bytes(b"red")
    assert home.hits("red") == ["a.md", "new/b.md"]


@pytest.mark.usefixtures("events_alone")
def test_what_we_do_ourselves_does_not_fill_the_kernels_queue(home: Home) -> None:
    home.put("a.md", "red 00")
    assert home.hits("red") == ["a.md"]
    for number in range(3):
        home.scope.upsert("a.md", f"red {number:02}", home.get("a.md")["revision"])
        home.store.settle()
    with pytest.raises(BlockingIOError):
        os.read(home.store._watcher._fd, 1 << 16)
    assert home.hits("02") == ["a.md"]


@pytest.mark.usefixtures("events_alone")
def test_more_events_than_are_kept_for_a_scope_that_nobody_reads(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_PENDING", 10)
    home.put("a.md", "red")
    assert home.hits("red") == ["a.md"]
    other = home.store.scope("principal:other")
    other.upsert("x.md", "x", "absent")
    for number in range(50):
        home.put("a.md", f"blue {number}")
        other.search("x")  # takes the events of all from the kernel
    assert len(home.scope._index.pending) <= 11
    home.put("b.md", "red")
    other.search("x")
    assert home.hits("red") == ["b.md"]
    assert home.hits("blue") == ["a.md"]


@pytest.mark.usefixtures("events_alone")
def test_no_inotify_means_a_stat_of_each_file(home: Home) -> None:
    home.store._watcher.close()
    home.put("a.md", "red")
    assert home.hits("red") == ["a.md"]
    home.put("a.md", "blue")
    assert home.hits("red") == []
    home.get("a.md")
    home.upsert("a.md", "red")
    assert home.hits("red") == ["a.md"]


@pytest.mark.usefixtures("events_alone")
def test_no_more_watches_means_a_stat_of_each_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    add = home.store._watcher.add
    left = iter(range(2))
    monkeypatch.setattr(
        home.store._watcher, "add", lambda fd, index: add(fd, index) if next(left, None) is not None else None
    )
    for number in range(5):
        home.put(f"d{number}/a.md", "red")
    assert len(home.hits("red")) == 5
    for number in range(5):
        home.put(f"d{number}/a.md", "blue")
        assert len(home.hits("red")) == 4 - number


@pytest.mark.usefixtures("events_alone")
def test_a_part_on_a_file_system_that_is_not_local_means_a_stat_of_each_file(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.put("near/a.md", "red")
    home.put("far/a.md", "red")
    inode = (home.disk / "far").stat().st_ino
    monkeypatch.setattr(watch, "is_local", lambda fd: os.fstat(fd).st_ino != inode)
    assert home.hits("red") == ["far/a.md", "near/a.md"]
    assert home.scope._index._proven is False
    home.put("far/a.md", "blue")
    assert home.hits("red") == ["near/a.md"]


def test_this_machines_temporary_directory_and_proc_are_told_apart(tmp_path: Path) -> None:
    fd = os.open("/proc", os.O_RDONLY)
    assert watch.is_local(fd) is False
    os.close(fd)
    assert watch.is_local(-1) is False


def test_a_full_pass_every_2_seconds_of_use_whatever_the_events_say(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    home.put("a.md", "red")
    assert home.hits("red") == ["a.md"]
    monkeypatch.setattr(home.store._watcher, "drain", lambda: None)  # a kernel that tells nothing
    home.put("b.md", "red")
    now += 2.01
    assert home.hits("red") == ["a.md", "b.md"]


@pytest.mark.usefixtures("events_alone")
def test_every_hit_is_checked_before_the_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.put("a.md", "red")
    home.put("b.md", "red")
    home.put("c.md", "red")
    assert len(home.hits("red")) == 3
    monkeypatch.setattr(home.store._watcher, "drain", lambda: None)
    home.put("a.md", "blue")
    (home.disk / "b.md").unlink()
    home.put("c.md", "red and more")
    answer = home.search("red")
    assert [(match["path"], match["revision"]) for match in answer["matches"]] == [("c.md", sha(b"red and more"))]


@pytest.mark.usefixtures("events_alone")
def test_a_hit_whose_bytes_changed_without_a_trace_is_found_out_by_its_hash(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a store through a memory map may: no event, no change of times."""
    target = home.put("a.md", "red one")
    assert home.hits("red") == ["a.md"]
    monkeypatch.setattr(home.store._watcher, "drain", lambda: None)
    frozen = tree.signature(target.stat())
    for data in (b"red two", b"blue 23", b"\xff\xfe red"):
        target.write_bytes(data)
        monkeypatch.setattr(tree, "signature", lambda status: frozen)
        for match in home.search("red")["matches"]:
            assert match["revision"] == sha(data)
            assert match["snippet"] == data.decode()


def test_an_entry_younger_than_the_clocks_grain_is_read_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that ticks every 10 ms, by stat alone, with changes that keep the size."""
    monkeypatch.setattr(watch, "is_local", lambda fd: False)
    grain = 10_000_000

    def coarse(status: os.stat_result) -> tree.Signature:
        mtime, ctime = status.st_mtime_ns // grain * grain, status.st_ctime_ns // grain * grain
        return status.st_dev, status.st_ino, status.st_size, mtime, ctime

    monkeypatch.setattr(tree, "signature", coarse)
    target = home.put("a.md", "word000")
    ticks = set()
    for number in range(300):
        target.write_bytes(b"word%03d" % number)
        ticks.add(coarse(target.stat())[4])
        assert home.hits(f"word{number:03}") == ["a.md"]
        if number:
            assert home.hits(f"word{number - 1:03}") == []
    assert len(ticks) < 300  # several changes did share a tick


def test_a_clock_that_counts_whole_seconds_is_believed_only_after_two(home: Home) -> None:
    second = int(time.time()) * 1_000_000_000
    assert index_module._is_racy((1, 1, 1, second, second))
    assert not index_module._is_racy((1, 1, 1, 1, second - 5_000_000_000))
    assert index_module._is_racy((1, 1, 1, second + 60_000_000_000, 1))  # a time in the future proves nothing


def work(store: Store, seed: int) -> list[object]:
    """A fixed sequence of operations over several scopes; the answers."""
    random_ = random.Random(seed)
    words = ["red", "blue", "部署", "x" * 200]
    answers: list[object] = []
    for _ in range(150):
        scope = store.scope(random_.choice(["global", "principal:a", "principal:b", "principal:c", "principal:d"]))
        path = f"{random_.choice('ab')}/{random_.choice('cde')}.md"
        expected = str(scope.get(path)["revision"])
        match random_.randrange(4):
            case 0:
                answers.append(scope.upsert(path, " ".join(random_.choices(words, k=20)), expected))
            case 1:
                answers.append(scope.forget(path, expected))
            case 2:
                answers.append(scope.search(" ".join(random_.choices(words, k=2)), random_.choice(["", "a"]), 20))
            case 3:
                answers.append(scope.listing())
    return answers


@pytest.mark.parametrize("capacity", [0, 1, 2000, 20_000])
def test_eviction_never_changes_an_answer(quick: Path, looking: str, capacity: int) -> None:
    answers = []
    for name, size in (("small", capacity), ("large", 64 << 20)):
        (quick / name).mkdir()
        store = Store(str(quick / name), size, 0)
        answers.append(work(store, 5))
        assert store.cache.total <= size
        store.close()
    assert answers[0] == answers[1]


def test_the_cache_is_bounded_over_all_scopes_and_the_least_recently_used_goes(tmp_path: Path) -> None:
    store = Store(str(tmp_path), 100_000, 0)
    scopes = [store.scope(f"principal:{number}") for number in range(6)]
    for scope in scopes:
        scope.upsert("a.md", "red " * 5000, "absent")
        scope.search("red")
        assert store.cache.total <= 100_000
    held = [scope._index.cost > 20_000 for scope in scopes]
    assert held == [False, False, True, True, True, True]
    scopes[2].search("red")
    scopes[0].search("red")
    assert [scope._index.cost > 20_000 for scope in scopes] == [True, False, True, False, True, True]
    store.close()


def test_scopes_that_only_write_are_bounded_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SCOPES", 4)
    store = Store(str(tmp_path), 1 << 20, 0)
    for number in range(12):
        store.scope(f"principal:{number}").upsert("d/a.md", "x", "absent")
        assert len(store._watcher._subscribers) <= 4 * 2
    for number in range(12):
        assert store.scope(f"principal:{number}").search("x")["scanned_files"] == 1
    store.close()


def test_watches_of_directories_that_are_gone_are_given_back(home: Home) -> None:
    home.hits("x")
    before = len(home.store._watcher._subscribers)
    for number in range(20):
        revision = home.upsert(f"d{number}/e/a.md", "x")
        home.hits("x")
        home.scope.forget(f"d{number}/e/a.md", revision)
        home.hits("x")
    assert len(home.store._watcher._subscribers) == before
    assert len(home.scope._index.census.directories) == before


def test_our_own_reading_balances_out(home: Home) -> None:
    for number in range(20):
        home.put(f"{number}.md", "red")
    for _ in range(5):
        home.search("red")
        home.get("3.md")
    home.search("red")
    assert home.scope._index._opens == {}
