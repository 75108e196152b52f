"""The man pages, man(7): written from the help of the programs and the tables of the code, so that they cannot differ.

What no table says (root's helpers) stands in files/ as it is.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Iterator

import click

from amux import __version__, errors
from amux.cli import amux
from amux_hub.__main__ import _parser
from amux_hub.keys import KEYS, Key, Value

STATUSES = (
    (errors.EXIT_OK, "Done; also an empty search, and a document that was absent already."),
    (errors.EXIT_INTERNAL, "A fault of amux-hub itself."),
    (errors.EXIT_USAGE, "The command line, a path or a text is wrong."),
    (errors.EXIT_NOT_FOUND, "Not found."),
    (errors.EXIT_CONFLICT, "Somebody else changed the document: read, merge, try again."),
    (errors.EXIT_LIMIT, "A limit is hit, or the Hub is busy."),
    (errors.EXIT_REFUSED, "Refused: not yours to do, or nothing that the Hub will touch."),
    (errors.EXIT_DISABLED, "Memory is switched off."),
    (errors.EXIT_UNAVAILABLE, "No Hub answers, or none of this version."),
    (errors.EXIT_UNCERTAIN, "A write may or may not have happened: read before repeating."),
    (errors.EXIT_STORAGE, "The disk is full, read-only or failing."),
)

ABOUT = """\
On a shared host each person's memory is theirs alone: the Hub that keeps it knows by the kernel who is calling. Agents
reach it over MCP, by `amux mcp`, and are started with it by `amux launch`; people use `amux memory`. Output that is
piped is JSON, and an error is then an object on standard error."""

HELP = "Show the help of amux or of any command, and exit."

ENVIRONMENT = {
    "AMUX_HUB": """Which Hub: the absolute path of a hub.sock, or ssh://[user@]host[:port]. Without it the host's,
        /run/amux/hub.sock, if there is one, else the private one.""",
    "AMUX_HOME": "The home of the private Hub.",
    "AMUX_SESSION, AMUX_MEMORY_BINDING": """Set by `amux launch`: the session, and the memory that it began with. A
        call is refused where that is not the caller's now.""",
    "VISUAL, EDITOR": "The editor of `amux memory edit`.",
    "NO_COLOR": "No colours at a terminal.",
}

SYSTEM = """\
As
.B amux\\-hub.service
starts it, with
.BR \\-\\-system ,
the Hub serves all accounts of the host: the kernel says who is calling, PAM whether the account is good, and each
person has a memory of their own. Without
.B \\-\\-system
it is the Hub of whoever runs it, and of nobody else."""

SIGNALS = """\
.TP
.BR SIGTERM ", " SIGINT
Stop accepting, answer what runs, end. A second one does not wait.
.TP
.B SIGHUP
Read the configuration again. A file with mistakes changes nothing."""


def _roff(text: str) -> str:
    """Plain text with `code` as roff: nothing in it is a request or an escape."""
    escaped = re.sub(r"\s+", " ", text).strip().replace("\\", "\\e").replace("-", "\\-")
    escaped = re.sub(r"`([^`]+)`", r"\\fB\1\\fP", escaped)
    return "\\&" + escaped if escaped.startswith((".", "'")) else escaped


def _page(name: str, section: int, summary: str, *parts: tuple[str, str]) -> str:
    head = f'.TH {name.upper()} {section} "" "amux\\-hub {__version__}" "amux\\-hub"\n'
    title = name.replace("-", "\\-")
    body = "".join(f".SH {heading}\n{text.strip()}\n" for heading, text in parts if text.strip())
    return f"{head}.SH NAME\n{title} \\- {_roff(summary)}\n{body}"


def _see(*pages: str) -> tuple[str, str]:
    names = [page.replace("-", "\\-").replace("(", " (") for page in pages]
    return "SEE ALSO", ",\n".join(f".BR {name}" for name in names)


def amux_1() -> str:
    """amux(1), from click's own help."""
    statuses = "\n".join(f".TP\n.B {status}\n{_roff(text)}" for status, text in STATUSES)
    environment = "\n".join(f".TP\n.B {name}\n{_roff(text)}" for name, text in ENVIRONMENT.items())
    options = "\n".join(_click_option(one, "") for one in amux.params if isinstance(one, click.Option))
    return _page(
        "amux",
        1,
        "one long-term memory for the coding agents of this host",
        ("SYNOPSIS", ".B amux\n.IR COMMAND \" [\" ARGUMENT \"]...\""),
        ("DESCRIPTION", _roff(inspect.cleandoc(amux.help or "")) + "\n.PP\n" + _roff(ABOUT)),
        ("OPTIONS", options + f"\n.TP\n.B \\-h, \\-\\-help\n{_roff(HELP)}"),
        ("COMMANDS", "\n".join(_commands(amux, click.Context(amux, info_name="amux")))),
        ("EXIT STATUS", statuses),
        ("ENVIRONMENT", environment),
        _see("amux-hub(8)", "hub.yaml(5)"),
    )


