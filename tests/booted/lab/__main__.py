"""`make lab`: a shell, or one command, in a freshly booted system that is gone afterwards.

Examples: make lab ARGS="--suite trixie"; make lab ARGS="--deb amux-hub.deb -- systemctl status amux-hub".
The checkout is at /mnt/src, read-only.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.booted.lab import enter, image
from tests.booted.lab.machine import ROOT, Machine
from tests.booted.lab.recipe import SUITES
from tests.booted.lab.trouble import LabError, require, say


def main(arguments: list[str]) -> int:
    """The status of the command or of the shell."""
    parser = argparse.ArgumentParser(
        prog="make lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", choices=SUITES, default="bookworm", help="default: %(default)s")
    parser.add_argument("--deb", type=Path, action="append", default=[], help="install this package first")
    parser.add_argument("--user", help="run as this account instead of root")
    parser.add_argument("--images", action="store_true", help="only build the images of all suites")
    parser.add_argument("command", nargs="*", help="after --; without one, a shell")
    options = parser.parse_args(arguments)
    try:
        require()
        if options.images:
            for suite in SUITES:
                image.ensure(suite)
            return 0
        with Machine(options.suite, binds={ROOT: "/mnt/src"}) as machine:
            say(f"{machine.name}: {SUITES[machine.suite]}, {machine.state}")
            for deb in options.deb:
                machine.install(deb)
            return _inside(machine, options.user, options.command)
    except (LabError, AssertionError) as error:
        print(error, file=sys.stderr)
        return 1


def _inside(machine: Machine, user: str | None, command: list[str]) -> int:
    prefix = enter.inside(machine.leader, {"TERM": os.environ.get("TERM", "dumb")})
    if not command and os.isatty(0):
        # In a unit the shell has a terminal of the machine, so that tty, sudo and job control work.
        account = [f"--uid={user}"] if user else []
        full = [*prefix, "systemd-run", "--quiet", "--pty", "--wait", "--collect", *account, "--", "bash", "-l"]
    else:
        full = [*prefix, *enter.become(user), *(command or ["bash", "-l"])]
    process = subprocess.Popen(full)
    # Ctrl-C is for what runs inside.
    former = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        status = process.wait()
    finally:
        signal.signal(signal.SIGINT, former)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
