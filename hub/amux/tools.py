"""The five MCP tools: the table that the Hub serves, byte for byte.

It stands here, not in the Hub, because a launch's protocol text names these tools and comes from `amux.pyz`
alone. `tools/list` is made from this table and never changes in a Hub's life. The texts are written for a
model: what the tool is for, when to use it, and what to do with the answer.
"""

from __future__ import annotations

from amux import limits

TYPE_CHECKING = False
if TYPE_CHECKING:  # the relay imports this table, and `typing` alone would be a tenth of its start
    from typing import Any

    Schema = dict[str, Any]


def _object(required: list[str], **properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


_PATH: Schema = {
    "type": "string",
    "description": "Path of one Markdown document inside the memory, relative, with forward slashes, ending "
    "in .md, e.g. MEMORY.md or projects/web/decisions.md. It is not a path of the local file system.",
}
_REVISION: Schema = {
    "type": "string",
    "pattern": "^(absent|[0-9a-f]{64})$",
    "description": "The revision from your last amux.memory_get of this path (64 hex digits), or absent if the "
    "document does not exist yet. On conflict nothing was changed: read again, merge, retry.",
}

TOOLS: list[dict[str, Any]] = [
    {
        "name": "amux.memory_search",
        "title": "Search memory",
        "description": "Find memory documents that contain literal keywords. Use it before answering about "
        "earlier work, decisions, preferences, agreements or a problem that came up before; ordinary tasks do "
        "not need it. A document with any keyword matches; those with more distinct keywords come first. Case "
        "is ignored, and Chinese, Japanese and Korean match as plain substrings. There is no stemming and no "
        "synonym: try other words, and the other language, before concluding that nothing is known. Answers "
        "matches with path, line, snippet and revision; read the document with amux.memory_get. If incomplete "
        "is true, part of the memory was not scanned: narrow path_prefix.",
        "inputSchema": _object(
            ["query"],
            query={
                "type": "string",
                "description": f"1 to {limits.QUERY_TERMS} keywords separated by spaces, at most "
                f"{limits.QUERY_BYTES} bytes. Taken literally: no regular expressions, no operators.",
            },
            path_prefix={
                "type": "string",
                "description": "Only look at this directory or document, e.g. projects/web. Empty means all.",
            },
            limit={
                "type": "integer",
                "minimum": 0,
                "maximum": limits.SEARCH_MAXIMUM,
                "description": f"How many documents to answer, {limits.SEARCH_DEFAULT} if 0 or missing.",
            },
        ),
        "annotations": {
            "title": "Search memory",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
    {
        "name": "amux.memory_get",
        "title": "Read memory",
        "description": "Read one memory document, or a part of it. Answers exists, revision (of the whole "
        "file), content, total_lines and size_bytes. A missing document is no error: exists is false and the "
        "revision is absent. If truncated is true, continue with offset set to next_offset and check that the "
        "revision is still the same. Read MEMORY.md once at the start of a conversation.",
        "inputSchema": _object(
            ["path"],
            path=_PATH,
            start_line={
                "type": "integer",
                "minimum": 0,
                "description": "First line, counted from 1; 0 or missing means from the beginning.",
            },
            end_line={
                "type": "integer",
                "minimum": 0,
                "description": "Last line, inclusive; 0 or missing means as far as one answer reaches.",
            },
            offset={
                "type": "integer",
                "minimum": 0,
                "description": "Byte offset to continue at: next_offset of a truncated answer. Not together "
                "with start_line.",
            },
        ),
        "annotations": {
            "title": "Read memory",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
    {
        "name": "amux.memory_upsert",
        "title": "Write memory",
        "description": "Create one memory document, or replace it whole. Read it first and pass its revision; "
        "the write happens only if nobody changed it meanwhile. Save what the user asks you to remember, stable "
        "corrections and verified lessons; never secrets, temporary authorisations or guesses. Keep MEMORY.md "
        f"small (at most {limits.ENTRY_BYTES // 1024} KiB and {limits.ENTRY_LINES} lines: a few preferences and "
        "pointers) and put details into topic documents. Only a successful answer means that it is saved.",
        "inputSchema": _object(
            ["path", "content", "expected_revision"],
            path=_PATH,
            content={
                "type": "string",
                "description": f"The complete new text, UTF-8 Markdown, at most {limits.DOCUMENT_BYTES // 1024} KiB.",
            },
            expected_revision=_REVISION,
        ),
        "annotations": {
            "title": "Write memory",
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    },
    {
        "name": "amux.memory_forget",
        "title": "Forget memory",
        "description": "Delete one memory document, if its revision is still the one you read. There is no "
        "undo. When you correct or forget something, also update MEMORY.md and related documents that repeat "
        "it. A document that is already gone answers already_absent.",
        "inputSchema": _object(["path", "expected_revision"], path=_PATH, expected_revision=_REVISION),
        "annotations": {
            "title": "Forget memory",
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
    {
        "name": "amux.result_continue",
        "title": "Next page of a result",
        "description": "Get the next page of an answer that was too long for one page. Such an answer is "
        '{"text", "continuation", "page", "pages"}: join the texts of all pages in order to get the whole '
        "answer. Asking for a page again is safe. Pages expire after 10 minutes: then call the first tool again.",
        "inputSchema": _object(
            ["continuation"],
            continuation={"type": "string", "description": "The continuation of the page before."},
        ),
        "annotations": {
            "title": "Next page of a result",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    },
]

WRITES = frozenset({"amux.memory_upsert", "amux.memory_forget"})
"""Tools whose repetition could change something: never sent twice unless the first cannot have run."""
