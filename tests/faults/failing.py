"""Makes the n-th system call of the store fail, within this process.

`Failing` counts what the store does to a file or directory, in the order in which it does it; with a number and
an error it raises that error in place of one of these calls. What the store calls through `os` is the same
function as everybody's here, so only one test's thread may run meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

import pytest

# Closing is left out: it gives the descriptor up whatever it answers (close(2)).
CALLS = (
    "dup",
    "fstat",
    "fstatvfs",
    "fsync",
    "mkdir",
    "open",
    "pread",
    "rename",
    "rmdir",
    "scandir",
    "stat",
    "unlink",
    "write",
)


class Failing:
    """Within the `with` block, call number `at` (from 0) raises OSError(`number`); without `at`, none does.

    `only` restricts what is counted to these names.
    """

    def __init__(self, at: int | None = None, number: int = 0, only: tuple[str, ...] = CALLS) -> None:
        self.made: list[str] = []
        self.failed: str | None = None
        self._at, self._number, self._only = at, number, only
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Failing:
        for name in self._only:
            self._patch.setattr(os, name, self._wrap(name, getattr(os, name)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patch.undo()

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.made.append(name)
            if self._at == len(self.made) - 1:
                self.failed = name
                raise OSError(self._number, os.strerror(self._number))
            return real(*arguments, **named)

        return call
