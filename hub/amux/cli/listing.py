"""`amux memory list`: the documents by path, a page at a time."""

from __future__ import annotations

from typing import Any

import click

from amux import endpoint, output
from amux.client import MEMORY, Client
from amux.errors import EXIT_OK
from amux.memory import as_json, utf8


@click.command("list")
@click.option("--path-prefix", metavar="PATH", help="Only this directory or document.")
@click.option("--after", metavar="PATH", help="Begin behind this path: next_after of the page before.")
@click.option("--all", "every", is_flag=True, help="Print every page, one after another.")
@click.option("--json", "json", is_flag=True, help="Print JSON at a terminal too: one object a page.")
def list_documents(path_prefix: str | None, after: str | None, every: bool, json: bool) -> int:
    """List the documents with their size and revision.

    One answer is bounded; when there are more documents it ends with how to go on.
    """
    parameters: dict[str, Any] = {}
    if path_prefix is not None:
        parameters["path_prefix"] = utf8(path_prefix, "path_prefix", "invalid_path")
    if after is not None:
        parameters["after"] = utf8(after, "after", "invalid_path")
    show = _print_json if as_json({"json": json}) else _print_page
    with Client(endpoint.choose()) as client:
        while True:
            page = client.call(MEMORY + "List", parameters)
            show(page)
            if not every or not page.get("next_after"):
                break
            parameters["after"] = page["next_after"]
    if show is _print_page:
        total = page.get("total_documents")
        what = "document" if total == 1 else "documents"
        output.line(2, f"-- {total} {what}, {page.get('total_bytes')} bytes in all")
        if page.get("incomplete"):
            output.line(2, "-- incomplete: part of the memory was not looked at; narrow --path-prefix")
        if page.get("next_after"):
            output.line(2, f"-- more: go on with --after {page['next_after']!r}, or use --all")
    return EXIT_OK


def _print_json(page: dict[str, Any]) -> None:
    output.write(1, output.as_json(page))


def _print_page(page: dict[str, Any]) -> None:
    for document in page.get("documents", []):
        revision = document["revision"] or "-"  # none: the Hub does not read such a file
        output.line(1, f"{document['bytes']:>8}  {revision[:12]:<12}  {document['path']}")