def _click_option(option: click.Option, value: str) -> str:
    return f".TP\n.B {_roff(', '.join(option.opts) + value)}\n{_roff(option.help or '')}"


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from _commands(child, click.Context(child, info_name=name, parent=context))
        return
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f".SS {_roff(usage)}"
    for number, paragraph in enumerate(inspect.cleandoc(command.help or "").split("\n\n")):
        yield from [".PP"] if number else []
        if paragraph.startswith("\b\n"):
            lines = paragraph.removeprefix("\b\n").splitlines()
            yield ".nf\n" + "\n".join(_roff(line) for line in lines) + "\n.fi"
        else:
            yield _roff(paragraph)
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            value = "" if option.is_flag else f" {option.make_metavar(context)}"
            yield _click_option(option, value)


def amux_hub_8() -> str:
    """amux-hub(8), from its argument parser."""
    parser = _parser()
    options, commands = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                commands.append(f".SS {_roff(_usage(child, f'amux-hub {name}'))}\n{_roff(child.description or '')}")
        else:
            options.append(_option(action))
    files = (
        ("/etc/amux/hub.yaml", "Configuration of the host's Hub; root's alone."),
        ("/var/lib/amux", "Its home: the memory, as Markdown files. Removing the package keeps it."),
        ("/run/amux", "Its sockets, made by systemd."),
        ("~/.config/amux/hub.yaml, ~/.local/state/amux", "Those of a private Hub."),
    )
    return _page(
        "amux-hub",
        8,
        "the memory Hub",
        ("SYNOPSIS", f".B {_roff(_usage(parser, 'amux-hub'))}"),
        ("DESCRIPTION", _roff(parser.description or "") + "\n.PP\n" + SYSTEM),
        ("OPTIONS", "\n".join(options)),
        ("COMMANDS", "\n".join(commands)),
        ("SIGNALS", SIGNALS),
        ("EXIT STATUS", "0 after a stop, 1 when the Hub cannot start, 2 for wrong usage or configuration."),
        ("FILES", "\n".join(f".TP\n.I {_roff(path)}\n{_roff(text)}" for path, text in files)),
        _see("amux(1)", "hub.yaml(5)", "amux-pam(8)", "amux-materializer(8)", "systemctl(1)", "journalctl(1)"),
    )


def _usage(parser: argparse.ArgumentParser, name: str) -> str:
    return name + re.sub(r"\s+", " ", parser.format_usage()).removeprefix(f"usage: {name}").rstrip()


def _option(action: argparse.Action) -> str:
    value = f" {action.metavar}" if action.metavar and action.nargs != 0 else ""
    text = action.help if action.help and action.help != argparse.SUPPRESS else ""
    sentence = text[:1].upper() + text[1:].removesuffix(".") + "."
    return f".TP\n.B {_roff(', '.join(action.option_strings) + str(value))}\n{_roff(sentence)}"


def hub_yaml_5() -> str:
    """hub.yaml(5), from the table of keys."""
    intro = (
        "YAML, at /etc/amux/hub.yaml for the Hub of the host and ~/.config/amux/hub.yaml for a private one. A dot in "
        "the name of a key is a level of the file. What is unknown or out of range is refused, with its line: "
        "`amux-hub check-config`. Keys marked \"reload\" take effect after `systemctl reload amux-hub`, all others "
        "when the Hub is started again."
    )
    example = "isolation: true\nlimits:\n  connections_per_uid: 256\nlog:\n  level: debug"
    return _page(
        "hub.yaml",
        5,
        "configuration of the memory Hub",
        ("DESCRIPTION", _roff(intro)),
        ("KEYS", "\n".join(_key(key) for key in KEYS.values())),
        ("EXAMPLE", ".nf\n" + "\n".join("\\&" + line.replace("-", "\\-") for line in example.splitlines()) + "\n.fi"),
        _see("amux-hub(8)", "amux(1)"),
    )


def _key(key: Key) -> str:
    default = key.derived if key.default is None else _yaml(key.default)
    if key.system is not None and key.default is not None:
        default += f", of the host's Hub {_yaml(key.system)}"
    wanted = ", ".join(str(choice) for choice in key.choices) if key.choices else key.wanted()
    reload = "; reload" if key.reload else ""
    values = _roff(f"(default: {default}; wanted: {wanted}{reload})")
    return f".TP\n.B {_roff(key.name)}\n{_roff(key.doc)}\n.br\n{values}"


def _yaml(value: Value) -> str:
    """A default as it would stand in the file."""
    return f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('"')


PAGES = {"amux.1": amux_1, "amux-hub.8": amux_hub_8, "hub.yaml.5": hub_yaml_5}
