"""`amux status` and `amux whoami`: which Hub, in what state, and who one is to it."""

from __future__ import annotations

from typing import Any

import click

from amux import __version__, endpoint, output
from amux.client import Client
from amux.errors import EXIT_OK, AmuxError
from amux.memory import as_json

HUB = "io.amux.Hub."
_JSON = click.option("--json", "json", is_flag=True, help="Print JSON at a terminal too.")


@click.command()
@_JSON
def whoami(json: bool) -> int:
    """Show who you are to the Hub, and which memory is yours."""
    with Client(endpoint.choose()) as client:
        reply = client.call(HUB + "WhoAmI", {})
    if as_json({"json": json}):
        output.write(1, output.as_json(reply))
    else:
        _table(reply)
    return EXIT_OK


@click.command(short_help="Show which Hub is reached, and whether memory is on.")
@_JSON
@click.option("--metrics", is_flag=True, help="Print the Hub's numbers in Prometheus' text form; for administrators.")
def status(json: bool, metrics: bool) -> int:
    """Show which Hub is reached and why, its version, and whether memory is on."""
    where = endpoint.choose()
    if metrics:
        with Client(where) as client:
            output.write(1, client.call(HUB + "GetMetrics", {})["text"].encode())
        return EXIT_OK
    facts: dict[str, Any] = {"hub": str(where), "why": where.why, "client_version": __version__}
    beside = endpoint.private_beside(where)
    if beside is not None:
        facts["private_hub_beside"] = beside
    problem: AmuxError | None = None
    try:
        with Client(where) as client:
            facts |= {"reachable": True, **client.call(HUB + "GetStatus", {})}
    except AmuxError as error:
        facts["reachable"] = False
        problem = error
    if as_json({"json": json}):
        output.write(1, output.as_json(facts))
    else:
        _table(_readable(facts))
    if problem is not None:
        raise problem
    return EXIT_OK


def _readable(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts in the order that a person asks for them, in words; what this version does not know, as it came."""
    shown = {"Hub": facts.pop("hub"), "because": facts.pop("why")}
    if not facts.pop("reachable"):
        return {**shown, "running": "no", "this amux": facts.pop("client_version"), **facts}
    shown["running"] = "stopping" if facts.pop("draining", False) else "yes"
    if "uptime_ms" in facts:
        shown["running"] += f", for {_duration(facts.pop('uptime_ms'))}"
    running, saved = facts.pop("memory_enabled_running", None), facts.pop("memory_enabled_saved", None)
    shown["memory"] = f"running: {_switch(running)}, saved: {_switch(saved)}"
    if running != saved:
        shown["memory"] += " (in force after a restart of the Hub)"
    shown["version"] = f"{facts.pop('version', '?')} (this amux: {facts.pop('client_version')})"
    if "connections" in facts:
        facts["connections_open"] = facts.pop("connections")
    counts = {
        "connections": _counts(facts, "connections", ("open", "accepted", "refused", "dropped")),
        "requests": _counts(facts, "requests", ("running", "served", "refused")),
    }
    return {**shown, **facts, **{name: count for name, count in counts.items() if count}}


def _counts(facts: dict[str, Any], what: str, kinds: tuple[str, ...]) -> str:
    """Take the counters of one thing out of the facts: `1 open, 62 accepted`."""
    return ", ".join(f"{facts.pop(f'{what}_{kind}')} {kind}" for kind in kinds if f"{what}_{kind}" in facts)


def _duration(milliseconds: int) -> str:
    """The two largest units: `3 min 12 s`."""
    seconds = milliseconds // 1000
    units = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"), (seconds % 60, "s"))
    first = next((place for place, (count, _) in enumerate(units) if count), len(units) - 1)
    return " ".join(f"{count} {unit}" for count, unit in units[first : first + 2])


def _switch(value: object) -> str:
    if not isinstance(value, bool):
        return "unknown"
    return "on" if value else "off"


def _table(facts: dict[str, Any]) -> None:
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        shown = ("yes" if value else "no") if isinstance(value, bool) else value
        output.line(1, f"{name.replace('_', ' '):<{width}}  {shown}")
