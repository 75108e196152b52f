"""What the scripted models do: every tool once at least, in the order in which a careful agent would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.clients.model import Call, Script

ENTRY = "# Memory\n\n- Deployments: see projects/web/部署.md\n"
DETAILS = "# 部署\n\n" + 'say "yes" to C:\\release\n' * 320
"""Over one page once its quotes and backslashes are escaped, twice, and under one store reply."""
FINAL = "It is remembered."


def answer(output: str) -> dict[str, Any]:
    """The JSON of a tool's text block; Codex puts words of its own before it."""
    found: dict[str, Any] = json.loads(output[output.index("{") :])
    return found


def all_five_tools() -> Script:
    """Fails, and so ends the conversation with other words than FINAL, where an answer is not what it must be."""
    read = answer((yield Call("amux_memory_get", {"path": "MEMORY.md"})))
    assert (read["exists"], read["revision"]) == (False, "absent"), read
    write = {"path": "projects/web/部署.md", "content": DETAILS, "expected_revision": "absent"}
    details = answer((yield Call("amux_memory_upsert", write)))
    write = {"path": "MEMORY.md", "content": ENTRY, "expected_revision": read["revision"]}
    entry = answer((yield Call("amux_memory_upsert", write)))
    found = answer((yield Call("amux_memory_search", {"query": "部署", "limit": 3})))
    assert {match["path"] for match in found["matches"]} == {"MEMORY.md", "projects/web/部署.md"}, found
    page = answer((yield Call("amux_memory_get", {"path": "projects/web/部署.md"})))
    texts = [page["text"]]
    while "continuation" in page:
        page = answer((yield Call("amux_result_continue", {"continuation": page["continuation"]})))
        texts.append(page["text"])
    assert len(texts) > 1
    whole = json.loads("".join(texts))
    assert whole["revision"] == details["revision"]
    assert DETAILS.startswith(whole["content"])
    conflict = answer((yield Call("amux_memory_upsert", {**write, "content": "lost"})))
    assert conflict["error"]["code"] == "conflict", conflict
    assert conflict["error"]["details"]["observed_revision"] == entry["revision"]
    write = {"path": "draft.md", "content": "not for long", "expected_revision": "absent"}
    draft = answer((yield Call("amux_memory_upsert", write)))
    gone = {"path": "draft.md", "expected_revision": draft["revision"]}
    forgotten = answer((yield Call("amux_memory_forget", gone)))
    assert forgotten["revision"] == "absent"
    return FINAL


def assert_on_disk(memory: Path) -> None:
    """The memory after `all_five_tools`: these files, these bytes, nothing else."""
    scope = memory / "global"
    files = {str(path.relative_to(scope)): path.read_bytes() for path in scope.rglob("*") if path.is_file()}
    assert files == {"MEMORY.md": ENTRY.encode(), "projects/web/部署.md": DETAILS.encode()}


def one_write() -> Script:
    """For what stands between a model and its memory: the approval."""
    write = {"path": "MEMORY.md", "content": ENTRY, "expected_revision": "absent"}
    return (yield Call("amux_memory_upsert", write))


def one_read() -> Script:
    return (yield Call("amux_memory_get", {"path": "MEMORY.md"}))
