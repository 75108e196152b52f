"""`amux-hub doctor`: which Hub is meant, the report, the exit status."""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Mapping

from amux.errors import EXIT_OK
from amux_hub import config as configuration
from amux_hub.doctor import host as hosts
from amux_hub.doctor import report
from amux_hub.doctor.check import results
from amux_hub.doctor.checks import CHECKS
from amux_hub.doctor.finding import PROBLEM
from amux_hub.doctor.host import Host

EXIT_PROBLEM = 1


def is_system(file: str | None, env: Mapping[str, str], *, system: bool) -> bool:
    """Which Hub is meant where nobody says it."""
    if system or file is not None:
        return system or os.path.abspath(str(file)) == configuration.SYSTEM_FILE
    return not env.get("AMUX_HOME") and os.path.lexists(configuration.SYSTEM_FILE)


def main(file: str | None, env: dict[str, str], *, system: bool, as_json: bool) -> int:
    """Run all checks and print the report: 0, or 1 if there is a problem."""
    system = is_system(file, env, system=system)
    with contextlib.suppress(BrokenPipeError):
        return run(hosts.load(file, env, system=system), as_json=as_json)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # who read it has gone, and what is buffered must go somewhere
    return EXIT_PROBLEM


def run(host: Host, *, as_json: bool) -> int:
    counts: Counter[str] = Counter()
    if as_json:
        found = list(results(CHECKS, host))
        counts.update(result.outcome for result in found)
        sys.stdout.buffer.write(report.encode(report.as_json(host, found)))
    else:
        coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
        _say(report.heading(host))
        for result in results(CHECKS, host):
            counts[result.outcome] += 1
            for line in report.lines(result, coloured=coloured):
                _say(line)
        _say(report.closing(counts))
    sys.stdout.flush()
    return EXIT_PROBLEM if counts[PROBLEM] else EXIT_OK


def _say(line: str) -> None:
    """At once, since a check may take a while; what the terminal cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.buffer.write(line.encode(encoding, "backslashreplace") + b"\n")
    sys.stdout.buffer.flush()
