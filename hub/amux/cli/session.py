"""`amux session`: the conversations that `amux launch` began, as the Hub remembers them."""

from __future__ import annotations

from typing import Any

import click

from amux import endpoint, output
from amux.client import Client
from amux.errors import EXIT_OK
from amux.memory import as_json, utf8

SESSION = "io.amux.Session."
_JSON = click.option("--json", "json", is_flag=True, help="Print JSON at a terminal too.")


@click.group("session")
def group() -> None:
    """Show and forget the conversations that amux launch began."""


def _call(method: str, session: str) -> dict[str, Any]:
    with Client(endpoint.choose()) as client:
        return client.call(SESSION + method, {"session": utf8(session, "SESSION")})


@group.command("list")
@_JSON
def list_sessions(json: bool) -> int:
    """List your sessions, the one used last first."""
    found: list[dict[str, Any]] = []
    with Client(endpoint.choose()) as client:
        parameters: dict[str, Any] = {}
        while True:
            page = client.call(SESSION + "List", parameters)
            found += page["sessions"]
            if "next_after" not in page:
                break
            parameters["after"] = page["next_after"]
    found.sort(key=lambda one: (one["last_used"], one["session"]), reverse=True)
    if as_json({"json": json}):
        output.write(1, output.as_json({"sessions": found}))
        return EXIT_OK
    for one in found:
        output.line(
            1, f"{one['session']}  {one['agent']:<7} {one['kind']:<11} {one['last_used']}  memory {one['binding']}"
        )
    if found:
        output.line(2, "-- go on with one: amux launch --resume SESSION")
    return EXIT_OK


@group.command()
@click.argument("session")
@_JSON
def show(session: str, json: bool) -> int:
    """Show one session: its agent, its memory, the agent's own id of the conversation."""
    reply = _call("Show", session)
    if as_json({"json": json}):
        output.write(1, output.as_json(reply))
        return EXIT_OK
    for what, value in (
        ("session", reply["session"]),
        ("agent", reply["agent"]),
        ("conversation", reply.get("native", "not seen yet")),
        ("memory", reply["binding"]),
        ("kind", reply["kind"]),
        ("isolation", reply["isolation"]),
        ("begun by", reply.get("parent", "")),
        ("created", reply["created"]),
        ("last used", reply["last_used"]),
    ):
        if value:
            output.line(1, f"{what:<13} {value}")
    return EXIT_OK


@group.command()
@click.argument("session")
@_JSON
def end(session: str, json: bool) -> int:
    """Forget one session: it cannot be resumed any more.

    Memory stays, and so does the agent's own record of the conversation. An agent that runs goes on.
    """
    _call("End", session)
    if as_json({"json": json}):
        output.write(1, output.as_json({"session": session}))
    else:
        output.line(1, f"forgotten: {session}; memory stays")
    return EXIT_OK
