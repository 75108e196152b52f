"""The real server with judges that misbehave as a test wants; run as `python -m tests.pam.stub FD SECONDS PEER DIR`.

What a UID means stands in `misbehave`. DIR holds the gate that some wait for, and the socket to which others report:
a verdict can write no file.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
import time
from pathlib import Path

from amux_pam import child, server
from amux_pam.audit import Audit
from amux_pam.judge import Verdict, judge

ALLOWED, EXPIRED, SLEEPS, EXITS, DIES, RAISES, HALF, LIES, STRAY, WAITS, SHOWS, ODD = range(1000, 1012)
REQUEST_SECONDS = 0.5


def misbehave(uid: int) -> Verdict:  # noqa: C901 - one case for each way
    here = Path(sys.argv[4])
    match uid:
        case 1001:
            return Verdict("expired", "PAM answered 13", "bob")
        case 1002:
            _report(os.getpid())
            while True:
                time.sleep(600)
        case 1003:
            os._exit(7)
        case 1004:
            os.write(child.PIPE, child.encode(Verdict("allow")))
            os.kill(os.getpid(), signal.SIGSEGV)
        case 1005:
            raise ValueError("a module's fault")
        case 1006:
            os.write(child.PIPE, b"allow")
            os._exit(0)
        case 1007:
            return Verdict("allow\nallow")
        case 1008:
            _leave_a_daemon()
        case 1009:
            while not (here / "gate").exists():
                time.sleep(0.01)
        case 1010:
            _report(_seen())
        case 1011:
            return Verdict("denied", "PAM answered 7", "CORP\\al\nice\u202e")
    return Verdict("allow", "PAM answered 0", "alice")


def _report(what: object) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(json.dumps(what).encode(), f"{sys.argv[4]}/report")


def _leave_a_daemon() -> None:
    """As daemon(3) does: of no session, no child of the verdict, and it ignores what can be ignored."""
    if first := os.fork():
        os.waitpid(first, 0)
        return
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if second := os.fork():
        _report(second)
        os._exit(0)
    while True:
        time.sleep(600)


def _seen() -> dict[str, object]:
    kinds = ("CORE", "FSIZE", "NOFILE", "CPU", "AS")
    limits = {kind: resource.getrlimit(getattr(resource, f"RLIMIT_{kind}")) for kind in kinds}
    fds = {}
    for fd in range(256):
        try:
            fds[fd] = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
    handlers = [signal.getsignal(number) is signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGCHLD)]
    return {"limits": limits, "fds": fds, "default": handlers, "dumpable": child._prctl(3, 0, 0, 0, 0)}


def main() -> None:
    fd, seconds, peer, _ = sys.argv[1:]
    server.REQUEST_SECONDS = REQUEST_SECONDS
    chosen = judge if os.environ.get("JUDGE") == "real" else misbehave
    server.Server(socket.socket(fileno=int(fd)), {int(peer)}, chosen, Audit(), float(seconds)).run()


if __name__ == "__main__":
    main()
