"""Real small file systems: full, below the reserve, read-only. Writes are refused, nothing is lost, reads go on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.tool import Result
from tests.faults import tool
from tests.faults.conftest import MakeHub
from tests.faults.ledger import content, files, revision_of, temporary_files
from tests.faults.smallfs import EXT4, TMPFS, SmallFs
from tests.harness import Hub, HubFailedError
from tests.store.kit import needs_an_ordinary_account

MIB = 1 << 20
OLD, NEW = content("a.md", 1, 60_000), content("a.md", 2, 65_536)


def failed(result: Result, code: str, status: int = 10) -> dict[str, object]:
    """The details of a command that ended with this error."""
    assert result.status == status and result.out == b"", result
    error = result.error
    assert error["code"] == code, result
    details: dict[str, object] = error["details"]
    return details


def saved(result: Result) -> str:
    revision: str = result.json["revision"]
    return revision


class Small:
    """A Hub whose home is a small file system. `before` are the documents that it holds."""

    def __init__(self, make_hub: MakeHub, directory: Path, how: str, size: int, free_bytes: int) -> None:
        (directory / "hub" / "home").mkdir(parents=True)
        self.fs = SmallFs(how, directory / "hub" / "home", size)
        # The saved switch would lie below the mount: set in hub.yaml instead.
        config = {"memory": {"enabled": True}, "limits": {"free_bytes": free_bytes}}
        self.hub: Hub = make_hub(directory / "hub", enabled=False, config=config, python=self.fs.python)
        self.hub.start()
        self.before = {"a.md": OLD.encode(), "d/b.md": OLD.encode()}
        for path in self.before:
            saved(tool.upsert(self.hub, path, OLD, "absent"))

    @property
    def scope(self) -> Path:
        return self.fs.inside / "memory" / "global"

    def check(self) -> None:
        """Everything is as it was, readable and searchable, with nothing beside it."""
        assert files(self.scope) == self.before
        assert temporary_files(self.fs.inside) == []
        assert sorted(path.name for path in self.scope.rglob("*") if path.is_dir()) == ["d"]
        for path, data in self.before.items():
            assert tool.show(self.hub, path).json["revision"] == revision_of(data)
        assert len(tool.search(self.hub, "a.md").json["matches"]) == 2

    def refuses(self, code: str) -> None:
        """Each kind of write that needs room."""
        revision = revision_of(OLD.encode())
        failed(tool.upsert(self.hub, "a.md", NEW, revision), code)
        failed(tool.upsert(self.hub, "new.md", NEW, "absent"), code)
        failed(tool.upsert(self.hub, "x/y/z/new.md", NEW, "absent"), code)
        self.check()

    def writes(self) -> None:
        saved(tool.upsert(self.hub, "a.md", NEW, revision_of(OLD.encode())))
        saved(tool.upsert(self.hub, "x/y/z/new.md", NEW, "absent"))
        assert (self.scope / "a.md").read_text() == (self.scope / "x/y/z/new.md").read_text() == NEW


@pytest.fixture(params=[TMPFS, EXT4], ids=["tmpfs", "ext4"])
def small(request: pytest.FixtureRequest, make_hub: MakeHub, tmp_path: Path) -> Iterator[Small]:
    """8 MiB, no reserve: the disk itself says that it is full."""
    made = Small(make_hub, tmp_path, request.param, 8 * MIB, 0)
    with made.fs:
        yield made
        made.hub.close()


@pytest.mark.root
@pytest.mark.parametrize("leave", [0, 20_000], ids=["nothing left", "room for a part"])
def test_c43_a_full_disk_leaves_the_old_content_whole(small: Small, leave: int) -> None:
    small.fs.fill(leave)
    small.refuses("storage_full")
    small.fs.empty()
    small.writes()


@pytest.mark.root
def test_c43_d4_room_that_ends_in_the_middle_of_a_write(small: Small) -> None:
    """The scope has room and the directory, a mount of its own, has not: the kernel writes a part, then says so."""
    place = str(small.fs.point / "memory" / "global" / "d")
    small.fs.run("mount", "-t", "tmpfs", "-o", "size=96k,mode=0700", "tmpfs", place)
    saved(tool.upsert(small.hub, "d/b.md", OLD, "absent"))
    small.check()
    failed(tool.upsert(small.hub, "d/b.md", NEW, revision_of(OLD.encode())), "storage_full")
    failed(tool.upsert(small.hub, "d/c.md", NEW, "absent"), "storage_full")
    small.check()
    small.fs.run("mount", "-o", "remount,size=1m", place)
    saved(tool.upsert(small.hub, "d/b.md", NEW, revision_of(OLD.encode())))
    small.fs.run("umount", "--lazy", place)


@pytest.mark.root
def test_c43_d6_forget_and_a_restart_work_on_a_full_disk(small: Small) -> None:
    small.hub.stop()
    # No room even for the pid: the file takes its first block when something is written into it.
    os.truncate(small.fs.inside / "memory" / ".amux-lock", 0)
    small.fs.fill()
    small.hub.start()
    small.check()
    small.hub.kill()
    small.hub.start()
    small.check()
    assert tool.forget(small.hub, "d/b.md", revision_of(OLD.encode())).json["already_absent"] is False
    assert files(small.scope) == {"a.md": OLD.encode()}
    small.fs.empty()
    small.writes()


@pytest.mark.root
def test_d6_below_the_reserve_writes_are_refused_and_reads_and_forgets_work(make_hub: MakeHub, tmp_path: Path) -> None:
    small = Small(make_hub, tmp_path, TMPFS, 40 * MIB, 32 * MIB)
    with small.fs:
        small.fs.fill(leave=31 * MIB)
        small.refuses("storage_full")
        details = failed(tool.upsert(small.hub, "tiny.md", "", "absent"), "storage_full")
        assert details["limit"] == "free_bytes" and details["value"] == 32 * MIB
        assert 30 * MIB < int(str(details["found"])) < 32 * MIB
        assert tool.forget(small.hub, "d/b.md", revision_of(OLD.encode())).json["already_absent"] is False
        small.fs.empty()
        small.writes()
        small.hub.close()


@pytest.mark.root
def test_c43_a_file_system_that_became_read_only(small: Small) -> None:
    scope = str(small.fs.point / "memory" / "global")
    small.fs.run("mount", "--bind", scope, scope)
    small.fs.run("mount", "-o", "remount,bind,ro", scope)
    small.refuses("storage_readonly")
    failed(tool.forget(small.hub, "a.md", revision_of(OLD.encode())), "storage_readonly")
    small.check()
    small.fs.run("umount", "--lazy", scope)  # the Hub keeps descriptors of what it answered lately
    small.writes()


@pytest.mark.root
def test_c43_no_hub_starts_on_a_read_only_file_system_and_it_says_so(small: Small) -> None:
    small.hub.stop()
    home = str(small.fs.point)
    small.fs.run("mount", "-o", "remount,ro", home)
    with pytest.raises(HubFailedError) as caught:
        small.hub.start()
    lines = [line for line in caught.value.stderr.splitlines() if line.startswith("amux-hub: ")]
    assert len(lines) == 1 and home in lines[0] and "Read-only file system" in lines[0]
    assert "Traceback" not in caught.value.stderr
    small.fs.run("mount", "-o", "remount,rw", home)
    small.hub.start()
    small.check()


@needs_an_ordinary_account
def test_c43_a_directory_that_the_hub_may_not_write(make_hub: MakeHub) -> None:
    hub = make_hub().start()
    scope = hub.home / "memory" / "global"
    saved(tool.upsert(hub, "d/a.md", OLD, "absent"))
    saved(tool.upsert(hub, "b.md", OLD, "absent"))
    before = files(scope)
    os.chmod(scope / "d", 0o500)
    try:
        revision = revision_of(OLD.encode())
        failed(tool.upsert(hub, "d/a.md", NEW, revision), "storage_readonly")
        failed(tool.upsert(hub, "d/new.md", NEW, "absent"), "storage_readonly")
        failed(tool.upsert(hub, "d/x/y/new.md", NEW, "absent"), "storage_readonly")
        failed(tool.forget(hub, "d/a.md", revision), "storage_readonly")
        assert files(scope) == before
        assert tool.show(hub, "d/a.md").json["revision"] == revision
        assert len(tool.search(hub, "a.md").json["matches"]) == 2
        saved(tool.upsert(hub, "b.md", NEW, revision))
    finally:
        os.chmod(scope / "d", 0o700)
    saved(tool.upsert(hub, "d/a.md", NEW, revision))
