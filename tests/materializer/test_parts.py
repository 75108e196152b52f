"""The parts by themselves: requests, records, whose a directory must be, what a start demands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amux_materializer import audit, place, request
from amux_materializer.__main__ import main, uid_min
from amux_materializer.request import Reader, RefusedError
from tests.lint.sources import ROOT

SESSION = "s-" + "a2" * 13


@pytest.mark.parametrize("binding", ["global", "principal:alice", "principal:jürgen müller", "principal:" + "x" * 255])
def test_a_request_has_three_fields(binding: str) -> None:
    said = request.say({"amux": 1, "session": SESSION, "binding": binding})
    assert request.parse(said) == request.Request(SESSION, binding)


@pytest.mark.parametrize("line", [b"{}", b'{"locked":1}', b'{"locked":false}', b'{"locked":true,"uid":0}'])
def test_only_one_line_says_that_the_lock_is_held(line: bytes) -> None:
    assert request.is_locked(b'{"locked": true}')
    assert not request.is_locked(line)


def test_a_line_that_does_not_come_is_refused_in_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"{")
        with pytest.raises(RefusedError, match=r"no whole line within 0\.05 s"):
            Reader(ours).line(0.05)


@pytest.mark.parametrize(
    ("text", "first"),
    [("", 1000), ("UID_MIN\t\t\t 500\n", 500), ("#UID_MIN 5\nSYS_UID_MIN 100\n", 1000), ("UID_MIN 0\n", 1)],
)
def test_m1_the_first_uid_of_a_person(tmp_path: Path, text: str, first: int) -> None:
    path = tmp_path / "login.defs"
    path.write_text(text)
    assert uid_min(str(path)) == first
    assert uid_min(str(tmp_path / "missing")) == 1000


def test_m2_a_parent_that_others_can_change_is_not_used(tmp_path: Path) -> None:
    place.Place(str(tmp_path), os.getuid())
    with pytest.raises(place.UnfitError, match="belongs to UID"):
        place.Place(str(tmp_path), os.getuid() + 1)
    tmp_path.chmod(0o770)
    with pytest.raises(place.UnfitError, match="mode 0770"):
        place.Place(str(tmp_path), os.getuid())
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(place.UnfitError):
        place.Place(str(tmp_path / "link"), 0)
    with pytest.raises(place.UnfitError, match="systemctl restart amux-materializer"):
        place.Place(str(tmp_path / "missing"), os.getuid())


def test_a_record_is_one_line_and_refusals_are_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    records = audit.Audit()
    for detail in ("a\nb\u202e", "second", "third"):
        records.refused(1000, detail)
    records.refused(1001, "another")
    assert capsys.readouterr().err == "refused: uid=1000 (a\\u000ab\\u202e)\nrefused: uid=1001 (another)\n"
    assert records.flush() == 1.0
    now = 101.0
    assert records.flush() is None
    assert capsys.readouterr().err == "refused: uid=1000, 2 more within 1 s\n"
    records.refused(1000, "fourth")
    assert capsys.readouterr().err == "refused: uid=1000 (fourth)\n"


def test_a_wrong_command_line_and_a_start_without_a_socket(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["amux-materializer"])
    assert main(["--help"]) == 2
    assert main() == 1
    assert "systemctl start amux-materializer.socket" in capsys.readouterr().err


def test_it_imports_the_standard_library_alone() -> None:
    """As the package starts it: -IS, its own sources and nothing of site-packages."""
    code = "import sys; sys.path[:0] = [sys.argv[1]]; import amux_materializer.__main__"
    done = subprocess.run(
        ["/usr/bin/python3", "-IS", "-c", code, str(ROOT / "materializer")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
