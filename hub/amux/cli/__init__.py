"""The click commands of `amux`: everything but the hot path, and the help and completion of all of it.

Promises one form of errors and exit statuses whatever fails, click's own usage errors included. Imported only
when a command line is not for the hot path.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import shell_complete

from amux import __version__, output
from amux.cli import admin, completion, config, doctor, launch, memory, session, status
from amux.errors import EXIT_OK, EXIT_USAGE, AmuxError


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="amux", message="%(prog)s %(version)s")
def amux() -> None:
    """One long-term memory for the coding agents of this host, kept as plain Markdown."""


@amux.command(short_help="Serve the memory tools to an agent.")
def mcp() -> int:
    """Serve the memory tools to an agent: MCP on standard input and output.

    Add it to an agent once, for example: claude mcp add --scope user amux -- amux mcp
    """
    from amux import relay

    return relay.main([])


@amux.command("dial-stdio", short_help="Join standard input and output to the Hub.")
@click.option("--mcp", "to_mcp", is_flag=True, help="Join the MCP socket instead of the Varlink one.")
def dial_stdio(to_mcp: bool) -> int:
    """Join standard input and output to the Hub of this machine; ssh:// addresses in AMUX_HUB use it."""
    from amux import dial

    return dial.main(["--mcp"] if to_mcp else [])


@amux.group()
def system() -> None:
    """Manage the Hub."""


system.add_command(config.group)
amux.add_command(memory.group)
amux.add_command(launch.launch)
amux.add_command(session.group)
amux.add_command(status.status)
amux.add_command(status.whoami)
amux.add_command(completion.command)
amux.add_command(doctor.doctor)
amux.add_command(admin.group)


def main(argv: list[str]) -> int:
    """Run one command line; the exit status."""
    return output.guarded(lambda: _invoke(argv), "--json" in argv)


def _invoke(argv: list[str]) -> int:
    """What click's own `main` does, but for its handling of broken pipes and of Ctrl-C: both are ours."""
    completing = os.environ.get(completion.VARIABLE)
    if completing:
        return shell_complete(amux, {}, "amux", completion.VARIABLE, completing)
    try:
        with amux.make_context("amux", list(argv)) as context:
            status = amux.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as problem:
        output.text(2, problem.format_message() + "\n")
        return EXIT_USAGE
    except click.UsageError as problem:
        raise AmuxError("invalid_argument", f"{_sentence(problem)} See: {_named(argv)} --help") from problem
    except click.ClickException as problem:
        raise AmuxError("invalid_argument", problem.format_message()) from problem
    return status if isinstance(status, int) else EXIT_OK


def _sentence(problem: click.UsageError) -> str:
    """The message in one line that ends with a point: click breaks its lists of choices and ends some with none."""
    message = " ".join(problem.format_message().split())
    return message if message.endswith((".", "?")) else f"{message}."


def _named(argv: list[str]) -> str:
    """The command that the words name, as far as there is one; click does not always say it."""
    group, path = amux, ["amux"]
    for word in argv:
        command = group.commands.get(word)
        if command is None:
            break
        path.append(word)
        if not isinstance(command, click.Group):
            break
        group = command
    return " ".join(path)
