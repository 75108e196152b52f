"""Many threads at one memory and at many: no update lost, no text torn, no deadlock; C1, C2, D5."""

from __future__ import annotations

import contextlib
import random
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import Store
from tests.store.kit import Home, sha, together


def test_c1_60_writes_to_60_paths_are_60_files(home: Home) -> None:
    together(*(partial(home.upsert, f"d{number % 7}/{number}.md", f"text {number}", "absent") for number in range(60)))
    assert home.tree() == {f"d{number % 7}/{number}.md": f"text {number}".encode() for number in range(60)}


@pytest.mark.parametrize("existing", [False, True])
def test_c1_60_writes_to_one_path_with_one_revision_are_one_success(home: Home, existing: bool) -> None:
    revision = home.upsert("a.md", "before") if existing else "absent"
    won: list[str] = []
    observed: list[object] = []

    def write(number: int) -> None:
        try:
            won.append(home.upsert("a.md", f"text {number}", revision))
        except AmuxError as error:
            assert error.code == "conflict"
            observed.append(error.details["observed_revision"])

    together(*(partial(write, number) for number in range(60)))
    assert len(won) == 1
    assert observed == won * 59
    assert home.get("a.md")["revision"] == won[0]


def test_c1_of_60_forgets_one_forgets(home: Home) -> None:
    revision = home.upsert("d/a.md", "x")
    answers: list[Any] = []
    together(*(lambda: answers.append(home.scope.forget("d/a.md", revision)) for _ in range(60)))
    assert [answer["already_absent"] for answer in answers].count(False) == 1
    assert list(home.disk.iterdir()) == []


def append(store: Store, scope: str, path: str, line: str) -> int:
    """Read, append, write until it succeeds, as a client would; how many conflicts it met."""
    conflicts = 0
    while True:
        answer: Any = store.scope(scope).get(path)
        text = answer["content"]
        while answer["truncated"]:
            answer = store.scope(scope).get(path, offset=answer["next_offset"])
            text += answer["content"]
        try:
            store.scope(scope).upsert(path, f"{text}{line}\n", answer["revision"])
            return conflicts
        except AmuxError as error:
            assert error.code == "conflict"
            conflicts += 1


def test_c2_two_clients_of_1000_rounds_each_keep_all_2000_lines(quick_home: Home) -> None:
    def client(name: str) -> None:
        for number in range(1000):
            append(quick_home.store, "global", "log.md", f"{name}{number}")

    together(partial(client, "a"), partial(client, "b"))
    lines = quick_home.whole("log.md").decode().splitlines()
    assert len(lines) == 2000
    for name in ("a", "b"):
        assert [line for line in lines if line[0] == name] == [f"{name}{number}" for number in range(1000)]


def test_no_update_is_lost_in_several_scopes_at_once(quick: Path) -> None:
    store = Store(str(quick), 20_000, 0)

    def client(name: int) -> None:
        random_ = random.Random(name)
        for number in range(40):
            append(store, f"principal:{random_.randrange(3)}", f"d{random_.randrange(2)}/log.md", f"{name}-{number}")

    together(*(partial(client, name) for name in range(8)))
    lines = []
    for scope in range(3):
        for directory in range(2):
            answer: Any = store.scope(f"principal:{scope}").get(f"d{directory}/log.md")
            assert answer["truncated"] is False
            lines += answer["content"].splitlines()
    assert sorted(lines) == sorted(f"{name}-{number}" for name in range(8) for number in range(40))
    store.close()


def body(word: str, number: int) -> str:
    """A text that shows by itself whether it is whole: every line says the same, and there are as many as it says."""
    count = 50 + number % 50
    return f"{word} {number} of {count}\n" * count


def whole(text: str) -> bool:
    lines = text.splitlines()
    return len(set(lines)) == 1 and lines[0].endswith(f" {len(lines)}")


SCOPES = ["global", "principal:a", "principal:b"]
PATHS = ["a.md", "d/b.md", "d/e/c.md"]


