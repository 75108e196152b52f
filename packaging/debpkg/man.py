"""The man pages, man(7): written from the help of the programs and the tables of the code, so that they cannot differ.

What no table says (root's helpers) stands in files/ as it is.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator

import click

from amux import __version__, errors
from amux.cli import amux
from amux_hub.__main__ import _parser
from amux_hub.keys import KEYS, Key

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
    return "SEE ALSO", ",\n".join(f".BR {name}" for name in names).replace(",\n", " ,\n")


def amux_1() -> str:
    """amux(1), from click's own help."""
    statuses = "\n".join(f".TP\n.B {status}\n{_roff(text)}" for status, text in STATUSES)
    environment = (
        ".TP\n.B AMUX_HUB\nWhich Hub: the absolute path of a hub.sock, or ssh://[user@]host[:port]. Without it the "
        "host's, /run/amux/hub.sock, if there is one, else the private one.\n.TP\n.B AMUX_HOME\n"
        "The home of the private Hub."
    )
    return _page(
        "amux",
        1,
        "one long-term memory for the coding agents of this host",
        ("SYNOPSIS", ".B amux\n.IR COMMAND \" [\" ARGUMENT \"]...\""),
        ("DESCRIPTION", _roff(inspect.cleandoc(amux.help or ""))),
        ("COMMANDS", "\n".join(_commands(amux, click.Context(amux, info_name="amux")))),
        ("EXIT STATUS", statuses),
        ("ENVIRONMENT", environment),
        _see("amux-hub(8)", "hub.yaml(5)"),
    )


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
            yield f".TP\n.B {_roff(', '.join(option.opts) + value)}\n{_roff(option.help or '')}"


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
        ("SYNOPSIS", _roff(_usage(parser, "amux-hub"))),
        ("DESCRIPTION", _roff(parser.description or "") + "\n.PP\n" + SYSTEM),
        ("OPTIONS", "\n".join(options)),
        ("COMMANDS", "\n".join(commands)),
        ("SIGNALS", SIGNALS),
        ("EXIT STATUS", "0 after a stop, 1 when the Hub cannot start, 2 for wrong usage or configuration."),
        ("FILES", "\n".join(f".TP\n.I {_roff(path)}\n{_roff(text)}" for path, text in files)),
        _see("amux(1)", "hub.yaml(5)", "systemctl(1)"),
    )


def _usage(parser: argparse.ArgumentParser, name: str) -> str:
    return name + re.sub(r"\s+", " ", parser.format_usage()).removeprefix(f"usage: {name}").rstrip()


def _option(action: argparse.Action) -> str:
    value = f" {action.metavar}" if action.metavar and action.nargs != 0 else ""
    text = action.help if action.help and action.help != argparse.SUPPRESS else ""
    return f".TP\n.B {_roff(', '.join(action.option_strings) + str(value))}\n{_roff(text)}"


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
    default = key.derived if key.default is None else str(key.default).lower()
    if key.system is not None and key.default is not None:
        default += f", of the host's Hub {str(key.system).lower()}"
    wanted = ", ".join(str(choice) for choice in key.choices) if key.choices else key.wanted()
    reload = "; reload" if key.reload else ""
    return f".TP\n.B {_roff(key.name)}\n{_roff(key.doc)}\n({_roff(f'default: {default}; wanted: {wanted}{reload}')})"


PAGES = {"amux.1": amux_1, "amux-hub.8": amux_hub_8, "hub.yaml.5": hub_yaml_5}
