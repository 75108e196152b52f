"""`amux memory`: the hot commands as click sees them, made from their one table, and the group of all seven.

Promises that click and the parser of the hot path agree, because neither states an option of its own.
"""

from __future__ import annotations

from typing import Any

import click

from amux import memory
from amux.cli import edit, export, listing
from amux.cli.paths import complete_path


@click.group("memory")
def group() -> None:
    """Read and change your memory."""


_KINDS = {
    memory.TEXT: click.STRING,
    memory.NUMBER: click.INT,
    memory.FILE: click.Path(readable=False),  # says what completion offers; opening it says what is wrong
}


def _option(option: memory.Option) -> click.Option:
    if option.kind == memory.FLAG:
        return click.Option([option.flag], is_flag=True, help=option.about)
    return click.Option(
        [option.flag], type=_KINDS[option.kind], help=option.about, metavar=option.metavar, required=option.required
    )


def _command(name: str, hot: memory.Command) -> click.Command:
    def callback(**values: Any) -> int:
        return hot.run(values)

    argument = click.Argument(
        [hot.argument],
        nargs=-1 if hot.many else 1,
        required=True,
        shell_complete=None if hot.many else complete_path,
    )
    options = [_option(option) for option in hot.options]
    return click.Command(name, params=[argument, *options], callback=callback, help=hot.about)


for _name, _hot in memory.COMMANDS.items():
    group.add_command(_command(_name, _hot))
for _command_line in (export.export, listing.list_documents, edit.edit):
    group.add_command(_command_line)
