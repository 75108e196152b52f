"""Fixtures of the booted systems. Every test below this folder is for root, whatever it says itself.

`machine` runs a test in each suite; a test that concerns one asks for `bookworm` or `trixie`. Those machines are
shared by all tests of the run: a test leaves them as it found them (`accounts` does), or boots its own with `boot`.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.booted import packages
from tests.booted.lab import image
from tests.booted.lab.machine import Account, Machine
from tests.booted.lab.recipe import SUITES
from tests.booted.system import Maker, System

HERE = Path(__file__).resolve().parent
_numbers = itertools.count(1)
_uids = itertools.count(20000)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.root)


def _boot(config: pytest.Config, suite: str, binds: dict[Path, str] | None = None) -> Machine:
    # pytest would keep the lines that say how far a build is.
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        image.ensure(suite)
    return Machine(suite, f"{suite}-{os.getpid()}-{next(_numbers)}", binds)


@pytest.fixture(scope="session")
def _shared(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Machine]]:
    machines: dict[str, Machine] = {}
    with ExitStack() as stack:

        def get(suite: str) -> Machine:
            if suite not in machines:
                machines[suite] = stack.enter_context(_boot(request.config, suite))
            return machines[suite]

        yield get


@pytest.fixture(scope="session", params=SUITES)
def machine(request: pytest.FixtureRequest, _shared: Callable[[str], Machine]) -> Machine:
    """The run's machine of each suite in turn."""
    return _shared(request.param)


@pytest.fixture(scope="session")
def bookworm(_shared: Callable[[str], Machine]) -> Machine:
    return _shared("bookworm")


@pytest.fixture(scope="session")
def trixie(_shared: Callable[[str], Machine]) -> Machine:
    return _shared("trixie")


@pytest.fixture
def boot(request: pytest.FixtureRequest) -> Iterator[Callable[..., Machine]]:
    """`boot(suite, binds=None)`: a machine of the test's own, gone after it."""
    with ExitStack() as stack:
        yield lambda suite, binds=None: stack.enter_context(_boot(request.config, suite, binds))


@pytest.fixture
def accounts() -> Iterator[Callable[..., Account]]:
    """`accounts(machine, name, *useradd_options)`: an account that is removed after the test."""
    made: list[tuple[Machine, str]] = []

    def make(machine: Machine, name: str, *options: str) -> Account:
        made.append((machine, name))
        return machine.account(name, *options)

    yield make
    for machine, name in made:
        machine.remove_account(name)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`package(suite)`: the Debian package built for a suite; `machine.install` takes it."""
    out = tmp_path_factory.mktemp("packages")

    @cache
    def get(suite: str) -> Path:
        return packages.build(suite, out)

    return get


@pytest.fixture(scope="session")
def higher(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`higher(suite)`: the same package as of the version `packages.HIGHER`."""
    out = tmp_path_factory.mktemp("higher")

    @cache
    def get(suite: str) -> Path:
        return packages.renumbered(suite, out, packages.HIGHER)

    return get


@pytest.fixture(scope="session", params=SUITES)
def _installed(request: pytest.FixtureRequest, package: Callable[[str], Path]) -> Iterator[System]:
    with _boot(request.config, request.param) as machine:
        machine.install(package(request.param))
        yield System(machine)


@pytest.fixture
def system(_installed: System) -> Iterator[System]:
    """The run's machine of each suite with the package installed: isolation and memory on, nobody enrolled."""
    yield _installed
    _installed.reset()


@pytest.fixture
def person(system: System) -> Iterator[Maker]:
    """`person(name, *useradd_options, uid=None)`: a real account, gone after the test; no UID comes twice."""
    made: list[str] = []

    def make(name: str, *options: str, uid: int | None = None) -> str:
        made.append(name)
        number = next(_uids) if uid is None else uid
        return system.machine.account(name, f"--uid={number}", *options).name

    yield make
    for name in made:
        system.machine.remove_account(name)
