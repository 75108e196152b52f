"""What ends a run: one input, and how to have it again."""

from __future__ import annotations


class FoundError(Exception):
    """An input that did what no input may do. `data` is what was sent, or given to a function."""

    def __init__(self, what: str, data: bytes | str) -> None:
        super().__init__(what)
        self.what = what
        self.data = data

    def __str__(self) -> str:
        shown = repr(self.data)
        return f"{self.what}\n  input: {shown if len(shown) < 4000 else shown[:4000] + f'… ({len(self.data)} in all)'}"
