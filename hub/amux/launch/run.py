"""Run the agent, stay its parent, and end as it ended.

The agent has a process group of its own, so that all of it can be told to stop and to end, and the terminal while we
have it. Signals that reach us go to it. When we are killed it is told to end, whatever wrapper stands between, and
killed if it does not: the kernel's parent-death signal, and a guard (a child of ours in a session of its own) that
sees our end of a pipe close.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from amux.errors import AmuxError
from amux.launch.terminal import Terminal

PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 5.0
"""How long an agent whose launch was killed may take to end by itself."""
WATCH_SECONDS = 2.0

PASSED = frozenset(
    {
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
    }
)
"""Signals for us that the agent gets instead."""
STOPS = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
AWAITED = PASSED | STOPS | {signal.SIGCHLD, signal.SIGCONT}


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    lock: int | None = None,
    watch: Callable[[], bool] | None = None,
) -> int:
    """Run the agent to its end; its wait status. Raises `not_found` if it cannot be executed.

    It inherits our descriptors that are inheritable, the lock, umask, limits, working directory and signal mask.
    `watch` is called every WATCH_SECONDS until it answers True.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    terminal = Terminal()
    try:
        agent = _start(argv, environ, lock, terminal, before)
        with _guarded(agent.pid):
            status = _attend(agent, terminal, watch)
        terminal.take_back(agent.pid)
        terminal.restore(os.WIFSIGNALED(status))
        return status
    finally:
        terminal.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_as(status: int) -> int:
    """The exit status of a wait status; if the agent was killed by a signal, so are we, and this does not return."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
    return 128 + number


def _start(
    argv: Sequence[str],
    environ: Mapping[str, str],
    lock: int | None,
    terminal: Terminal,
    mask: set[signal.Signals] | set[int],
) -> subprocess.Popen[bytes]:
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()
    hand_over = terminal.foreground

    def become() -> None:  # in the child, already in its own process group, everything of AWAITED blocked
        if hand_over:
            terminal.give(os.getpid())
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # we were killed in between
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    if lock is not None:
        os.set_inheritable(lock, True)
    try:
        return subprocess.Popen(
            list(argv), env=dict(environ), close_fds=False, process_group=0, preexec_fn=become, restore_signals=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        if hand_over:
            terminal.give(os.getpgrp())
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise AmuxError("not_found", f"{argv[0]} cannot be run: {why}", path=argv[0]) from error


def _attend(agent: subprocess.Popen[bytes], terminal: Terminal, watch: Callable[[], bool] | None) -> int:
    """Wait for the agent's end, passing signals on; its wait status."""
    while True:
        if watch is None:
            number = signal.sigwaitinfo(AWAITED).si_signo
        else:
            told = signal.sigtimedwait(AWAITED, WATCH_SECONDS)
            if told is None:
                if watch():
                    watch = None
                continue
            number = told.si_signo
        if number == signal.SIGCHLD:
            pid, status = os.waitpid(agent.pid, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                continue
            if os.WIFSTOPPED(status):
                _stopped(agent.pid, terminal)
                continue
            agent.returncode = os.waitstatus_to_exitcode(status)  # reaped here, nobody is to wait for it again
            return status
        if number == signal.SIGCONT:
            if terminal.is_ours():
                terminal.give(agent.pid)
            _tell_group(agent.pid, signal.SIGCONT)
        elif number in STOPS:
            _tell_group(agent.pid, signal.SIGTSTP)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(agent.pid, number)


def _stopped(group: int, terminal: Terminal) -> None:
    """The agent was stopped (Ctrl-Z): so are we, all of our job, until our shell continues us."""
    if not terminal.there:
        return
    if os.getsid(os.getppid()) != os.getsid(0):
        _tell_group(group, signal.SIGCONT)  # no shell to continue us: the terminal runs us alone
        return
    _tell_group(os.getpgrp(), signal.SIGTSTP)  # blocked here; others of a pipeline or script stop with us
    os.kill(os.getpid(), signal.SIGSTOP)
    signal.sigtimedwait({signal.SIGTSTP}, 0)


def _tell_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


@contextlib.contextmanager
def _guarded(group: int) -> Iterator[None]:
    """A child that ends the agent's group if we are killed before this block is left."""
    reading, writing = os.pipe()
    guard = os.fork()
    if guard == 0:
        try:
            os.close(writing)
            _guard(reading, group)
        finally:
            os._exit(0)
    os.close(reading)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.write(writing, b".")
        os.close(writing)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(guard, 0)


def _guard(pipe: int, group: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.closerange(3, pipe)
    os.closerange(pipe + 1, 65536)
    if os.read(pipe, 1):
        return
    for number in (signal.SIGTERM, signal.SIGCONT):
        _tell_group(group, number)
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except OSError:
            return
        time.sleep(0.05)
    _tell_group(group, signal.SIGKILL)
