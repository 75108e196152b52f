"""The registry: which account is which principal, pinned at first use."""

from amux_hub.registry.record import Pin, Record
from amux_hub.registry.registry import Registry

__all__ = ["Pin", "Record", "Registry"]
