"""What the tests with real clients share: a Hub for a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness import Hub


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub")) as running:
        yield running
