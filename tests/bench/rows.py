"""From measurements to the rows of the table, with the promises and aims of the contract."""

from __future__ import annotations

from tests.bench import calls, searching, starts
from tests.bench.measure import Spread, Timings
from tests.bench.searching import BASIC_MEMORY, GREP, MCP, MEMMEM, RIPGREP, SERVER_MEMORY, SOCKET, STORE
from tests.bench.sessions import Idle
from tests.bench.table import Row, absolute, compare, milliseconds

EIGHT_TIMES = 1 / 8


def searches(result: searching.Result, documents: int, contract: bool) -> list[Row]:
    """`contract`: whether this is the corpus that the promises are about."""
    timings, missing = result.timings, result.missing

    def row(name: str, ours: str, theirs: str, promise: float | None = None, aim: float | None = None) -> Row:
        bounds = (promise, aim) if contract else (None, None)
        return compare(f"{name}, {documents:,} documents", timings, ours, theirs, *bounds, missing.get(theirs, ""))

    rows = [
        row("search in the Hub, the store's call", STORE, GREP, 0.35, 0.12),
        row("search in the Hub, through hub.sock", SOCKET, GREP, 0.35, 0.12),
        row("search in the Hub, the store's call", STORE, MEMMEM, None, 2),
        row("search in the Hub, through hub.sock", SOCKET, MEMMEM, None, 2),
        row("search in the Hub, through hub.sock", SOCKET, RIPGREP),
        row("search through MCP (`amux mcp`), end to end", MCP, GREP, 0.6, 0.2),
        row("search through MCP (`amux mcp`), end to end", MCP, BASIC_MEMORY, EIGHT_TIMES),
        row("search through MCP (`amux mcp`), end to end", MCP, SERVER_MEMORY),
    ]
    for name in ("Hub", SERVER_MEMORY, BASIC_MEMORY):
        if name in result.memory:
            what = f"resident memory of {name} after its searches, {documents:,} documents"
            rows.append(absolute(what, Spread.of([result.memory[name]]), "MiB"))
    return rows


def single_calls(get: Timings, upsert: Timings) -> list[Row]:
    rows = [
        compare("get of 2 KiB through hub.sock", get, calls.GET, calls.ECHO, 4, 2.5),
        compare("upsert of 2 KiB through hub.sock", upsert, calls.UPSERT, calls.BARE, 2, 1.3),
        compare("upsert of 2 KiB through `amux mcp`", upsert, calls.UPSERT_MCP, calls.BARE),
    ]
    for name in (SERVER_MEMORY, BASIC_MEMORY):
        peer = f"write by {name}"
        if peer in upsert:
            ratio = upsert.of(calls.UPSERT_MCP).middle / upsert.of(peer).middle
            shown = f"{peer}: {milliseconds(upsert.of(peer))}"
            ours = milliseconds(upsert.of(calls.UPSERT_MCP))
            rows.append(Row("upsert of 2 KiB through `amux mcp`", ours, shown, Spread.of([ratio])))
    return rows


def processes(relays: starts.Starts, shows: Timings) -> list[Row]:
    timings = relays.timings
    rows = [
        absolute("`amux mcp` to tools/list", timings.of(starts.RELAY), "ms", 100),
        absolute("`amux mcp`, peak memory", relays.peak[starts.RELAY], "MiB", 20),
        compare("`amux mcp` to tools/list", timings, starts.RELAY, starts.PASS, None, 3),
        absolute("`amux mcp` to tools/list, as installed", timings.of(starts.RELAY_INSTALLED), "ms", 100),
        absolute("`amux mcp`, peak memory, as installed", relays.peak[starts.RELAY_INSTALLED], "MiB", 20),
    ]
    for name in (SERVER_MEMORY, BASIC_MEMORY):
        if name in timings:
            rows.append(compare("`amux mcp` to tools/list", timings, starts.RELAY, name))
            ratio = relays.peak[starts.RELAY].middle / relays.peak[name].middle
            ours = f"{relays.peak[starts.RELAY].middle:.1f} MiB"
            theirs = f"{name}: {relays.peak[name].middle:.0f} MiB"
            rows.append(Row("`amux mcp`, peak memory", ours, theirs, Spread.of([ratio])))
    rows += [
        compare("`amux memory show`, whole process", shows, starts.SHOW, starts.PASS, 5, 3.5),
        compare("`amux memory show`, as installed", shows, starts.SHOW_INSTALLED, starts.PASS),
    ]
    return rows


def hub(cold: starts.Cold, idle: Idle) -> list[Row]:
    return [
        absolute(f"{idle.sessions:,} idle MCP sessions, errors", Spread.of([float(idle.errors)]), "errors", 0),
        absolute(
            f"{idle.sessions:,} idle MCP sessions, the Hub's memory for each", Spread.of([idle.kib_each]), "KiB", 80, 50
        ),
        absolute("start of the Hub to the first answer on hub.sock", Spread.of(cold.first_answer), "ms"),
        absolute("start of the Hub to the first answer on mcp.sock", Spread.of(cold.first_tools), "ms"),
        absolute("first search after a start, 1,024 documents", Spread.of(cold.first_search), "ms"),
        absolute("resident memory of the Hub after its start", Spread.of(cold.rss_started), "MiB"),
        absolute("resident memory of the Hub after one search", Spread.of(cold.rss_searched), "MiB"),
    ]
