"""What every test shares: no skip goes unnoticed, and no test sees the caller's own Hub.

With AMUX_TESTS_REQUIRE_ALL=1 (set by `make test` as root, and in CI) a skipped test is a failure that names
what was missing. Without it, pytest's closing summary lists the reasons.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

REQUIRE_ALL = os.environ.get("AMUX_TESTS_REQUIRE_ALL") == "1"

# A variable that would lead a test to somebody's real Hub, or change what the product prints.
_UNWANTED = ("AMUX_", "LISTEN_", "NOTIFY_", "XDG_")
_OURS = ("AMUX_TESTS_",)
for _name in list(os.environ):
    if _name.startswith(_UNWANTED) and not _name.startswith(_OURS):
        del os.environ[_name]

# Root's private Hub would serve, but root can read and write everything: most refusals would test nothing.
AS_ROOT = os.geteuid() == 0


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip becomes a failure where everything must run."""
    report = yield
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"prerequisite missing: {_reason(report.longrepr)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that asks to be skipped while it is imported."""
    report = yield
    if REQUIRE_ALL and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"prerequisite missing: {_reason(report.longrepr)}"
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test marked `root` fails by name when somebody selects it without being root."""
    if AS_ROOT:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root: run `sudo make test`"))


def _reason(longrepr: object) -> str:
    if isinstance(longrepr, tuple):
        return str(longrepr[-1])
    return str(longrepr)


@pytest.fixture(scope="session")
def cache_dir() -> Path:
    """A directory that outlives the run, for what is costly to fetch (npm packages of the client tests)."""
    given = os.environ.get("AMUX_TESTS_CACHE")
    path = Path(given) if given else Path.home() / ".cache" / "amux-hub"
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def source_root() -> Path:
    """The tree that the tests stand in: the checkout, or its staged copy."""
    return Path(__file__).resolve().parent.parent
