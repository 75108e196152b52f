"""The suite runs against the hosts that `--hosts` names, as root, and against nothing without it.

It changes nothing that stays: accounts that it makes up, and what it writes for them, are gone afterwards.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.amux import Person, json_of

if TYPE_CHECKING:
    from testinfra.host import Host

HERE = Path(__file__).resolve().parent


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("amux-hub")
    group.addoption(
        "--accounts",
        metavar="NAME,NAME",
        help="two accounts of the host that may use the memory; without it two are made up and removed",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Named on the command line without a host, the suite says so: testinfra would take this very machine."""
    named = any(Path(word.split("::")[0]).resolve().is_relative_to(HERE) for word in config.args)
    if named and not _hosts(config):
        raise pytest.UsageError("tests/host looks at hosts with amux-hub: add --hosts=ssh://root@HOST")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whoever runs all tests means others."""
    return None if _hosts(config) else True


def _hosts(config: pytest.Config) -> str | None:
    found: str | None = config.getoption("hosts", default=None)
    return found


@dataclass(frozen=True)
class Pair:
    """Two people of the host."""

    ann: Person
    ben: Person


@pytest.fixture(scope="module")
def pair(host: Host, request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Two accounts; each test sees the same two."""
    given: str | None = request.config.getoption("--accounts")
    if given:
        names = given.split(",")
        assert len(set(names)) == 2, "--accounts takes two names with a comma between them"
        yield Pair(*(Person(host, name) for name in names))
        return
    mark = secrets.token_hex(3)
    names = [f"amuxcheck-{mark}-{letter}" for letter in "ab"]
    try:
        for name in names:
            host.run_expect([0], "useradd --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin %s", name)
        yield Pair(*(Person(host, name) for name in names))
    finally:
        for name in names:
            if host.run("amux admin principals show --json -- %s", name).rc == 0:
                json_of(host, "amux admin principals retire --json -- %s", name)
                json_of(host, "amux admin principals purge --yes --json -- %s", name)
            host.run("userdel %s", name)
