"""A store against a dictionary: random operations, and another program that edits, moves and removes files there."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from amux import limits
from amux.errors import AmuxError
from amux_hub.store import Store, index, watch
from tests.property import oracle
from tests.property.texts import texts
from tests.store.kit import frame_size

DOCUMENTS, BYTES = 9, 4000
PATHS = [
    "MEMORY.md",
    "memory.md",
    "a.md",
    "A.md",
    "b.md",
    "\u00e9.md",
    "e\u0301.md",
    "d/a.md",
    "D/a.md",
    "d/e/f.md",
    "d/e/g.md",
    "d-x/a.md",
    "部署/记录.md",
]
paths = st.sampled_from(PATHS)
contents = st.one_of(texts, st.sampled_from(["", "red", "# red\nblue", "x" * 500, "x\n" * 64, "x\n" * 65, "\0"]))
raw = st.one_of(
    contents.map(str.encode), st.sampled_from([b"\xff red", b"red\xe9", b"x" * 65537, b"\xef\xbb\xbf# red"])
)
queries = st.lists(
    st.sampled_from(["red", "BLUE", "部署", "ß", "ss", "é", "e\u0301", "a.md", "d/", "x", "#", "Σ", "👍🏽", "しり"]),
    min_size=1,
    max_size=5,
).map("\u3000".join)
prefixes = st.sampled_from(["", "", "d", "d/e", "a.md", "D", "nowhere", "部署"])


class Model(RuleBasedStateMachine):
    """Rules do one thing to both; the answers must be equal, and the files on the disk too."""

    def __init__(self) -> None:
        super().__init__()
        base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.home = Path(tempfile.mkdtemp(dir=base))
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(limits, "SCOPE_DOCUMENTS", DOCUMENTS)
        self.patch.setattr(limits, "SCOPE_BYTES", BYTES)
        self.patch.setattr(limits, "SCAN_MILLISECONDS", 60_000)
        self.umask = os.umask(0o022)
        self.model = oracle.Scope()

    @initialize(watching=st.booleans(), cache=st.sampled_from([0, 3000, 1 << 26]))
    def open(self, watching: bool, cache: int) -> None:
        if watching:
            self.patch.setattr(index, "FULL_PASS_SECONDS", 1e9)
        else:
            self.patch.setattr(watch, "is_local", lambda fd: False)
        self.cache = cache
        self.store = Store(str(self.home), cache, 0)
        self.scope: Any = self.store.scope("global")
        self.disk = self.home / "memory" / "global"

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        self.patch.undo()
        os.umask(self.umask)
        shutil.rmtree(self.home)

    @rule(path=paths, text=contents, right=st.booleans())
    def upsert(self, path: str, text: str, right: bool) -> None:
        expected = self.model.revision(path) if right else "0" * 64
        wanted = self.model.upsert(path, text, expected, DOCUMENTS, BYTES)
        try:
            answer = self.scope.upsert(path, text, expected)
        except AmuxError as error:
            assert error.code == wanted, error.message
            if wanted == "conflict":
                assert error.details["observed_revision"] == self.model.revision(path)
        else:
            assert wanted is None
            assert answer == {"path": path, "revision": oracle.sha(text.encode())}

    @rule(path=paths, right=st.booleans())
    def forget(self, path: str, right: bool) -> None:
        expected = self.model.revision(path) if right else "absent" if path in self.model.files else "0" * 64
        was_there = path in self.model.files
        wanted = self.model.forget(path, expected)
        try:
            answer = self.scope.forget(path, expected)
        except AmuxError as error:
            assert error.code == wanted
        else:
            assert wanted is None
            assert answer == {"path": path, "revision": "absent", "already_absent": not was_there}

    @rule(path=paths)
    def get(self, path: str) -> None:
        data = self.model.files.get(path, b"")
        offset, read = 0, b""
        while True:
            key = ("global", path, 0, 0, offset)
            ready = self.store.ready(*key)
            try:
                answer: Any = self.scope.get(*key[1:])
            except AmuxError as error:
                assert ready is None
                assert error.code == "not_utf8"
                assert error.details["observed_revision"] == self.model.revision(path)
                with pytest.raises(UnicodeDecodeError) as caught:
                    data.decode()
                assert caught.value.start == error.details["position"]
                return
            assert ready is None or ready == answer
            assert frame_size(answer) <= 8192
            assert answer["exists"] == (path in self.model.files)
            assert answer["revision"] == self.model.revision(path)
            assert answer["size_bytes"] == len(data)
            read += answer["content"].encode()
            if not answer["truncated"]:
                break
            offset = answer["next_offset"]
        assert read == data

    @rule(query=queries, prefix=prefixes, limit=st.sampled_from([0, 1, 3, 20]))
    def search(self, query: str, prefix: str, limit: int) -> None:
        answer = self.scope.search(query, prefix, limit)
        assert frame_size(answer) <= 8192
        wanted = self.model.search(query, prefix)
        found = answer["matches"]
        for match, expected in zip(found, wanted, strict=False):
            if expected["truncated"]:
                assert match["snippet"] in expected["snippet"]
                assert len(match["snippet"].encode()) <= 240
                expected = {**expected, "snippet": match["snippet"]}
            assert match == expected
        assert len(found) == min(limit or 5, len(wanted)) or (answer["truncated"] and frame_size(answer) > 4000)
        assert answer["truncated"] == (len(found) < len(wanted))
        assert answer["scanned_files"] == len(self.model.readable(prefix))
        assert answer["skipped_files"] == self.model.skipped(prefix)
        assert (answer["incomplete"], answer["incomplete_reason"]) == (False, None)

    @rule(prefix=prefixes)
    def listing(self, prefix: str) -> None:
        answer = self.scope.listing("", prefix)
        below = [path for path in self.model.files if prefix in ("", path) or path.startswith(prefix + "/")]
        rows = []
        for path in sorted(below, key=str.encode):
            size = len(self.model.files[path])
            revision = self.model.revision(path) if size <= BYTES else None  # larger than a scope
            rows.append({"path": path, "bytes": size, "revision": revision})
        assert answer["documents"] == rows

    # What another program does.

    @rule(path=paths, data=raw, how=st.sampled_from(["in place", "rename", "append"]))
    def edit(self, path: str, data: bytes, how: str) -> None:
        target = self.disk / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if how == "rename":
            (target.parent / ".edit").write_bytes(data)
            (target.parent / ".edit").rename(target)
        elif how == "in place":
            target.write_bytes(data)
        else:
            with target.open("ab") as file:
                file.write(data)
            data = self.model.files.get(path, b"") + data
        self.model.files[path] = data

    @precondition(lambda self: self.model.files)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.files)))
        (self.disk / path).unlink()
        del self.model.files[path]
        self.tidy()

    @precondition(lambda self: self.model.files)
    @rule(data=st.data(), to=paths)
    def move(self, data: st.DataObject, to: str) -> None:
        path = data.draw(st.sampled_from(sorted(self.model.files)))
        (self.disk / to).parent.mkdir(parents=True, exist_ok=True)
        (self.disk / path).rename(self.disk / to)
        self.model.files[to] = self.model.files.pop(path)
        self.tidy()

    @precondition(lambda self: any(path.startswith("d/") for path in self.model.files))
    @rule(keep=st.booleans())
    def move_a_directory(self, keep: bool) -> None:
        inside = [path for path in self.model.files if path.startswith("d/")]
        target = self.disk / "moved"
        shutil.rmtree(target, ignore_errors=True)
        for path in [path for path in self.model.files if path.startswith("moved/")]:
            del self.model.files[path]
        (self.disk / "d").rename(target)
        for path in inside:
            self.model.files["moved/" + path[2:]] = self.model.files.pop(path)
        if not keep:
            shutil.rmtree(target)
            for path in inside:
                del self.model.files["moved/" + path[2:]]

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = Store(str(self.home), self.cache, 0)
        self.scope = self.store.scope("global")

    def tidy(self) -> None:
        """Empty directories have names too, and the dictionary has none: remove them."""
        for path in sorted(self.disk.rglob("*"), reverse=True):
            if path.is_dir() and not any(path.iterdir()):
                path.rmdir()

    @invariant()
    def the_files_are_those_of_the_model(self) -> None:
        if not hasattr(self, "disk"):
            return
        found = {str(path.relative_to(self.disk)): path.read_bytes() for path in self.disk.rglob("*") if path.is_file()}
        assert found == self.model.files
        if not found and self.disk.exists():
            self.tidy()


TestModel = Model.TestCase
TestModel.settings = settings(
    max_examples=int(os.environ.get("AMUX_TESTS_EXAMPLES", "200")), stateful_step_count=40, deadline=None
)
