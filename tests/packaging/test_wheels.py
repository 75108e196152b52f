"""Downloaded wheels: builds that run at once share them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from debpkg import wheels
from debpkg.suite import SUITES


def _free(directory: Path) -> bool:
    """Whether nobody holds the directory."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_a_build_has_the_directory_for_itself_while_it_downloads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[bool] = []
    monkeypatch.setattr(wheels, "pip", lambda *arguments: held.append(not _free(tmp_path)))
    with pytest.raises(LookupError):
        wheels.fetch(SUITES["bookworm"], "amd64", tmp_path)
    assert held == [True, True]
    assert _free(tmp_path)
