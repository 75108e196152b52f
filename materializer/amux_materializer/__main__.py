"""`amux-materializer`: check what can be checked, then serve the socket that the service manager passed.

Status 0 after SIGTERM, 1 and one line where it must not or cannot run, 2 for a wrong command line.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import sys

from amux_materializer import become, child, manager, place
from amux_materializer.audit import Audit, escape
from amux_materializer.request import RefusedError
from amux_materializer.server import Server

ARCHIVE = "/usr/lib/amux/amux.pyz"
LAUNCHES = "/run/amux-launches"
LOGIN_DEFS = "/etc/login.defs"
UID_MIN = 1000
"""Of login.defs(5), where the host says nothing else."""


def main(arguments: list[str] | None = None) -> int:
    if sys.argv[1:] if arguments is None else arguments:
        sys.stderr.write("usage: amux-materializer\n")
        return 2
    try:
        serve()
    except RefusedError as refused:
        return _failed(refused.message)
    except (manager.UnfitError, place.UnfitError, OSError) as error:
        return _failed(str(error))
    return 0


def _failed(text: str) -> int:
    sys.stderr.write(escape(f"amux-materializer: {text}") + "\n")
    return 1


def serve() -> None:
    """Until SIGTERM. READY once everything that can be checked was, so that a start that fails is seen at once."""
    listener = manager.listener()
    os.closerange(manager.FIRST_FD + 1, child.MAX_FD)  # nothing else that was inherited
    notify = manager.notifier()
    audit = Audit()
    prepare()
    os.close(child.open_archive(ARCHIVE, 0))
    server = Server(listener, place.Place(LAUNCHES), ARCHIVE, audit, uid_min())
    server.sweep()
    notify.say("READY=1")
    server.run()
    with contextlib.suppress(OSError):  # a manager that is gone hears nothing, and the work is done
        notify.say("STOPPING=1")


def prepare() -> None:
    """What the children inherit is nothing, nobody looks into this process, and signals reach it."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    forget_environment()
    os.umask(0o077)
    os.chdir("/")
    become.undumpable()


def forget_environment() -> None:
    """Also the block that execve(2) made, which proc_pid_environ(5) shows of each child for ever."""
    os.environ.clear()
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = map(int, fields[47:49])  # env_start and env_end, fields 50 and 51 of proc_pid_stat(5)
    ctypes.memset(start, 0, end - start)


def uid_min(path: str = LOGIN_DEFS) -> int:
    """The first UID that is a person's. Never 0."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.findall(r"^[ \t]*UID_MIN[ \t]+([0-9]{1,9})[ \t]*$", file.read(1 << 20), re.MULTILINE)
    except FileNotFoundError:
        found = []
    return max(1, int(found[-1])) if found else UID_MIN


if __name__ == "__main__":
    sys.exit(main())
