"""Errors of the kernel injected into a running Hub: what a caller is told, and what is on the disk then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.tool import Result
from tests.faults import tool
from tests.faults.conftest import MakeHub
from tests.faults.ledger import content, files, revision_of, temporary_files
from tests.faults.trace import python_under
from tests.harness import Hub
from tests.mcp.peers import Direct, ToolError

pytestmark = pytest.mark.usefixtures("strace")

OLD, NEW = content("a.md", 1, 3000).encode(), content("a.md", 2, 5000).encode()
_ATTEMPTS = 8
"""A thread of the Hub meets the fault once; there are fewer threads than this for one caller."""


@dataclass(frozen=True)
class Fault:
    """`inject` is strace's expression, met once by each thread that writes; `code` is what the first is told.

    The first write of a Hub's life syncs the name of the scope's directory, then the file, then the directory.
    """

    inject: str
    code: str
    status: int = 10
    after: bytes | None = OLD


FULL = [
    Fault("write:error=EDQUOT:when=1", "storage_full"),
    Fault("write:error=ENOSPC:when=1", "storage_full"),
    Fault("fsync:error=EDQUOT:when=2", "storage_full"),
    Fault("write:error=EIO:when=1", "storage_io"),
    Fault("fsync:error=EIO:when=1", "storage_io"),
    Fault("fsync:error=EIO:when=2", "storage_io"),
    Fault("/^rename:error=EIO:when=1", "storage_io"),
    Fault("/^rename:error=EROFS:when=1", "storage_readonly"),
    # The kernel took nothing and says that it took everything.
    Fault(f"write:retval={len(NEW)}:when=1", "storage_io"),
    # The directory does not reach the disk: the new text is in place, and nobody knows for how long.
    Fault("fsync:error=EIO:when=3", "outcome_uncertain", 9, NEW),
]
REMOVAL = [
    Fault("unlinkat:error=EIO:when=1", "storage_io"),
    Fault("unlinkat:error=EROFS:when=1", "storage_readonly"),
    Fault("fsync:error=EIO:when=1", "outcome_uncertain", 9, None),
]


def _name(fault: Fault) -> str:
    return fault.inject.removeprefix("/^").replace(":", " ")


class Disk:
    """A Hub under strace that holds a.md, and what is seen of it."""

    def __init__(self, make_hub: MakeHub, directory: Path, fault: Fault, *, mcp: bool = False) -> None:
        self.fault = fault
        # Errors alone: a line of log is a write too.
        config = {"log": {"level": "error"}}
        with Hub(directory / "hub", mcp=False, config=config) as first:
            assert tool.upsert(first, "a.md", OLD.decode(), "absent").status == 0
        words = python_under(directory / "trace", "write,fsync,/^rename,unlinkat", [fault.inject])
        self.hub: Hub = make_hub(directory / "hub", mcp=mcp, config=config, python=words)
        self.hub.start()
        self.scope = self.hub.home / "memory" / "global"

    def now(self) -> bytes | None:
        assert temporary_files(self.hub.home) == []
        return files(self.scope).get("a.md")

    def until_done(self, write: Callable[[str], Result], after: bytes | None) -> None:
        """Write until it works; what was told is what is there, whichever call of another thread met the fault."""
        told: list[tuple[str, int]] = []
        for _ in range(_ATTEMPTS):
            before = self.now()
            if before == after:
                break
            done = write(revision_of(before))
            if done.status == 0:
                break
            assert done.out == b""
            code = done.error["code"]
            told.append((code, done.status))
            assert self.now() == (after if code == "outcome_uncertain" else before)
        assert told and told[0] == (self.fault.code, self.fault.status), told
        assert self.now() == after
        shown = tool.show(self.hub, "a.md").json
        assert shown["revision"] == revision_of(after)


@pytest.mark.parametrize("fault", FULL, ids=_name)
def test_d4_c43_a_write_that_the_disk_refuses(make_hub: MakeHub, tmp_path: Path, fault: Fault) -> None:
    disk = Disk(make_hub, tmp_path, fault)
    disk.until_done(lambda revision: tool.upsert(disk.hub, "a.md", NEW.decode(), revision), NEW)


@pytest.mark.parametrize("fault", REMOVAL, ids=_name)
def test_d4_c43_a_removal_that_the_disk_refuses(make_hub: MakeHub, tmp_path: Path, fault: Fault) -> None:
    disk = Disk(make_hub, tmp_path, fault)
    disk.until_done(lambda revision: tool.forget(disk.hub, "a.md", revision), None)


@pytest.mark.parametrize("fault", [FULL[0], FULL[-1]], ids=_name)
def test_d4_c43_a_model_is_told_the_same(make_hub: MakeHub, tmp_path: Path, fault: Fault) -> None:
    disk = Disk(make_hub, tmp_path, fault, mcp=True)
    with Direct(disk.hub.sockets["mcp"]) as peer:
        peer.open()
        with pytest.raises(ToolError) as caught:
            arguments = {"path": "a.md", "content": NEW.decode(), "expected_revision": revision_of(OLD)}
            peer.tool("memory_upsert", **arguments)
        assert caught.value.code == fault.code
        assert disk.now() == fault.after
        assert peer.tool("memory_get", path="a.md")["revision"] == revision_of(fault.after)
