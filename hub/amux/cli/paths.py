"""Completion of document paths by asking the Hub.

Promises to be bounded (a second, PAGES pages, a local Hub only), silent about every failure, and to offer no
path that a shell would read as anything but one word: agents choose document names.
"""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from amux import endpoint
from amux.client import MEMORY, Client
from amux.errors import AmuxError

PAGES = 4
SECONDS = 1.0
_PLAIN = frozenset("._-/+@")


def complete_path(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """The documents whose path begins with what was typed."""
    parameters = {"path_prefix": begun.rpartition("/")[0]}
    found: list[str] = []
    try:
        where = endpoint.choose()
        if where.remote is not None:
            return []
        with Client(where, refused_seconds=0, reply_seconds=SECONDS) as client:
            for _ in range(PAGES):
                page = client.call(MEMORY + "List", parameters)
                found += [document["path"] for document in page["documents"]]
                if not page.get("next_after"):
                    break
                parameters["after"] = page["next_after"]
    except (AmuxError, KeyError, TypeError):
        return []
    return [CompletionItem(path) for path in found if path.startswith(begun) and _is_plain(path)]


def _is_plain(path: str) -> bool:
    return not path.startswith("-") and all(c.isalnum() or c in _PLAIN for c in path)
