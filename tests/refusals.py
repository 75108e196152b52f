"""One way to say "this is refused, with that code": used by the tests of the store and of the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amux.errors import AmuxError


def refused(code: str, call: Callable[..., Any], *arguments: Any) -> AmuxError:
    """The AmuxError that `call(*arguments)` raises; it must have `code` and a message of one line."""
    with pytest.raises(AmuxError) as caught:
        call(*arguments)
    error = caught.value
    assert error.code == code, f"{error.code}: {error.message}"
    assert "\n" not in error.message
    return error
