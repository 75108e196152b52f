"""The client of launch.sock against a helper of a few scripted lines: what it sends, takes, and does not take."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux.launch import materializer
from tests.harness import WAIT_SECONDS

SESSION = "s-" + "a" * 26
REQUEST = {"amux": 1, "session": SESSION, "binding": "global"}


class Helper:
    """Listens at a socket, reads the request, says `lines` one by one and reads an answer after each but the last."""

    def __init__(self, directory: Path, *lines: object) -> None:
        self.path = str(directory / "launch.sock")
        self.heard: list[object] = []
        self._lines = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(1)
        self._listener.settimeout(WAIT_SECONDS)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as reading, contextlib.suppress(OSError):
            for line in self._lines:
                self._hear(reading.readline())
                connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            self._hear(reading.readline())

    def _hear(self, line: bytes) -> None:
        if line:
            self.heard.append(json.loads(line))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(WAIT_SECONDS)
        self._listener.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory as the materializer makes it."""
    made = tmp_path / ("0f" * 16)
    (made / "agent-config/memory").mkdir(parents=True)
    (made / "agent-config/memory/amux.pyz").write_bytes(b"")
    (made / "lock").write_bytes(b"")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/amux").write_text("#!/bin/sh\n")
    (tmp_path / "bin/amux").chmod(0o755)
    return made


def launched(helper: Helper, directory: Path, owner: int | None = None) -> tuple[str, int]:
    pattern = re.compile(re.escape(str(directory)) + "/[0-9a-f]{32}")
    uid = os.geteuid() if owner is None else owner
    try:
        return materializer.open_launch(SESSION, "global", helper.path, uid, pattern, str(directory / "bin"))
    finally:
        helper.close()


def refused(helper: Helper, directory: Path, code: str, owner: int | None = None) -> str:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(AmuxError) as error:
        launched(helper, directory, owner)
    assert error.value.code == code
    assert len(set(os.listdir("/proc/self/fd")) - before) <= 1  # none is left open; the listing itself is one
    return error.value.message


def test_it_asks_takes_the_lock_says_so_and_waits_for_the_last_word(tmp_path: Path, run: Path) -> None:
    helper = Helper(tmp_path, {"run": str(run)}, {"ok": True})
    path, lock = launched(helper, tmp_path)
    assert path == str(run)
    assert helper.heard == [REQUEST, {"locked": True}]
    other = os.open(run / "lock", os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)


def test_it_is_roots_or_nobodys(tmp_path: Path, run: Path) -> None:
    """M2: whoever listens there instead learns nothing."""
    helper = Helper(tmp_path, {"run": str(run)}, {"ok": True})
    refused(helper, tmp_path, "identity_refused", owner=os.geteuid() + 1)
    assert helper.heard == []


@pytest.mark.parametrize(
    "named",
    ["/etc", "run", "{parent}/../{name}", "{run}/", "{run}\n", "{parent}/" + "0" * 31, "{parent}/" + "g" * 32, 5, None],
)
def test_m1_a_directory_that_none_can_be_is_not_opened(tmp_path: Path, run: Path, named: object) -> None:
    if isinstance(named, str):
        named = named.format(parent=tmp_path, name=run.name, run=run)
    helper = Helper(tmp_path, {"run": named}, {"ok": True})
    refused(helper, tmp_path, "hub_unavailable")
    assert helper.heard == [REQUEST]


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _twice(path: Path) -> None:
    path.write_bytes(b"")
    path.with_name("again").hardlink_to(path)


@pytest.mark.parametrize("plant", [_link, _twice, os.mkfifo, os.mkdir, lambda path: None])
def test_m9_a_lock_that_is_none_is_not_taken(tmp_path: Path, run: Path, plant: Callable[[Path], None]) -> None:
    (run / "lock").unlink()
    plant(run / "lock")
    helper = Helper(tmp_path, {"run": str(run)}, {"ok": True})
    refused(helper, tmp_path, "hub_unavailable")
    assert {"locked": True} not in helper.heard


def test_a_lock_that_somebody_holds_is_not_taken(tmp_path: Path, run: Path) -> None:
    holder = os.open(run / "lock", os.O_RDWR)
    fcntl.flock(holder, fcntl.LOCK_EX)
    refused(Helper(tmp_path, {"run": str(run)}, {"ok": True}), tmp_path, "hub_unavailable")
    os.close(holder)


@pytest.mark.parametrize(
    "line", [b"", b"no\n", b"[]\n", b'{"run": "x"}', b"x" * 5000 + b"\n", b"[" * 4000 + b"\n", b"\xff\n"]
)
def test_what_is_no_answer_is_an_error(tmp_path: Path, run: Path, line: bytes) -> None:
    refused(Helper(tmp_path, line), tmp_path, "hub_unavailable")


def test_the_lock_must_be_confirmed(tmp_path: Path, run: Path) -> None:
    for last in ({"ok": False}, {}, b""):
        (tmp_path / "launch.sock").unlink(missing_ok=True)
        refused(Helper(tmp_path, {"run": str(run)}, last), tmp_path, "hub_unavailable")


def test_its_refusals_keep_their_code(tmp_path: Path, run: Path) -> None:
    error = {"error": {"code": "limit_exceeded", "message": "64 launches are running"}}
    assert "64 launches" in refused(Helper(tmp_path, error), tmp_path, "limit_exceeded")
    (tmp_path / "launch.sock").unlink()
    refused(Helper(tmp_path, {"error": {"code": "made_up", "message": "x"}}), tmp_path, "internal")


@pytest.mark.parametrize("missing", ["bin/amux", "{run}/agent-config/memory/amux.pyz"])
def test_a_missing_tool_is_an_error_before_the_start(tmp_path: Path, run: Path, missing: str) -> None:
    path = tmp_path / missing.format(run=run)
    path.unlink()
    helper = Helper(tmp_path, {"run": str(run)}, {"ok": True})
    assert str(path) in refused(helper, tmp_path, "not_found")
    other = os.open(run / "lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # so the launch has ended
    os.close(other)


def test_no_materializer(tmp_path: Path) -> None:
    with pytest.raises(AmuxError) as error:
        materializer.open_launch(SESSION, "global", str(tmp_path / "launch.sock"))
    assert error.value.code == "hub_unavailable"
    assert "--isolation" in error.value.message
