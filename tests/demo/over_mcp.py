"""The same memory through MCP: the official Python client starts `amux mcp`, as an agent does."""

from __future__ import annotations

import json
from typing import Any

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from tests.demo.stage import BIN, NotAsToldError, Stage, tell

SHOWN = 420
"""Characters of an answer that are shown."""


async def converse(stage: Stage, long_text: str) -> None:
    """List the tools, search, read a long document page by page, write, and meet a conflict."""
    server = StdioServerParameters(
        command=str(BIN / "amux"), args=["mcp"], env=stage.env, cwd=str(stage.work)
    )
    async with Client(stdio_client(server)) as client:
        tell(f"connected, protocol {client.protocol_version}")
        listed = [tool.name for tool in (await client.list_tools()).tools]
        tell(f"→ tools/list\n← {', '.join(listed)}\n")
        if len(listed) != 5:
            raise NotAsToldError(f"{len(listed)} tools instead of 5")

        found = await _call(client, "amux.memory_search", query="Thursday 部署")
        if "projects/shop/decisions.md" not in [match["path"] for match in found["matches"]]:
            raise NotAsToldError("the corrected document was not found")

        first = await _call(client, "amux.memory_get", path="projects/shop/incidents.md")
        text = await _joined(client, first)
        tell(f"   [{first['pages']} pages joined: {len(text)} characters of JSON, the first part of the log]\n")
        if not long_text.startswith(json.loads(text)["content"]):
            raise NotAsToldError("the pages do not add up to the document")

        path = "projects/shop/customers.md"
        note = "# Customers\n\n- Invoices for Lindqvist AB go out in Swedish.\n"
        saved = await _call(
            client, "amux.memory_upsert", path=path, content=note, expected_revision="absent"
        )
        refused = await _call(
            client,
            "amux.memory_upsert",
            fails=True,
            path=path,
            content="# Customers\n",
            expected_revision="absent",
        )
        if refused["error"]["details"].get("observed_revision") != saved["revision"]:
            raise NotAsToldError("the conflict does not name the revision that is there")


async def _joined(client: Client, page: dict[str, Any]) -> str:
    text = str(page["text"])
    while page.get("continuation"):
        page = await _call(client, "amux.result_continue", continuation=page["continuation"])
        text += page["text"]
    return text


async def _call(client: Client, tool: str, *, fails: bool = False, **arguments: Any) -> dict[str, Any]:
    """One tool call, shown with its answer."""
    tell(f"→ tools/call {tool} {json.dumps(arguments, ensure_ascii=False)}")
    result = await client.call_tool(tool, arguments)
    block = result.content[0]
    text = block.text if block.type == "text" else ""
    cut = f" [… {len(text) - SHOWN} more characters]" if len(text) > SHOWN else ""
    tell(f"← {'error: ' if result.is_error else ''}{text[:SHOWN]}{cut}\n")
    if bool(result.is_error) != fails:
        raise NotAsToldError(f"{tool} {'succeeded' if fails else 'failed'}")
    answer: dict[str, Any] = json.loads(text)
    return answer
