"""The store: documents of a scope as plain Markdown files.

Synchronous, thread-safe, ignorant of the network and of who is calling. `Store` owns one memory root and
proves it with a lock; `Scope` has the operations. Everything raises `amux.errors.AmuxError`.
"""

from amux_hub.store.root import Store
from amux_hub.store.scope import Scope

__all__ = ["Scope", "Store"]
