"""What the tests of the store share: a scope seen through the store and seen on the disk."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amux_hub.store import Store

WAIT_SECONDS = 30
"""How long anything may take before it counts as a deadlock; never a promise about speed."""

needs_an_ordinary_account = pytest.mark.skipif(
    os.geteuid() == 0, reason="root may read everything: runs in the layer of the ordinary account"
)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def frame_size(reply: dict[str, Any]) -> int:
    """Bytes of a reply on the wire, its terminating NUL included."""
    text = json.dumps({"parameters": reply}, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) + 1


class Home:
    """A store, its scope `global`, and the directory that holds that scope's files."""

    def __init__(self, store: Store, path: Path) -> None:
        self.store = store
        self.path = path
        self.disk = path / "memory" / "global"
        self.use("global")

    def use(self, scope: str) -> None:
        """Go on in another scope."""
        self.name = scope
        self.scope: Any = self.store.scope(scope)  # Any: answers are JSON

    def put(self, path: str, data: bytes | str) -> Path:
        """Write a file as any program would, directories included."""
        target = self.disk / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data if isinstance(data, bytes) else data.encode())
        return target

    def get(self, path: str, **more: int) -> dict[str, Any]:
        """A get from the disk; what `Store.ready` would have answered in its place must be the same."""
        key = (self.name, path, more.get("start_line", 0), more.get("end_line", 0), more.get("offset", 0))
        ready = self.store.ready(*key)
        answer: dict[str, Any] = self.scope.get(path, **more)
        assert ready is None or ready == answer
        self.store.settle()
        return answer

    def whole(self, path: str) -> bytes:
        """A document read page by page, with one revision throughout."""
        data, offset = b"", 0
        first = self.get(path)["revision"]
        while True:
            page = self.get(path, offset=offset)
            assert page["revision"] == first
            data += str(page["content"]).encode()
            if not page["truncated"]:
                return data
            assert page["next_offset"] > offset
            offset = page["next_offset"]

    def search(self, query: str, prefix: str = "", limit: int = 20) -> dict[str, Any]:
        answer: dict[str, Any] = self.scope.search(query, prefix, limit)
        return answer

    def hits(self, query: str, prefix: str = "") -> list[str]:
        """The paths found, of a search that was complete."""
        answer = self.search(query, prefix)
        assert answer["incomplete"] is False
        return [match["path"] for match in answer["matches"]]

    def upsert(self, path: str, text: str, expected: str | None = None) -> str:
        """Write with the revision that is there now, or `expected`; answers the new one."""
        revision = self.get(path)["revision"] if expected is None else expected
        return str(self.scope.upsert(path, text, revision)["revision"])

    def tree(self) -> dict[str, bytes]:
        """Every file below the scope, hidden ones included."""
        return {
            str(path.relative_to(self.disk)): path.read_bytes()
            for path in self.disk.rglob("*")
            if path.is_file() and not path.is_symlink()
        }


def together(*works: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Run every one of `works` in a thread of its own, from one moment on; raise what any raised.

    Threads that have not ended after `seconds` are a deadlock.
    """
    errors: list[BaseException] = []
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], object]) -> None:
        try:
            gate.wait(seconds)
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    assert not any(thread.is_alive() for thread in threads), "deadlock"
    if errors:
        raise errors[0]
