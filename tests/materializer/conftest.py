"""A running materializer for each test, and two accounts of this machine for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.materializer.kit import Account, Helper, accounts, directory


@pytest.fixture(scope="package")
def people() -> Iterator[list[Account]]:
    with accounts("amuxm-alice", "amuxm-bob") as made:
        yield made


@pytest.fixture
def alice(people: list[Account]) -> Account:
    return people[0]


@pytest.fixture
def bob(people: list[Account]) -> Account:
    return people[1]


@pytest.fixture
def helper() -> Iterator[Helper]:
    with directory() as base:
        made = Helper(base)
        made.start()
        try:
            yield made
        finally:
            made.close()
