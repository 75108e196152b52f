"""The child that runs one verdict: what it gives up first, and how its verdict gets home.

Promises: it holds no descriptor but the pipe, dies with its parent, dumps no core, grows no file, and ends through
_exit(2), whatever happens. What comes through the pipe is data for the parent to check, not a verdict to believe.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from amux_pam.judge import UNAVAILABLE, WORDS, Verdict

PIPE = 3
MAX_FD = 0x7FFFFFFF
MESSAGE_BYTES = 1024
"""Below PIPE_BUF, pipe(7): one write, never in part."""

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 1, 4, 36
_LIMITS = (
    (resource.RLIMIT_CORE, 0),
    (resource.RLIMIT_FSIZE, 0),  # an account stack has nothing to write but to syslog
    (resource.RLIMIT_NOFILE, 64),
    (resource.RLIMIT_CPU, 10),
    (resource.RLIMIT_AS, 1 << 30),  # sssd(8) and the like map their caches
)
_prctl = ctypes.CDLL(None, use_errno=True).prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


def _control(option: int, value: int) -> None:
    if _prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")


def undumpable() -> None:
    """No core, and no reading of this process's memory by others of its UID, prctl(2). Forked children inherit it."""
    _control(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """What a module leaves behind becomes a child of this process, PR_SET_CHILD_SUBREAPER(2const)."""
    _control(_PR_SET_CHILD_SUBREAPER, 1)


def run(judge: Callable[[int], Verdict], uid: int, pipe: int, parent: int) -> NoReturn:
    """Everything that the child does. `pipe` is written once."""
    status = 1
    try:
        _confine(pipe, parent)
        try:
            verdict = judge(uid)
        except Exception as error:  # noqa: BLE001 - the parent shall say what it was
            verdict = Verdict(UNAVAILABLE, f"{type(error).__name__}: {error}")
        os.write(PIPE, encode(verdict))
        status = 0
    finally:
        os._exit(status)


def _confine(pipe: int, parent: int) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    _control(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it died before the line above
    undumpable()
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    safe = fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, PIPE + 1)  # out of the way of what follows
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.dup2(safe, PIPE, inheritable=False)
    os.closerange(PIPE + 1, MAX_FD)
    for kind, most in _LIMITS:
        hard = resource.getrlimit(kind)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (value, value))


def attempt(action: Callable[[], None]) -> NoReturn:
    """Run `action` in a child that ends within 10 s: status 0, or a line on standard error and 1."""
    status = 1
    try:
        signal.alarm(10)
        action()
        status = 0
    except Exception as error:  # noqa: BLE001 - whatever it is, the child ends here
        sys.stderr.write(f"amux-pam: {error}\n")
        sys.stderr.flush()
    finally:
        os._exit(status)


def encode(verdict: Verdict) -> bytes:
    """Three fields, NUL between them and at the end; long ones lose their end."""
    fields = (text.replace("\0", " ").encode("utf-8", "backslashreplace")[:300] for text in verdict)
    return b"".join(field + b"\0" for field in fields)


def decode(message: bytes, status: int) -> Verdict:
    """What a child that ended with `status`, waitpid(2), said: believed only if it is whole, and the end was good."""
    if os.WIFSIGNALED(status):
        return Verdict(UNAVAILABLE, f"the child was ended by signal {os.WTERMSIG(status)}")
    if status != 0:
        return Verdict(UNAVAILABLE, f"the child ended with status {os.waitstatus_to_exitcode(status)}")
    fields = message.split(b"\0")
    if len(fields) != 4 or fields[3]:
        return Verdict(UNAVAILABLE, "the child said nothing that can be read")
    word, detail, name = (field.decode("utf-8", "backslashreplace") for field in fields[:3])
    return Verdict(word, detail, name) if word in WORDS else Verdict(UNAVAILABLE, "the child gave no verdict")
