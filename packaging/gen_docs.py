"""Writes the generated parts of docs/reference from the code; `--check` only says which are out of date.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`; everything else in those
pages is written by hand and never touched. tests/lint holds the pages current.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from amux import errors, limits
from amux.cli import amux
from amux.launch import known, protocol
from amux.tools import TOOLS
from amux_hub.keys import KEYS, Key

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"


def _table(*rows: tuple[str, ...]) -> str:
    head, *body = rows
    lines = [head, tuple("---" for _ in head), *body]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def error_codes() -> str:
    rows = [
        (f"[`{code}`](#{code})", str(status), f"`{errors.varlink_name(code)}`") for code, status in errors.CODES.items()
    ]
    return _table(("code", "exit status", "Varlink error"), *rows)


def exit_statuses() -> str:
    meaning = {
        errors.EXIT_OK: "done; also an empty search, a missing document shown, `already_absent`",
        errors.EXIT_INTERNAL: "a fault of amux-hub itself",
        errors.EXIT_USAGE: "the command line, a path or a text is wrong",
        errors.EXIT_NOT_FOUND: "not found",
        errors.EXIT_CONFLICT: "somebody else changed the document: read, merge, retry",
        errors.EXIT_LIMIT: "a limit is hit, or the Hub is busy",
        errors.EXIT_REFUSED: "refused: not yours to do, or nothing that the Hub will touch",
        errors.EXIT_DISABLED: "memory is switched off",
        errors.EXIT_UNAVAILABLE: "no Hub answers, or none of this version",
        errors.EXIT_UNCERTAIN: "a write may or may not have happened: read before repeating",
        errors.EXIT_STORAGE: "the disk is full, read-only or failing",
    }
    rows = []
    for status, text in meaning.items():
        codes = ", ".join(f"[`{code}`](errors.md#{code})" for code, own in errors.CODES.items() if own == status)
        rows.append((str(status), text, codes))
    return _table(("status", "meaning", "codes"), *rows)


def settings() -> str:
    rows = [
        (f"`{key.name}`", _default(key), _range(key), "yes" if key.reload else "no", _markdown(key.doc))
        for key in KEYS.values()
    ]
    return _table(("key", "default", "values", "in force after `HUP`", "what it does"), *rows)


def _default(key: Key) -> str:
    if key.default is None:
        return key.derived
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, tuple):
        return f"`{list(key.default)}`"
    if isinstance(key.default, float):
        return f"`{key.default:g}`"
    if isinstance(key.default, int) and key.default >= 1024 * 1024 and key.default % (1024 * 1024) == 0:
        return f"`{key.default}` ({key.default // (1024 * 1024)} MiB)"
    return f"`{key.default}`"


def _range(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if key.minimum is not None and key.maximum is not None:
        low, high = (f"{bound:,.0f}" if bound >= 1 else f"{bound:g}" for bound in (key.minimum, key.maximum))
        return f"{low} to {high}"
    return key.wanted()


def _markdown(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def commands() -> str:
    return "\n\n".join(_commands(amux, click.Context(amux, info_name="amux")))


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            if not child.hidden:
                yield from _commands(child, click.Context(child, info_name=name, parent=context))
        return
    own = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    pieces = [piece for piece in command.collect_usage_pieces(context) if own or piece != "[OPTIONS]"]
    usage = " ".join([context.command_path, *pieces])
    yield f"### {context.command_path}\n\n```\n{usage}\n```\n\n{_help(command.help or '')}"
    rows = []
    for parameter in own:
        if not parameter.hidden:
            value = "" if parameter.is_flag else f" {parameter.make_metavar(context)}"
            text = (parameter.help or "") + (" Required." if parameter.required else "")
            rows.append((f"`{', '.join(parameter.opts)}{value}`", text))
    if rows:
        yield _table(("option", "what it does"), *rows)


def _help(text: str) -> str:
    """Click's help as Markdown: a paragraph that click must not wrap (`\\b`) becomes a block of code."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if paragraph.startswith("\b\n"):
            paragraphs.append("```\n" + paragraph.removeprefix("\b\n") + "\n```")
        else:
            paragraphs.append(_markdown(paragraph))
    return "\n\n".join(paragraphs)


def tools() -> str:
    parts = []
    for tool in TOOLS:
        schema = tool["inputSchema"]
        hints = tool["annotations"]
        kind = "reads" if hints["readOnlyHint"] else "writes"
        again = "repeating it is safe" if hints["idempotentHint"] else "never repeat it unread"
        rows = [
            (f"`{name}`", _kind(value), "yes" if name in schema["required"] else "no", value["description"])
            for name, value in schema["properties"].items()
        ]
        head = f"### {tool['name']}\n\n{tool['title']}: {kind}, {again}.\n\n> {_markdown(tool['description'])}"
        parts += [head, _table(("argument", "type", "required", "what the model is told"), *rows)]
    return "\n\n".join(parts)


def _kind(value: dict[str, object]) -> str:
    bounds = [f"{word} {value[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in value]
    pattern = [f"`{value['pattern']}`"] if "pattern" in value else []
    return " ".join([str(value["type"]), *bounds, *pattern])


def contract_limits() -> str:
    """The constants of `amux.limits` by name; the pages' own tables explain them in words."""
    rows = [
        (f"`{name}`", f"`{value}`" if isinstance(value, str) else f"{value:,}")
        for name, value in vars(limits).items()
        if name.isupper()
    ]
    return _table(("name in `amux.limits`", "value"), *rows)


def interfaces() -> str:
    from amux_hub.interfaces import describe

    return "\n\n".join(f"```varlink\n{text.strip()}\n```" for text in describe().values())


def protocols() -> str:
    """The fixed texts, one per capability, with the fingerprints of what each agent is given."""
    agents = [known.find(name) for name in known.MODULES]
    rows = [(f"`{one.name}`", one.tools, f"`{protocol.fingerprint(protocol.of(one))}`") for one in agents]
    parts = [f"Version {protocol.VERSION}.", _table(("agent", "capability", "SHA-256 of its text"), *rows)]
    firsts = {one.tools: one for one in reversed(agents)}.values()
    parts += [f"The text for {one.name} ({one.tools}):\n\n~~~text\n{protocol.of(one)}\n~~~" for one in firsts]
    return "\n\n".join(parts)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "error-codes": ("errors.md", error_codes),
    "exit-statuses": ("commands.md", exit_statuses),
    "commands": ("commands.md", commands),
    "settings": ("settings.md", settings),
    "limits": ("limits.md", contract_limits),
    "tools": ("mcp.md", tools),
    "interfaces": ("wire.md", interfaces),
    "protocols": ("launch.md", protocols),
}


def rendered(name: str) -> tuple[Path, str, str]:
    """The page of a generated part, its text now, and its text as it should be."""
    file, render = PARTS[name]
    page = REFERENCE / file
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- generated: {name} -->\n", f"<!-- end of {name} -->"
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{page}: no part between {begin.strip()} and {end}")
    return page, text, f"{before}{begin}\n{render()}\n\n{end}{after}"


def main(arguments: list[str]) -> int:
    stale = []
    for name in PARTS:
        page, now, wanted = rendered(name)
        if now == wanted:
            continue
        stale.append(f"{page.name} ({name})")
        if arguments != ["--check"]:
            page.write_text(wanted, encoding="utf-8")
    if arguments == ["--check"] and stale:
        print(f"out of date: {', '.join(stale)}; run `make docs`", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}" if stale else "docs/reference is current")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
