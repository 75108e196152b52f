"""`amux`: chooses the hot path or click, before either is imported.

Promises that a hot command never pays for click: `amux mcp`, `amux dial-stdio` and the four operations of
`amux memory` go straight to their modules. What those do not understand, `--help` first of all, goes to click.
"""

from __future__ import annotations

import sys

HOT_MEMORY = ("search", "show", "upsert", "forget")


def main(argv: list[str] | None = None) -> int:
    """Run `amux` with these arguments (default: the process's own); the exit status."""
    if argv is None:
        argv = sys.argv[1:]
    try:
        status = _hot(argv)
        if status is None:
            from amux import cli

            status = cli.main(argv)
    except KeyboardInterrupt:
        status = 130
    return status


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
