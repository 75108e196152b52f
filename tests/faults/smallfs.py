"""A small file system of its own in a mount namespace of its own: nothing of it is seen or left elsewhere.

Needs root. A process that sleeps holds the namespace, so the file system outlives the Hubs that run in it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType

TMPFS = 'mount -t tmpfs -o "mode=0700,size=$2" tmpfs "$1"'
EXT4 = (
    'truncate -s "$2" "$1.img" && mkfs.ext4 -q -m 0 "$1.img" && mount -o loop "$1.img" "$1" && chmod 0700 "$1" '
    '&& rm -r "$1/lost+found"'
)


class SmallFs:
    """`how` (TMPFS or EXT4) mounted at `point`, with `size` bytes."""

    def __init__(self, how: str, point: Path, size: int) -> None:
        self.point = point
        script = f"set -e; {how}; echo mounted; exec sleep infinity"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", str(point), str(size)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != "mounted\n":
            _, trouble = self._holder.communicate()
            raise AssertionError(f"no small file system: {trouble.strip()}")
        self._enter = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]

    @property
    def python(self) -> tuple[str, ...]:
        """The words that start Python in the namespace: for the harness's `python`."""
        return (*self._enter, sys.executable)

    @property
    def inside(self) -> Path:
        """The mounted directory as it is seen from outside the namespace."""
        return Path(f"/proc/{self._holder.pid}/root") / self.point.relative_to("/")

    def run(self, *command: str) -> None:
        subprocess.run([*self._enter, *command], check=True)

    def fill(self, leave: int = 0) -> None:
        """Fill the file system with one file but for `leave` bytes."""
        with (self.inside / "filler").open("wb", buffering=0) as filler:
            for size in (1 << 20, 4096, 1):
                try:
                    while True:
                        filler.write(b"\0" * size)
                except OSError:
                    continue
            if leave:
                filler.truncate(max(filler.tell() - leave, 0))

    def empty(self) -> None:
        (self.inside / "filler").unlink()

    def __enter__(self) -> SmallFs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holder.kill()
        self._holder.communicate()
