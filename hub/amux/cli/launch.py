"""`amux launch`: an agent with this memory, under its owner's account."""

from __future__ import annotations

import os

import click

from amux.errors import AmuxError
from amux.launch import values


class _Command(click.Command):
    """Everything behind the first `--` is the agent's, whatever stands before it."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        ours, own = args, []
        if "--" in args:
            place = args.index("--")
            ours, own = args[:place], args[place + 1 :]
        context.obj = tuple(own)
        return super().parse_args(context, ours)


@click.command(cls=_Command, short_help="Start an agent with this memory.", options_metavar="[OPTIONS]")
@click.argument("agent", required=False, metavar="[AGENT] [-- ARGUMENTS...]")
@click.option("--resume", metavar="SESSION", help="Go on with a conversation of an earlier launch.")
@click.option(
    "--isolation",
    type=click.Choice(values.ISOLATIONS),
    help="Where the agent's amux and home come from; dac where the materializer is installed, else none.",
)
@click.option("--program", metavar="PATH", help="The agent's executable, where amux does not find it.")
@click.option("--kind", type=click.Choice(values.KINDS), help="What is recorded of the launch; interactive by default.")
@click.option(
    "--credential-file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Copy this file of your home into the private home; may be repeated.",
)
@click.option(
    "--credential-variable",
    "variables",
    multiple=True,
    metavar="NAME",
    help="Pass this environment variable into the private home; may be repeated.",
)
@click.pass_context
def launch(
    context: click.Context,
    agent: str | None,
    resume: str | None,
    isolation: str | None,
    program: str | None,
    kind: str | None,
    files: tuple[str, ...],
    variables: tuple[str, ...],
) -> int:
    """Start an agent with this memory and without its own.

    What stands behind -- are the agent's own arguments: amux launch pi -- --model sonnet "look at the tests". The
    agent runs under your account, in this directory, with your logins; its exit status is that of amux.
    """
    from amux.launch import known, start  # half of what the other commands take to start
    from amux.launch.isolation import Credentials

    if agent is None and resume is None:
        raise AmuxError("invalid_argument", f"name an agent ({', '.join(sorted(known.MODULES))}), or --resume SESSION")
    wanted = start.Wanted(agent, context.obj, isolation, resume, program, kind, Credentials(files, variables))
    return start.launch(wanted, dict(os.environ))
