"""`amux-hub` runs the Hub; `check-config` says what is wrong with a configuration, `doctor` with a Hub and its host."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence

from amux import __version__
from amux.errors import EXIT_OK, EXIT_USAGE
from amux_hub import config as configuration
from amux_hub.config import Config, ConfigError
from amux_hub.settings import shown

EXIT_PIPE = 141
"""128 + SIGPIPE, said in silence, as other tools do."""


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0, 1 when the Hub cannot start, 2 for wrong usage or configuration."""
    _occupy_standard_descriptors()
    try:
        return _run(_parser().parse_args(arguments))
    finally:
        _settle()


def _run(options: argparse.Namespace) -> int:
    env = dict(os.environ)
    if options.command == "check-config":
        return check_config(options.file or options.config, env, system=options.system, as_json=options.json)
    if options.command == "doctor":
        from amux_hub.doctor import command

        return command.main(options.config, env, system=options.system, as_json=options.json)
    from amux_hub import service

    return service.main(options.config, env, system=options.system)


def _occupy_standard_descriptors() -> None:
    """Put /dev/null in the place of each closed one, else the Hub's lock, a document or a connection would take its
    number, and what somebody prints would be written into it.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    # Python has none where the descriptor was closed.
    sys.stdout = sys.stdout or open(1, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115 - it lives as long as the process
    sys.stderr = sys.stderr or open(2, "w", errors="backslashreplace", closefd=False)  # noqa: SIM115


def _settle() -> None:
    """Throw away what a standard stream does not take, else the interpreter makes an exit status of its own of it."""
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="amux-hub",
        description="Run the memory Hub in the foreground, until TERM or Ctrl-C. HUP reads the configuration again.",
    )
    parser.add_argument("--version", action="version", version=f"amux-hub {__version__}")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="hub.yaml to use (default: $XDG_CONFIG_HOME/amux/hub.yaml, with --system /etc/amux/hub.yaml; "
        "it may be missing)",
    )
    parser.add_argument(
        "--system",
        action="store_true",
        help="be the Hub of this host, as amux-hub.service starts it: for all accounts, known by the kernel and PAM",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    check = commands.add_parser(
        "check-config",
        help="check hub.yaml and settings.yaml and show the values in force",
        description="Check hub.yaml (FILE, or the one that the Hub would use) and settings.yaml. "
        "Exit 2 with every problem, or 0 with the effective values.",
    )
    check.add_argument("file", metavar="FILE", nargs="?")
    check.add_argument("--json", action="store_true", help="print JSON")
    doctor = commands.add_parser(
        "doctor",
        help="look for what is wrong, and say how to mend it",
        description="Look at a Hub, its host and its memory; change nothing. Without --system or --config it is the "
        "Hub of this host where /etc/amux/hub.yaml exists and AMUX_HOME is not set, else your own. "
        "Exit 0 without problems, 1 with, 2 for wrong usage.",
    )
    # SUPPRESS: what stands before the word `doctor` counts too.
    doctor.add_argument("--system", action="store_true", default=argparse.SUPPRESS, help="the Hub of this host")
    doctor.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="the Hub with this hub.yaml")
    doctor.add_argument("--json", action="store_true", help="print JSON")
    return parser


def check_config(file: str | None, env: dict[str, str], *, system: bool, as_json: bool) -> int:
    """Print the problems, or `ok` and the effective values."""
    try:
        config = configuration.load(file, env, system=system)
    except ConfigError as error:
        if as_json:
            _print_json({"ok": False, "problems": [vars(problem) for problem in error.problems]})
        else:
            for problem in error.problems:
                sys.stderr.write(f"{problem}\n")
        return EXIT_USAGE
    if as_json:
        settings = {name: {"value": value, "source": config.source(name)} for name, value in config.values().items()}
        _print_json({"ok": True, "file": config.file, "settings": settings})
    else:
        text = "".join(_lines(config))
        _write(text.encode(sys.stdout.encoding, "backslashreplace"))
    return EXIT_OK


def _lines(config: Config) -> list[str]:
    there = os.path.exists(config.file)
    lines = [f"ok: {config.file}\n" if there else f"ok: there is no {config.file}, the defaults are in force\n"]
    for name, value in config.values().items():
        lines.append(f"{name} = {shown(value)}  [{config.source(name)}]\n")
    return lines


def _print_json(value: object) -> None:
    """UTF-8 whatever the locale says; a file's name may be any bytes, and what is no character is escaped."""
    data = json.dumps(value, ensure_ascii=False, indent=2).encode("utf-8", "backslashreplace") + b"\n"
    _write(data)


def _write(data: bytes) -> None:
    """To standard output. Whoever read it may have gone, or the disk behind it be full: then the process ends."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise SystemExit(EXIT_PIPE) from None
        raise SystemExit(f"amux-hub: cannot write the answer: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
