"""D7: whose each directory of memory is, as the doctor tells it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from amux_hub.registry.record import SELF, Pin
from amux_hub.store.owner import MARK
from tests.doctor.kit import Made, findings, mend


def exchange(one: Path, two: Path) -> None:
    swap = one.with_name("swap")
    one.rename(swap)
    two.rename(one)
    swap.rename(two)


def marks(made: Made, **changes: object) -> list[tuple[str, str]]:
    """What the doctor tells of the directories' marks: whose place, and what is found there."""
    found = made.run("store-marks", **changes)
    assert {finding.level for finding in found.findings} <= {"problem"}
    return sorted((finding.what, finding.found.split(",")[0]) for finding in found.findings)


def test_d7_exchanged_directories_are_named_with_both_owners_and_mended(made: Made) -> None:
    for name in ("alice", "bob"):
        made.enrol(name, Pin(name, 1000 + len(name), SELF))
        made.put(made.scope(name) / "a.md", name)
    exchange(made.scope("alice"), made.scope("bob"))
    assert marks(made) == [("alice", "the memory principal:bob"), ("bob", "the memory principal:alice")]
    fixes = [finding.fix for finding in made.run("store-marks").findings]
    assert sum(fix.startswith("exchanged with") for fix in fixes) == 1, "one command, or the second undoes the first"
    subprocess.run(["bash", "-ec", next(fix for fix in fixes if "mv" in fix)], check=True)
    assert findings(made) == {}
    assert (made.scope("alice") / "a.md").read_text() == "alice"


def test_d7_a_moved_directory_goes_back_and_a_copy_is_moved_away(made: Made) -> None:
    made.enrol("alice", Pin("alice", 1001, SELF))
    made.put(made.scope("alice") / "a.md", "hers")
    where = made.scope("alice")
    where.rename(made.memory / "users" / ("0" * 64))
    assert marks(made) == [("users/000000000000…", "the memory principal:alice")]
    mend(made, "store-marks")
    assert findings(made) == {} and (where / "a.md").read_text() == "hers"
    shutil.copytree(where, made.memory / "global")
    assert marks(made) == [("global", "the memory principal:alice")]
    (finding,) = made.run("store-marks").findings
    subprocess.run(["bash", "-ec", finding.fix.partition("; ")[2]], check=True)
    assert findings(made) == {} and (where / "a.md").exists()


@pytest.mark.parametrize("spoiled", [None, b"", b"principal:bob", b"\xff\n", b"global\n", b"principal:\n", b"bob\n"])
def test_d7_a_lost_or_spoiled_mark_is_named_with_the_command(made: Made, spoiled: bytes | None) -> None:
    made.enrol("bob", Pin("bob", 1001, SELF))
    made.put(made.scope("bob") / "a.md", "his")
    mark = made.memory / "users" / hashlib.sha256(b"bob").hexdigest() / MARK
    mark.unlink()
    if spoiled is not None:
        mark.write_bytes(spoiled)
        mark.chmod(0o600)
    what = "no mark" if spoiled is None else "a mark that names no memory"
    assert marks(made) == [("bob", what + ": it is not served")]
    (finding,) = made.run("store-marks").findings
    subprocess.run(["bash", "-ec", finding.fix.partition(": ")[2]], check=True)
    assert mark.read_bytes() == b"principal:bob\n"
    assert findings(made) == {}


def test_d7_a_mark_is_no_finding_but_a_linked_or_open_one_is(made: Made) -> None:
    made.enrol("bob", Pin("bob", 1001, SELF))
    mark = made.scope("bob") / MARK
    assert findings(made) == {}, "neither a hidden file nor an entry too many"
    mark.chmod(0o644)
    assert findings(made) == {"store-modes": {("note", "wide")}}
    mark.chmod(0o600)
    os.link(mark, made.directory / "elsewhere")
    assert findings(made) == {"store-kinds": {("problem", "linked")}}
    mark.unlink()
    mark.symlink_to(made.directory / "elsewhere")
    assert findings(made)["store-kinds"] == {("problem", "kind")}
