"""`amux-pam`: prove that PAM can be asked, then serve the socket that the service manager passed.

Status 0 after SIGTERM, 1 and one line where it must not or cannot run, 2 for a wrong command line.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import sys

from amux_pam import child, judge, libpam, manager, service_file
from amux_pam.audit import Audit, escape
from amux_pam.server import Server

ACCOUNT = "amux"
"""The account of the Hub, the only one beside root that is answered."""

SHADOW = "/etc/shadow"
WAITING = 256
"""More than Backlog= of amux-pam.socket lets wait; who comes on and on does not keep a failed start alive."""

USAGE = "usage: amux-pam [--self-test]"


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments not in ([], ["--self-test"]):
        sys.stderr.write(f"{USAGE}\n")
        return 2
    try:
        if arguments:
            self_test()
            sys.stdout.write("amux-pam: the account stack of the service amux can be asked\n")
        else:
            serve()
    except (libpam.PamError, service_file.UnfitError, manager.UnfitError, OSError) as error:
        sys.stderr.write(escape(f"amux-pam: {error}") + "\n")
        return 1
    return 0


def self_test() -> None:
    """Raises what `main` reports. In a child: a libffi that needs writable code would end the process that tries."""
    service_file.check()
    _shadow()
    pid = os.fork()
    if pid == 0:
        child.attempt(libpam.self_test)
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise libpam.PamError(
            "PAM cannot call back into this Python (the line above, or the journal, says why): "
            "`amux-pam --self-test` outside its unit shows whether MemoryDenyWriteExecute= is the reason"
        )


def _shadow() -> None:
    """Where nobody may open the shadow file, pam_unix(8) refuses every local account: better not to start (C32)."""
    try:
        os.close(os.open(SHADOW, os.O_RDONLY | os.O_CLOEXEC))
    except FileNotFoundError:
        return
    except PermissionError:
        raise libpam.PamError(
            f"{SHADOW} cannot be opened, so every local account would be refused: run it as root; where the file has "
            "mode 0000, `systemctl edit amux-pam` and set CapabilityBoundingSet=CAP_DAC_READ_SEARCH"
        ) from None


def serve() -> None:
    """Until SIGTERM. READY once everything that can be checked was, so that a start that fails is seen at once."""
    listener = manager.listener()
    os.closerange(manager.FIRST_FD + 1, child.MAX_FD)  # nothing else that was inherited
    try:
        server, notify = _ready(listener)
    except BaseException:
        _turn_away(listener)
        raise
    notify.say("READY=1")
    server.run()
    with contextlib.suppress(OSError):  # a manager that is gone hears nothing, and the work is done
        notify.say("STOPPING=1")


def _ready(listener: socket.socket) -> tuple[Server, manager.Notifier]:
    notify = manager.notifier()
    try:
        hub = pwd.getpwnam(ACCOUNT).pw_uid
    except KeyError:
        raise manager.UnfitError(
            f"there is no account {ACCOUNT}: make it with `systemd-sysusers amux.conf`, then start amux-pam again"
        ) from None
    audit = Audit()
    os.environ.clear()  # PAM modules and name services look into it
    os.umask(0o077)
    os.chdir("/")
    child.undumpable()
    libpam.log_as_amux_pam()
    self_test()
    return Server(listener, {0, hub}, judge.judge, audit), notify


def _turn_away(listener: socket.socket) -> None:
    """Hang up on those who wait: the next start may fail too, and no answer at once is better than none after long."""
    listener.setblocking(False)
    with contextlib.suppress(OSError):
        for _ in range(WAITING):
            listener.accept()[0].close()


if __name__ == "__main__":
    sys.exit(main())
