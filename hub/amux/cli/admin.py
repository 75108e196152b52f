"""`amux admin`: principals, usage and connections of a system Hub, over its administration socket. For root."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from amux import endpoint, output
from amux.client import Client
from amux.errors import EXIT_OK, AmuxError
from amux.memory import as_json, utf8

ADMIN = "io.amux.Admin."
_JSON = click.option("--json", "json", is_flag=True, help="Print JSON at a terminal too.")


@click.group("admin")
def group() -> None:
    """Administer a system Hub: its principals, what they store, who is connected. For root."""


@group.group()
def principals() -> None:
    """Show and decide who is who."""


def _call(method: str, **parameters: object) -> dict[str, Any]:
    with Client(endpoint.choose(), "admin") as client:
        return client.call(ADMIN + method, parameters)


def _pages(method: str, field: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """All entries of a listing, and the last page's other fields."""
    entries: list[dict[str, Any]] = []
    with Client(endpoint.choose(), "admin") as client:
        after: dict[str, object] = {}
        while True:
            reply = client.call(ADMIN + method, after)
            entries += reply.pop(field)
            if "next_after" not in reply:
                return entries, reply
            after = {"after": reply.pop("next_after")}


def _show(json: bool, whole: dict[str, Any], lines: Iterator[str]) -> int:
    if as_json({"json": json}):
        output.write(1, output.as_json(whole))
    else:
        for line in lines:
            output.line(1, line)
    return EXIT_OK


def _accounts(pins: list[dict[str, Any]]) -> str:
    return ", ".join(f"{pin['name']} (UID {pin['uid']})" for pin in pins) or "no account"


@principals.command("list")
@_JSON
def list_principals(json: bool) -> int:
    """Show every principal and its accounts."""
    found, _ = _pages("ListPrincipals", "principals")

    def lines() -> Iterator[str]:
        for one in found:
            retired = f"; retired on {one['retired']}" if one["retired"] else ""
            yield f"{one['principal']}: {_accounts(one['accounts'])}{retired}"

    return _show(json, {"principals": found}, lines())


def _one(reply: dict[str, Any], json: bool) -> int:
    def lines() -> Iterator[str]:
        yield f"principal   {reply['principal']}"
        yield f"accounts    {_accounts(reply['accounts'])}"
        if reply["former"]:
            yield f"formerly    {_accounts(reply['former'])}"
        yield f"first seen  {reply['first_seen']}"
        if reply["retired"]:
            yield f"retired     {reply['retired']}"

    return _show(json, reply, lines())


@principals.command()
@click.argument("principal")
@_JSON
def show(principal: str, json: bool) -> int:
    """Show one principal: its accounts, those it had, when it was first seen."""
    return _one(_call("GetPrincipal", principal=utf8(principal, "PRINCIPAL")), json)


@principals.command()
@click.argument("principal")
@click.argument("old_uid", type=int)
@click.argument("new_uid", type=int)
@_JSON
def rebind(principal: str, old_uid: int, new_uid: int, json: bool) -> int:
    """Let the account of NEW_UID take the place of the one with OLD_UID.

    For an account that was renamed both are the same. Neither may be connected.
    """
    reply = _call("RebindPrincipal", principal=utf8(principal, "PRINCIPAL"), old_uid=old_uid, new_uid=new_uid)
    return _one(reply, json)


@principals.command()
@click.argument("principal")
@_JSON
def retire(principal: str, json: bool) -> int:
    """End a principal: its connections close, nobody is it any more, its memory is kept."""
    return _one(_call("RetirePrincipal", principal=utf8(principal, "PRINCIPAL")), json)


@principals.command()
@click.argument("principal")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_JSON
def purge(principal: str, yes: bool, json: bool) -> int:
    """Delete the memory and the record of a retired principal. There is no undo."""
    name = utf8(principal, "PRINCIPAL")
    if not yes:
        if not sys.stdin.isatty():
            raise AmuxError("invalid_argument", "purge deletes memory for good: add --yes where nobody can be asked")
        if click.prompt(f"Type {output.escape(name)} to delete its memory for good", default="", err=True) != name:
            raise AmuxError("invalid_argument", "that is another name: nothing was deleted")
    reply = _call("PurgePrincipal", principal=name)
    what = "its memory and its record" if reply["memory_removed"] else "its record; it had no memory"
    return _show(json, reply, iter([f"deleted of {name}: {what}"]))


@group.command()
@_JSON
def usage(json: bool) -> int:
    """Show how many documents and bytes each memory holds, against what one may.

    `principal:NAME` is a person's; `global` is everybody's.
    """
    found, rest = _pages("GetUsage", "usage")

    def lines() -> Iterator[str]:
        width = max((len(one["scope"]) for one in found), default=0)
        documents, size = rest["scope_documents"], rest["scope_bytes"]
        for one in found:
            if one.get("refused"):
                yield f"{one['scope']:<{width}}  {one['refused']}"
                continue
            share = max(one["documents"] / documents, one["bytes"] / size)
            yield (
                f"{one['scope']:<{width}}  {one['documents']:>5} of {documents} documents"
                f"  {one['bytes'] / 1024:>8.0f} of {size // 1024} KiB  {share:>4.0%}"
            )

    return _show(json, {"usage": found, **rest}, lines())


@group.command()
@_JSON
def connections(json: bool) -> int:
    """Show who is connected, over which socket, since when."""
    found, _ = _pages("ListConnections", "connections")

    def lines() -> Iterator[str]:
        for one in found:
            yield f"UID {one['uid']:<10} pid {one['pid']:<8} {one['listener']:<6} for {one['seconds']} s"

    return _show(json, {"connections": found}, lines())
