"""The client of the previous minor version that tests/data keeps."""

from __future__ import annotations

from pathlib import Path

from amux import __version__

_MAJOR, _MINOR = (int(part) for part in __version__.split(".")[:2])
FROZEN = Path(__file__).with_name("data") / f"amux-{_MAJOR}.{_MINOR - 1}.pyz"
"""Runs under `python3 -IS` what needs no click; tests/data/README.md says how it was made."""
