"""`amux system config`: the settings of the Hub, over its administration socket."""

from __future__ import annotations

from typing import Any

import click

from amux import endpoint, output
from amux.client import Client
from amux.errors import EXIT_OK
from amux.memory import as_json, utf8

ADMIN = "io.amux.Admin."
_JSON = click.option("--json", "json", is_flag=True, help="Print JSON at a terminal too.")


@click.group("config", short_help="Show and save settings.")
def group() -> None:
    """Show and save settings; a saved one is in force after a restart of the Hub."""


def _call(method: str, **parameters: object) -> dict[str, Any]:
    with Client(endpoint.choose(), "admin") as client:
        return client.call(ADMIN + method, parameters)


def _setting(setting: dict[str, Any], json: bool) -> None:
    if as_json({"json": json}):
        output.write(1, output.as_json(setting))
        return
    output.line(1, _readable(setting))
    if "description" in setting:
        output.line(1, f"  {setting['description']}")
        output.line(1, f"  wanted is {setting.get('wanted')}; the default is {setting.get('default')}")


def _readable(setting: dict[str, Any]) -> str:
    shown = f"{setting.get('key')} = {setting.get('value')}  ({setting.get('source')})"
    if setting.get("restart_needed"):
        shown += f"; running: {setting.get('running')}, until the Hub is restarted"
    return shown


@group.command("list", short_help="Show every setting.")
@_JSON
def list_settings(json: bool) -> int:
    """Show every setting, its saved and its running value, and where it comes from."""
    reply = _call("ListSettings")
    if as_json({"json": json}):
        output.write(1, output.as_json(reply))
    else:
        for setting in reply["settings"]:
            output.line(1, _readable(setting))
    return EXIT_OK


@group.command()
@click.argument("key")
@_JSON
def get(key: str, json: bool) -> int:
    """Show one setting."""
    _setting(_call("GetSetting", key=utf8(key, "key")), json)
    return EXIT_OK


@group.command("set")
@click.argument("key")
@click.argument("value")
@_JSON
def set_setting(key: str, value: str, json: bool) -> int:
    """Save one setting; it is in force after a restart of the Hub."""
    _setting(_call("SetSetting", key=utf8(key, "key"), value=utf8(value, "value")), json)
    return EXIT_OK