class Crowd:
    """Readers, searchers, listers, writers, forgetters and an editor beside the Hub, over three scopes."""

    def __init__(self, store: Store, disk: Path) -> None:
        self.store = store
        self.disk = disk
        self.texts: dict[str, str] = {}
        self.stop = threading.Event()

    def remember(self, text: str) -> str:
        self.texts[sha(text.encode())] = text
        return text

    def write(self, seed: int) -> None:
        random_ = random.Random(seed)
        for number in range(60):
            scope, path = self.store.scope(random_.choice(SCOPES)), random_.choice(PATHS)
            expected = str(scope.get(path)["revision"])
            with contextlib.suppress(AmuxError):  # of two, one is told
                if random_.random() < 0.2:
                    scope.forget(path, expected)
                else:
                    scope.upsert(path, self.remember(body("red" if seed % 2 else "blue", number)), expected)

    def edit(self) -> None:
        random_ = random.Random(0)
        temporary = self.disk / ".edit"
        for number in range(100):
            temporary.write_text(self.remember(body("green", number)))
            with contextlib.suppress(FileNotFoundError):  # a forgotten document took its directory along
                temporary.rename(self.disk / random_.choice(PATHS))

    def read(self, seed: int) -> None:
        random_ = random.Random(seed)
        while not self.stop.is_set():
            answer: Any = self.store.scope(random_.choice(SCOPES)).get(random_.choice(PATHS))
            if answer["exists"]:
                assert answer["content"] == self.texts[answer["revision"]]
                assert whole(answer["content"])

    def search(self, seed: int) -> None:
        random_ = random.Random(seed)
        while not self.stop.is_set():
            word = random_.choice(["red", "blue", "green"])
            answer: Any = self.store.scope(random_.choice(SCOPES)).search(word, "", 20)
            for match in answer["matches"]:
                assert match["snippet"].startswith(word)
                assert match["snippet"] in self.texts[match["revision"]]

    def list(self) -> None:
        while not self.stop.is_set():
            for scope in SCOPES:
                answer: Any = self.store.scope(scope).listing()
                assert len(answer["documents"]) <= len(PATHS)

    def change(self) -> None:
        """Everybody who changes something, then the end for those who look."""
        try:
            together(*(partial(self.write, seed) for seed in range(4)), self.edit)
        finally:
            self.stop.set()


@pytest.mark.parametrize("cache_bytes", [1000, 64 << 20])
def test_no_read_is_torn_and_no_answer_disagrees_with_itself(quick: Path, looking: str, cache_bytes: int) -> None:
    store = Store(str(quick), cache_bytes, 0)
    disk = quick / "memory" / "global"
    disk.mkdir()
    crowd = Crowd(store, disk)
    readers = [partial(crowd.read, 1), partial(crowd.read, 2), partial(crowd.search, 3), partial(crowd.search, 4)]
    together(crowd.change, *readers, crowd.list)
    for path in disk.rglob("*.md"):
        text = path.read_text()
        answer: Any = store.scope("global").search(text[:4], str(path.relative_to(disk)))
        assert [match["revision"] for match in answer["matches"]] == [sha(text.encode())]
    store.close()


@pytest.mark.parametrize("measure", ["documents", "bytes"])
def test_d5_50_writers_at_the_limit_never_go_over(home: Home, monkeypatch: pytest.MonkeyPatch, measure: str) -> None:
    monkeypatch.setattr(limits, "SCOPE_DOCUMENTS", 20 if measure == "documents" else 1000)
    monkeypatch.setattr(limits, "SCOPE_BYTES", 2000 if measure == "bytes" else 1 << 20)
    stop = threading.Event()
    most = [0, 0]
    succeeded: list[int] = []

    def watch() -> None:
        while not stop.is_set():
            documents = []
            for path in home.disk.rglob("*.md"):
                with contextlib.suppress(FileNotFoundError):
                    documents.append(path.stat().st_size)
            most[0] = max(most[0], len(documents))
            most[1] = max(most[1], sum(documents))

    def write(number: int) -> None:
        for attempt in range(3):
            try:
                home.upsert(f"{number}-{attempt}.md", "x" * 100, "absent")
                succeeded.append(number)
            except AmuxError as error:
                assert error.code == "limit_exceeded"

    def all_writers() -> None:
        try:
            together(*(partial(write, number) for number in range(50)))
        finally:
            stop.set()

    together(watch, all_writers)
    assert len(succeeded) == 20
    assert len(home.tree()) == 20
    assert most[0] <= 20
    assert most[1] <= 2000


def test_a_store_shared_by_threads_keeps_the_sum_of_its_cache(quick: Path) -> None:
    store = Store(str(quick), 30_000, 0)

    def client(seed: int) -> None:
        random_ = random.Random(seed)
        for number in range(40):
            scope = store.scope(f"principal:{random_.randrange(5)}")
            path = f"{random_.randrange(4)}.md"
            with contextlib.suppress(AmuxError):
                scope.upsert(path, f"red {number} " * random_.randrange(400), str(scope.get(path)["revision"]))
            scope.search("red")

    together(*(partial(client, seed) for seed in range(6)))
    for number in range(5):
        store.scope(f"principal:{number}").search("red")
    assert store.cache.total == sum(store.cache._costs.values())
    assert store.cache.total <= 30_000
    assert store.cache.total == sum(
        store.scope(f"principal:{number}")._index.cost
        for number in range(5)
        if store.scope(f"principal:{number}")._index in store.cache._costs
    )
    store.close()
