"""A shell of one job, for the tests of terminals: leader of a session, with job control and nothing else.

    python shell.py TTY OUT IN COMMAND...

Runs the command in the foreground of the terminal TTY. Writes a line to the descriptor OUT whenever the job stops
(`stopped SIGNAL`) or ends (`ended STATUS same|changed`: whether the terminal's settings are those of before), having
taken the terminal back; then reads a line from IN: `fg` or `bg` continues the job, anything else ends it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import termios


def main(tty_path: str, out: int, commands: int, command: list[str]) -> None:
    os.setsid()
    tty = os.open(tty_path, os.O_RDWR)
    fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    for fd in (0, 1, 2):
        os.dup2(tty, fd)
    before = termios.tcgetattr(tty)
    own = os.getpgrp()
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(tty, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        for fd in (tty, out, commands):
            os.close(fd)
        os.execv(command[0], command)
    os.write(out, f"job {job}\n".encode())
    while True:
        _, status = os.waitpid(job, os.WUNTRACED)
        os.tcsetpgrp(tty, own)
        if not os.WIFSTOPPED(status):
            same = "same" if termios.tcgetattr(tty) == before else "changed"
            os.write(out, f"ended {os.waitstatus_to_exitcode(status)} {same}\n".encode())
            return
        os.write(out, f"stopped {os.WSTOPSIG(status)}\n".encode())
        wanted = os.read(commands, 100).strip()
        if wanted == b"fg":
            os.tcsetpgrp(tty, job)
        elif wanted != b"bg":
            os.killpg(job, signal.SIGKILL)
        os.killpg(job, signal.SIGCONT)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
