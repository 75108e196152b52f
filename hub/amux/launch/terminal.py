"""The controlling terminal of a launch: handed to the agent's process group, taken back, left as it was."""

from __future__ import annotations

import os
import termios
from typing import Any

UNDO = b"\x1b[?25h\x1b[?2004l\x1b[?1004l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[0m"
"""Shows the cursor; ends bracketed paste, focus and mouse reports, key reports, the second screen, colours: what a
screen program that was killed leaves behind (xterm's control sequences)."""


class Terminal:
    """The controlling terminal, if there is one. `foreground`: we were in the foreground when the launch began.

    SIGTTOU must be blocked while this is used: it is what a background process is sent that changes a terminal.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        self._saved: list[Any] | None = None
        try:
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            self._saved = termios.tcgetattr(self._fd)
        except (OSError, termios.error):
            self.close()
        self.foreground = self.is_ours()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    @property
    def there(self) -> bool:
        return self._fd is not None

    def is_ours(self) -> bool:
        """Whether our own process group is in the foreground."""
        return self._has(os.getpgrp())

    def _has(self, group: int) -> bool:
        try:
            return self._fd is not None and os.tcgetpgrp(self._fd) == group
        except OSError:
            return False

    def give(self, group: int) -> None:
        """Put a process group of our session into the foreground."""
        if self._fd is not None:
            try:
                os.tcsetpgrp(self._fd, group)
            except OSError:
                return  # the terminal hung up, or the group is gone

    def take_back(self, group: int) -> None:
        """Put ourselves where the agent's group is, if it has the terminal."""
        if self._has(group):
            self.give(os.getpgrp())

    def restore(self, killed: bool) -> None:
        """The line settings of before; if the agent was killed, also what a screen program would have undone."""
        if self._fd is None or self._saved is None or not self.is_ours():
            return
        try:
            if killed and os.environ.get("TERM", "dumb") != "dumb":
                os.write(self._fd, UNDO)
            termios.tcsetattr(self._fd, termios.TCSADRAIN, self._saved)
        except (OSError, termios.error):
            return
