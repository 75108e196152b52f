"""A whole document, read through pages of one revision.

Promises that what it answers was the file's content at one moment: the hash of the bytes is the revision.
"""

from __future__ import annotations

import hashlib
from typing import Any

from amux.client import MEMORY, Client
from amux.errors import AmuxError


def read(client: Client, path: str) -> tuple[bytes, str]:
    """The bytes of a document and its revision; `b""` and `absent` if it does not exist.

    Raises `conflict` if it changed between two pages, and what a Get raises.
    """
    page = client.call(MEMORY + "Get", {"path": path})
    revision = str(page["revision"])
    parts = [page["content"]]
    while page.get("truncated"):
        page = _next_page(client, path, page, revision)
        parts.append(page["content"])
    data = "".join(parts).encode()
    if page["exists"] and hashlib.sha256(data).hexdigest() != revision:
        raise AmuxError("protocol_error", f"the pages of {path} do not add up to revision {revision}", path=path)
    return data, revision


def _next_page(client: Client, path: str, page: dict[str, Any], revision: str) -> dict[str, Any]:
    try:
        following = client.call(MEMORY + "Get", {"path": path, "offset": page["next_offset"]})
    except AmuxError as error:
        # An offset that was right a moment ago is wrong in another text: that is a change, not our mistake.
        if error.code not in ("invalid_argument", "not_utf8", "unsafe_file", "limit_exceeded"):
            raise
        raise _changed(path, revision, error.details.get("observed_revision")) from error
    if following["revision"] != revision:
        raise _changed(path, revision, following["revision"])
    return following


def _changed(path: str, revision: str, observed: str | int | bool | None) -> AmuxError:
    return AmuxError(
        "conflict",
        f"{path} was changed while it was read (it was {revision}): nothing was written; try again",
        path=path,
        expected_revision=revision,
        observed_revision=observed,
    )
