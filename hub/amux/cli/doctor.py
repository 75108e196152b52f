"""`amux doctor`: becomes `amux-hub doctor`, where the checks live. Nothing of the Hub is imported here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

from amux.errors import AmuxError

PROGRAM = "amux-hub"
INSTALLED = "/usr/lib/amux/bin/amux-hub"


@click.command(short_help="Look for what is wrong, and say how to mend it.")
@click.option("--system", is_flag=True, help="The Hub of this host; the default where /etc/amux/hub.yaml exists.")
@click.option("--config", metavar="FILE", help="The Hub with this hub.yaml.")
@click.option("--json", "json", is_flag=True, help="Print JSON.")
def doctor(system: bool, config: str | None, json: bool) -> int:
    """Look at the Hub, its host and its memory, and say what is wrong and how to mend it; change nothing.

    Works without a running Hub. As root it sees everything; what you may not see is skipped, by name. Exit 0
    without problems, 1 with.
    """
    options = [*(["--system"] if system else []), *(["--config", config] if config is not None else [])]
    program = find()
    try:
        # In our place: its output, exit status and signals are ours.
        os.execv(program, [program, "doctor", *options, *(["--json"] if json else [])])  # noqa: S606
    except OSError as error:
        raise AmuxError("hub_unavailable", f"{program} cannot be run: {error.strerror}", path=program) from error


def find() -> str:
    """The `amux-hub` of this installation, else the system's, else the first on PATH. Raises `hub_unavailable`."""
    for path in _candidates():
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise AmuxError(
        "hub_unavailable",
        "amux doctor needs the Hub's own program, and there is no amux-hub here: install the package amux-hub "
        "(sudo apt install amux-hub), or pip install amux-hub beside this amux",
    )


def _candidates() -> Iterator[str]:
    yield os.path.join(os.path.dirname(sys.executable), PROGRAM)
    if os.path.isabs(sys.argv[0]):
        yield os.path.join(os.path.dirname(os.path.realpath(sys.argv[0])), PROGRAM)
    yield INSTALLED
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(directory):  # never from the working directory
            yield os.path.join(directory, PROGRAM)
