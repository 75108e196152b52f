"""`amux`: chooses the hot path or click, before either is imported.

Promises that a hot command pays neither for click nor for an orderly end of the interpreter: `amux mcp`,
`amux dial-stdio` and the four operations of `amux memory` go straight to their modules. What those do not
understand, `--help` first of all, goes to click.
"""

from __future__ import annotations

import os
import sys

HOT_MEMORY = ("search", "show", "upsert", "forget")


def main(argv: list[str] | None = None) -> int:
    """Run `amux` with these arguments (default: the process's own); the exit status."""
    own = argv is None
    argv = sys.argv[1:] if argv is None else argv
    _occupy_standard_descriptors()
    try:
        status = _launched(argv) or _hot(argv)
        if own and status is not None and argv[:1] == ["memory"]:
            # Nothing is buffered, and taking the interpreter apart is a sixth of the whole run.
            os._exit(status)
        if status is None:
            from amux import cli

            status = cli.main(argv)
    except KeyboardInterrupt:
        status = 130
    return status


def _occupy_standard_descriptors() -> None:
    """Put something in the place of each closed one, else a connection to the Hub would take its number and
    the answer, or an error, would be written into it. What is put there still refuses to be read or written.
    """
    for fd, useless in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, useless)  # takes the lowest free number


def _launched(argv: list[str]) -> int | None:
    """The copy of a launch takes its Hub from the file beside it; the status to end with, if that file is wrong."""
    if not sys.argv[0].endswith("/amux.pyz"):
        return None
    from amux import launched, output

    return output.guarded(launched.settle, "--json" in argv) or None


def _hot(argv: list[str]) -> int | None:
    match argv:
        case ["memory", name, *rest] if name in HOT_MEMORY:
            from amux import memory

            return memory.main(name, rest)
        case ["mcp"]:
            from amux import relay

            return relay.main([])
        case ["dial-stdio", *rest] if rest in ([], ["--mcp"]):
            from amux import dial

            return dial.main(rest)
    return None


if __name__ == "__main__":
    sys.exit(main())
