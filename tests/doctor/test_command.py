"""`amux-hub doctor` and `amux doctor` as programs: forms, exit statuses, and that they change nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from amux_hub import config as configuration
from amux_hub.doctor import check as checking
from amux_hub.doctor import command, finding
from amux_hub.doctor.check import Check, results
from amux_hub.doctor.checks import CHECKS
from amux_hub.doctor.finding import Findings, SkippedError
from amux_hub.doctor.host import Host
from tests.doctor.kit import Made
from tests.harness import Hub

# Runs the doctor and tells of everything that it opens to write, removes, makes, changes or locks.
WATCHED = """
import os, sys
told = []
CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.utime", "os.setxattr", "os.removexattr", "fcntl.flock", "fcntl.lockf", "shutil.move"}
def hook(event, args):
    if event in CHANGES:
        told.append((event, str(args)))
    elif event == "open" and args[0] != os.devnull and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
        told.append((event, str(args)))
sys.addaudithook(hook)
from amux_hub.__main__ import main
status = main(sys.argv[1:])
sys.stdout.flush()
sys.stderr.write(repr(told))
sys.exit(status)
"""


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command_line = [sys.executable, "-m", "amux_hub", *arguments]
    return subprocess.run(command_line, env=env, capture_output=True, text=True, check=False)


def test_a_private_hub_that_runs_has_no_problem(tmp_path: Path) -> None:
    with Hub(tmp_path) as hub:
        hub.call("io.amux.Memory.Upsert", path="MEMORY.md", content="# a\n", expected_revision="absent")
        done = run("doctor", "--config", str(hub.config_file), "--json", env=hub.env)
        report = json.loads(done.stdout)
        assert (done.returncode, report["ok"], report["system"]) == (0, True, False), done.stdout
        outcomes = {one["name"]: one["outcome"] for one in report["checks"]}
        assert [one["name"] for one in report["checks"]] == [check.name for check in CHECKS]
        mine = ("versions", "dependencies", "configuration", "switch", "sockets", "directories", "store-scopes",
                "store-lock", "store-kinds", "store-modes", "memory-pointers")  # fmt: skip
        assert {name: outcomes[name] for name in mine} == dict.fromkeys(mine, "ok")
        assert sum(report["counts"].values()) == len(CHECKS)
        (hub.home / "memory" / "global" / "MEMORY.md").chmod(0)
        done = run("doctor", "--config", str(hub.config_file), env=hub.env)
        assert done.returncode == 1
        assert "problem  store-readable" in done.stdout
        assert "chmod u+rwX -- " in done.stdout
        assert done.stdout.splitlines()[-1].startswith(f"{len(CHECKS)} checks: 1 problem, ")


def test_it_works_before_the_first_start_and_makes_nothing(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMUX_HOME": str(tmp_path / "home")}
    done = run("doctor", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not exist yet" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["doctor", "--no-such"], ["doctor", "more"], ["doctor", "--config"]])
def test_wrong_usage_is_2(arguments: list[str]) -> None:
    assert run(*arguments).returncode == 2


def test_nothing_is_opened_for_writing_or_locked(tmp_path: Path) -> None:
    with Hub(tmp_path, mcp=False) as hub:
        hub.call("io.amux.Memory.Upsert", path="a.md", content="a", expected_revision="absent")
        for system in ([], ["--system"]):
            words = [sys.executable, "-B", "-c", WATCHED, "doctor", "--json", "--config", str(hub.config_file), *system]
            done = subprocess.run(words, env=hub.env, capture_output=True, text=True, check=False)
            assert json.loads(done.stdout)["system"] is bool(system)
            assert done.stderr == "[]"


def test_which_hub_is_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    monkeypatch.setattr(configuration, "SYSTEM_FILE", str(file))
    assert not command.is_system(None, {}, system=False)
    assert command.is_system(None, {}, system=True)
    file.touch()
    assert command.is_system(None, {}, system=False)
    assert not command.is_system(None, {"AMUX_HOME": "/x"}, system=False)
    assert command.is_system(str(file), {}, system=False)
    assert not command.is_system(str(tmp_path / "other"), {}, system=False)
    assert command.is_system(str(tmp_path / "other"), {}, system=True)


def test_options_before_the_word_count_too(tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text(f"home: {tmp_path}/elsewhere\n")
    done = run("--config", str(file), "doctor", "--json", env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert json.loads(done.stdout)["home"] == f"{tmp_path}/elsewhere"


# Running checks


def _result(run: object, made: Made, seconds: float = 20) -> checking.Result:
    check: Check = Check("mine", run, seconds)  # type: ignore[arg-type]
    return next(results([check], made.host()))


def test_a_check_that_fails_hides_no_other(made: Made) -> None:
    def failing(host: Host, findings: Findings) -> str:
        raise RuntimeError("lantern")

    found = _result(failing, made)
    assert (found.outcome, found.findings[0].kind) == ("problem", "failed")
    assert "lantern" not in found.findings[0].found


def test_a_check_that_hangs_is_left_behind(made: Made) -> None:
    reading, writing = os.pipe()
    found = _result(lambda host, findings: str(os.read(reading, 1)), made, 0.05)
    assert (found.outcome, found.findings[0].kind) == ("problem", "late")
    os.write(writing, b"x")
    os.close(writing)


def test_what_may_not_be_seen_is_skipped(made: Made) -> None:
    def closed(host: Host, findings: Findings) -> str:
        raise PermissionError(13, "Permission denied", "/closed")

    found = _result(closed, made)
    assert (found.outcome, found.findings[0].what) == ("skipped", "/closed")


def test_skipping_hides_no_problem(made: Made) -> None:
    def both(host: Host, findings: Findings) -> str:
        findings.problem("a", "b", "c")
        raise SkippedError("the rest")

    assert _result(both, made).outcome == "problem"


PATHS = ["/a b", "it's", "$(x)`y`\\", "\x1b[2J\n\t", "\udcff", "e\u0301", "\u202e", "-rf", "工具"]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_survives_the_shell(path: str) -> None:
    word = finding.shell(path)
    assert word.isprintable()
    done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    assert done.stdout == os.fsencode(path)


# amux doctor


def test_amux_doctor_becomes_the_program_beside_its_interpreter(tmp_path: Path) -> None:
    """A copy of the interpreter's link in a directory of its own stands for an installation."""
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    program = tmp_path / "amux-hub"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 1\n')
    program.chmod(0o755)
    paths = [path for path in sys.path if path]
    code = f"import sys; sys.path[:0] = {paths!r}; from amux.__main__ import main; sys.exit(main())"
    options = ["--system", "--config", "/x y", "--json"]
    done = subprocess.run([python, "-c", code, "doctor", *options], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (1, ["doctor", *options]), done.stderr


def test_amux_doctor_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from amux.cli import doctor
    from amux.errors import AmuxError

    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    monkeypatch.setattr(sys, "argv", ["amux"])
    monkeypatch.setattr(doctor, "INSTALLED", str(tmp_path / "installed"))
    monkeypatch.setenv("PATH", f".:{tmp_path}/bin")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for place in (tmp_path / "here", tmp_path / "bin", tmp_path):
        with pytest.raises(AmuxError) as refused:
            doctor.find()
        assert refused.value.code == "hub_unavailable"
        assert "apt install amux-hub" in refused.value.message
        program = place / "amux-hub"
        program.touch(0o755)
        if place.name != "here":  # the working directory never counts, whatever PATH says
            assert doctor.find() == str(program)
            program.unlink()
    (tmp_path / "installed").touch(0o755)
    assert doctor.find() == str(tmp_path / "installed")
