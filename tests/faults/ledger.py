"""What a client knows of the documents that it wrote: acknowledged, or of unknown outcome.

A document's content names its path and its number and fills up to a size, so no two are equal and a torn or
mixed file is none of them.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

TEMPORARY = ".amux-tmp-"
ABSENT = "absent"


def revision_of(data: bytes | None) -> str:
    return ABSENT if data is None else hashlib.sha256(data).hexdigest()


def content(path: str, number: int, size: int) -> str:
    """About `size` bytes of ASCII that nobody else writes."""
    line = f"{path} {number} {size}\n"
    return (line * (size // len(line) + 1))[: max(size, len(line))]


class Ledger:
    """Thread-safe. `pending` holds what was sent without an answer so far; None stands for no document."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.pending: dict[str, bytes | None] = {}
        self.acknowledged = 0
        self.happened = 0
        """Writes without an answer that turned out to be there, and those that did not."""
        self.vanished = 0
        self._lock = threading.Lock()

    def sent(self, path: str, data: bytes | None) -> None:
        with self._lock:
            assert path not in self.pending
            self.pending[path] = data

    def done(self, path: str) -> None:
        """The write was acknowledged."""
        with self._lock:
            self._put(path, self.pending.pop(path))
            self.acknowledged += 1

    def learned(self, path: str, revision: str) -> None:
        """What a read said of a write without an answer."""
        with self._lock:
            data, before = self.pending.pop(path), self.documents.get(path)
            assert revision in (revision_of(before), revision_of(data)), f"{path} is neither the old nor the new"
            self._put(path, data if revision == revision_of(data) else before)

    def refused(self, path: str) -> None:
        """The write was refused for certain: it must not happen."""
        with self._lock:
            del self.pending[path]

    def _put(self, path: str, data: bytes | None) -> None:
        if data is None:
            self.documents.pop(path, None)
        else:
            self.documents[path] = data

    def settle(self, scope: Path) -> None:
        """Compare with the files, and take over what became of the writes without an answer."""
        found = files(scope)
        for path, data in self.pending.items():
            before, after = self.documents.get(path), found.get(path)
            assert after in (before, data), f"{path} is torn: {len(after or b'')} bytes, neither the old nor the new"
            if after == data:
                self.happened += 1
            else:
                self.vanished += 1
            self._put(path, after)
        self.pending.clear()
        lost = sorted(path for path in self.documents if path not in found)
        assert not lost, f"acknowledged and gone: {lost}"
        more = sorted(path for path in found if path not in self.documents)
        assert not more, f"forgotten or never written, and there: {more}"
        wrong = sorted(path for path, data in self.documents.items() if found[path] != data)
        assert not wrong, f"acknowledged and of other content: {wrong}"


def files(scope: Path) -> dict[str, bytes]:
    """Every file below the scope, hidden ones included."""
    return {str(path.relative_to(scope)): path.read_bytes() for path in scope.rglob("*") if path.is_file()}


def temporary_files(memory: Path) -> list[Path]:
    return [path for path in memory.rglob("*") if path.name.startswith(TEMPORARY)]
