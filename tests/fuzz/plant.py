"""What a memory may hold that the Hub did not write: planted before it starts, for the inputs to meet."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

from amux_hub.store.paths import check_document
from tests.fuzz import values


def plant(home: Path) -> None:
    """Documents of odd content, size, name and kind in the memory `global` of a Hub that does not run."""
    root = home / "memory" / "global"
    for directory in (root / "projects" / "web", root / "odd"):
        directory.mkdir(parents=True)
    rng = Random(1)
    for number in range(40):
        (root / "odd" / f"{number}.md").write_bytes(values.content(rng).encode("utf-8", "replace"))
    odd = {
        "latin1.md": b"caf\xe9 deploy\n",
        "nul.md": b"deploy\0deploy",
        "too-large.md": b"deploy\n" * 20_000,
        "much-too-large.md": b"deploy\n" * 200_000,
        "e\u0301.md": b"one form",
        "\xe9.md": b"the other",
        "ONE.md": b"a twin",
        "one.md": b"its twin",
        "marks.md": ("\u0300\u0316" * 8000).encode(),
        "fences.md": b"`" * 60_000 + b"x`",
    }
    for name, data in odd.items():
        check_document(name)
        (root / "odd" / name).write_bytes(data)
    (root / "odd" / "link.md").symlink_to("/etc/passwd")
    (root / "odd" / "directory-link").symlink_to("/etc")
    os.link(root / "odd" / "1.md", root / "odd" / "hard.md")
    os.mkfifo(root / "odd" / "fifo.md")
    for path in (home, *(path for path in home.rglob("*") if path.is_dir() and not path.is_symlink())):
        path.chmod(0o700)
