"""The stage of the demo: a temporary home, a private Hub in it, and commands run as at a terminal.

Every command is shown as one would type it, then its real answer. A command that does not answer as told ends
the demo with status 1.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

WAIT = 30.0
"""Seconds for the Hub to start or stop before the demo gives up."""

BIN = Path(sys.executable).parent


class NotAsToldError(Exception):
    """Something happened that the demo does not promise."""


def tell(text: str) -> None:
    print(text, flush=True)


def heading(text: str) -> None:
    tell(f"\n━━ {text}\n")


class Stage:
    """A working directory, a home and a Hub; all of it is gone after the `with` block."""

    def __init__(self) -> None:
        # Short: the path of a Unix socket has at most 107 bytes.
        self.directory = Path(tempfile.mkdtemp(prefix="amux-demo-", dir="/tmp"))
        self.home = self.directory / "home"
        self.work = self.directory / "work"
        self.work.mkdir()
        self.log = self.directory / "hub.log"
        self.hub: subprocess.Popen[bytes] | None = None
        unwanted = ("AMUX_", "XDG_", "LISTEN_", "NOTIFY_", "PYTHON")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
        self.env |= {"AMUX_HOME": str(self.home), "PATH": f"{BIN}:{os.environ.get('PATH', '/usr/bin:/bin')}"}
        # No hub.yaml of the person who looks on: what is told here must not depend on it.
        self.env["XDG_CONFIG_HOME"] = str(self.directory / "config")
        if not sys.stdout.isatty():
            self.env["TERM"] = "dumb"

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.hub is not None:
            self.hub.kill()
            self.hub.wait()
        if error is not None and self.log.exists():
            tell(f"\nWhat the Hub logged:\n{self.log.read_text(errors='replace')}")
        shutil.rmtree(self.directory, ignore_errors=True)

    def write(self, name: str, text: str) -> None:
        (self.work / name).write_text(text, encoding="utf-8")

    def start_hub(self) -> None:
        tell("$ amux-hub &")
        with self.log.open("ab") as log:
            self.hub = subprocess.Popen(
                [str(BIN / "amux-hub")],
                env=self.env,
                cwd=self.work,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._until(lambda: self._quietly("amux status") == 0, "the Hub answers")

    def stop_hub(self) -> None:
        tell("$ kill -TERM %1          # amux-hub finishes what runs, then ends")
        assert self.hub is not None
        self.hub.send_signal(signal.SIGTERM)
        try:
            status = self.hub.wait(WAIT)
        except subprocess.TimeoutExpired:
            raise NotAsToldError(f"the Hub still runs {WAIT:g} s after TERM") from None
        self.hub = None
        if status != 0:
            raise NotAsToldError(f"the Hub ended with status {status}, not 0")

    def run(self, command: str, *, status: int = 0, answer: str = "", show: int = 12) -> str:
        """Show and run one command line (no shell); its whole answer, standard error included.

        `status` and `answer` are what must come: the exit status, and a regular expression in the answer. Of a
        long answer the first and last lines are shown, `show` in all.
        """
        tell(f"$ {command}")
        found, text = self._at_terminal(shlex.split(command))
        lines = text.rstrip("\n").splitlines() if text.strip() else []
        if len(lines) > show:
            head, tail = lines[: show - 4], lines[-3:]
            lines = [*head, f"   [… {len(lines) - show + 1} more lines of this answer, not shown here …]", *tail]
        for line in lines:
            tell(line)
        if status:
            tell(f"   [exit status {found}]")
        tell("")
        if found != status:
            raise NotAsToldError(f"exit status {found} instead of {status}: {command}")
        if not re.search(answer, text):
            raise NotAsToldError(f"the answer has no {answer!r}: {command}")
        return text

    def revision(self, text: str) -> str:
        """The revision that an answer named."""
        found = re.search(r"revision ([0-9a-f]{64})", text)
        if found is None:
            raise NotAsToldError("the answer names no revision")
        return found.group(1)

    def capture(self, *command: str) -> bytes:
        """What a command writes to a pipe, for comparing; not shown."""
        done = subprocess.run(command, env=self.env, cwd=self.work, capture_output=True, check=False)
        if done.returncode != 0:
            raise NotAsToldError(f"{shlex.join(command)}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def _at_terminal(self, command: list[str]) -> tuple[int, str]:
        """Run with a pseudo-terminal, so that the answer is the one that a person sees."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            command, env=self.env, cwd=self.work, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        data = b""
        with contextlib.suppress(OSError):  # EIO: the last holder of the other end has closed it
            while part := os.read(ours, 65536):
                data += part
        os.close(ours)
        return process.wait(WAIT), data.decode("utf-8", "replace").replace("\r\n", "\n")

    def _quietly(self, command: str) -> int:
        quiet = subprocess.DEVNULL
        return subprocess.call(shlex.split(command), env=self.env, stdin=quiet, stdout=quiet, stderr=quiet)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WAIT
        while not condition():
            if self.hub is not None and self.hub.poll() is not None:
                raise NotAsToldError(f"the Hub ended with status {self.hub.returncode} before {what}")
            if time.monotonic() > deadline:
                raise NotAsToldError(f"{WAIT:g} s passed before {what}")
            time.sleep(0.05)
