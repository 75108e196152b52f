"""The copy of `amux` in a launch: what it takes from the file beside it, and from nowhere else."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from amux import launched
from amux.errors import AmuxError
from tests.harness import Hub

SESSION = "s-" + "a" * 26
TOLD = {"hub": "/run/amux/hub.sock", "session": SESSION, "binding": "principal:ann"}
TAKEN = {"AMUX_HUB": TOLD["hub"], "AMUX_SESSION": SESSION, "AMUX_MEMORY_BINDING": "principal:ann"}


def write(directory: Path, content: object = TOLD) -> str:
    path = directory / "connection.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(0o600)
    return str(directory / "amux.pyz")


def settled(archive: str, **environ: str) -> dict[str, str]:
    assert launched.settle(environ, archive) == 0
    return environ


def test_it_takes_hub_session_and_binding(tmp_path: Path) -> None:
    assert settled(write(tmp_path), PATH="/bin") == {"PATH": "/bin", **TAKEN}
    assert settled(str(tmp_path / "amux.pyz"), AMUX_HUB="", AMUX_SESSION="") == TAKEN


def test_what_the_environment_names_comes_first(tmp_path: Path) -> None:
    archive = write(tmp_path)
    assert settled(archive, AMUX_HUB="/other/hub.sock") == {"AMUX_HUB": "/other/hub.sock"}
    binding = {"AMUX_MEMORY_BINDING": "global"}
    assert settled(archive, **binding) == {"AMUX_HUB": TOLD["hub"], **binding}
    session = {"AMUX_SESSION": "s-" + "b" * 26}
    assert settled(archive, **session) == {"AMUX_HUB": TOLD["hub"], **session}
    assert settled(archive, AMUX_HUB=TOLD["hub"]) == TAKEN


def test_any_other_amux_looks_for_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    for archive in ("amux.pyz", "./amux.pyz", str(tmp_path / "amux"), str(tmp_path / "other.pyz"), ""):
        assert settled(archive) == {}
    (tmp_path / "connection.json").unlink()
    assert settled(str(tmp_path / "amux.pyz")) == {}


@pytest.mark.parametrize(
    "content",
    ["", "no", "[]", "null", '{"hub": "/x"}', json.dumps({**TOLD, "hub": 5}), json.dumps({**TOLD, "session": ""}),
     json.dumps({**TOLD, "binding": "a\0b"}), json.dumps({**TOLD, "more": "x" * 4096}), "[" * 4000],
)  # fmt: skip
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    environ: dict[str, str] = {}
    with pytest.raises(AmuxError) as refused:
        launched.settle(environ, write(tmp_path, content))
    assert refused.value.code == "invalid_argument"
    assert environ == {}


def test_a_file_that_others_may_write_is_refused(tmp_path: Path) -> None:
    archive = write(tmp_path)
    path = tmp_path / "connection.json"
    path.chmod(0o620)
    with pytest.raises(AmuxError) as refused:
        launched.settle({}, archive)
    assert refused.value.code == "unsafe_file"
    path.chmod(0o600)
    path.rename(tmp_path / "real.json")
    plants: list[Callable[[], None]] = [lambda: path.symlink_to("real.json"), lambda: os.mkfifo(path), path.mkdir]
    for plant in plants:
        plant()
        with pytest.raises(AmuxError) as refused:
            launched.settle({}, archive)
        assert refused.value.code == "unsafe_file"
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()


def test_the_copy_reaches_its_memory_from_a_hostile_checkout(
    tmp_path: Path, running: Hub, source_root: Path, pyz: Path
) -> None:
    """N4: what lies in the working directory decides nothing."""
    copy = tmp_path / "run"
    copy.mkdir()
    (copy / "amux.pyz").write_bytes(pyz.read_bytes())
    write(copy, {**TOLD, "hub": str(running.sockets["hub"]), "binding": "principal:somebody"})
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    write(checkout, {**TOLD, "hub": "/evil/hub.sock"})
    (checkout / "amux.pyz").write_text("raise SystemExit('evil')")
    (checkout / "json.py").write_text("raise SystemExit('evil')")

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[bytes]:
        command = ["/usr/bin/python3", "-IS", str(copy / "amux.pyz"), *words]
        base = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
        return subprocess.run(command, env={**base, **env}, cwd=checkout, capture_output=True, check=False)

    refused = run("memory", "show", "MEMORY.md")
    assert json.loads(refused.stderr)["error"]["code"] == "binding_mismatch"
    binding = {"AMUX_SESSION": SESSION, "AMUX_MEMORY_BINDING": "global"}
    assert json.loads(run("memory", "show", "MEMORY.md", **binding).stdout)["exists"] is False
    status = run("status")
    assert json.loads(status.stdout)["reachable"] is True, status
    (copy / "connection.json").write_text("no")
    broken = run("memory", "show", "MEMORY.md")
    assert (broken.returncode, broken.stdout) == (2, b"")
    assert json.loads(broken.stderr)["error"]["code"] == "invalid_argument"
    assert run().returncode == 2
