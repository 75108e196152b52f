"""`amux completion`: the script that makes a shell complete `amux`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from amux import output
from amux.errors import EXIT_OK

VARIABLE = "_AMUX_COMPLETE"
"""What click looks for when the script asks for completions: it is derived from the name `amux`."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> int:
    """Print the completion script of a shell.

    \b
    bash: mkdir -p ~/.local/share/bash-completion/completions
          amux completion bash > ~/.local/share/bash-completion/completions/amux
    zsh:  amux completion zsh > "${fpath[1]}/_amux"
    fish: mkdir -p ~/.config/fish/completions
          amux completion fish > ~/.config/fish/completions/amux.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.get_current_context().find_root().command, {}, "amux", VARIABLE).source()
    script = script.replace('string split "," ', 'string split --max 1 "," ')  # fish: a description may hold a comma
    output.write(1, script.encode() + b"\n")
    return EXIT_OK
