"""The guards of the test runner itself: nothing skipped, empty, hanging or left behind goes unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.lint.sources import ROOT
from tests.runner.place import Place
from tests.runner.report import Result, closing
from tests.runner.supervise import Supervisor

SKIPS = "import pytest\n\ndef test_a():\n    pytest.skip('no such program')\n\ndef test_b():\n    pass\n"
MODULE_SKIPS = "import pytest\n\npytest.skip('no such kernel', allow_module_level=True)\n"


def _pytest(directory: Path, text: str, require_all: str) -> subprocess.CompletedProcess[str]:
    (directory / "test_it.py").write_text(text)
    (directory / "pytest.ini").write_text("[pytest]\n")
    env = {**os.environ, "AMUX_TESTS_REQUIRE_ALL": require_all, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "."]
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "what"), [(SKIPS, "no such program"), (MODULE_SKIPS, "no such kernel")], ids=["test", "module"]
)
def test_a_skip_is_a_failure_that_names_what_is_missing(tmp_path: Path, text: str, what: str) -> None:
    done = _pytest(tmp_path, text, "1")
    assert done.returncode != 0
    assert f"prerequisite missing: Skipped: {what}" in done.stdout


def test_elsewhere_a_skip_is_a_skip(tmp_path: Path) -> None:
    done = _pytest(tmp_path, SKIPS, "0")
    assert done.returncode == 0
    assert "1 passed, 1 skipped" in done.stdout


# The supervisor adopts orphans for the whole process: it runs in one of its own, not in this one.
SUPERVISED = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.lint.test_guards import supervised
supervised(Path(sys.argv[1]), float(sys.argv[2]))
"""


def supervised(directory: Path, seconds: float) -> None:
    """Run the tests of a directory under a supervisor and print what it has to say."""
    python = Path(sys.executable)
    place = Place(directory, python, directory, directory, dict(os.environ))
    result = Supervisor().pytest(place, "guards", ["test_it.py"], int(seconds))
    print("trouble:", result.trouble, "bad:", result.bad, "counts:", result.passed, result.failed)


@pytest.mark.parametrize(
    ("body", "seconds", "wanted"),
    [
        ("def test_a():\n    pass\n", 60, ["trouble: []", "bad: False counts: 1 0"]),
        ("def test_a():\n    raise ValueError\n", 60, ["bad: True counts: 0 1"]),
        ("", 60, ["bad: True counts: 0 0"]),
        ("import time\n\ndef test_a():\n    time.sleep(600)\n", 2, ["stopped after 2 s", "bad: True"]),
        (
            ("import subprocess\n\ndef test_a():\n"
            "    subprocess.Popen('sleep 600 & sleep 600', shell=True, start_new_session=True)\n"),
            60,
            ["tests left processes behind", "sleep 600", "bad: True"],
        ),
    ],
    ids=["passes", "fails", "empty", "hangs", "leaves processes"],
)
def test_the_supervisor_sees_it(tmp_path: Path, body: str, seconds: int, wanted: list[str]) -> None:
    (tmp_path / "test_it.py").write_text(body)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-c", SUPERVISED.format(root=str(ROOT)), str(tmp_path), str(seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    for text in wanted:
        assert text in done.stdout


def test_the_closing_line_counts_a_layer_without_tests_as_failed() -> None:
    good, empty = Result("unit", "x", passed=3, skipped=1), Result("cli", "x")
    assert closing([good]) == "3 passed, 0 failed, 1 skipped"
    assert closing([good, empty]) == "3 passed, 1 failed, 1 skipped"
