"""This account's own notes of its launches, `~/.local/state/amux/launches/<session>.json`, 0600.

The Hub keeps the launch state; a note is what a conversation is resumed with when the Hub does not answer, so that
even then it keeps its protocol and its own memory stays off. It holds what the Hub said and no memory. Where the home
cannot be written there is no note, and nothing else changes.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import asdict

from amux.errors import AmuxError
from amux.launch import files, values
from amux.launch.values import Session

PLACE = ".local/state/amux/launches"
KEPT = 256
"""Notes that are kept, the newest."""
NOTE_BYTES = 4096


def save(home: str, session: Session) -> None:
    """Write or replace the note of a session, and drop the oldest of too many."""
    directory = os.path.join(home, PLACE)
    note = {**asdict(session), "session": session.id}
    unfinished = os.path.join(directory, f".{session.id}.{os.getpid()}")
    with contextlib.suppress(OSError):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(json.dumps(note).encode())
        os.replace(unfinished, os.path.join(directory, f"{session.id}.json"))
        _prune(directory)


def load(home: str, session: str) -> Session | None:
    """The note of a session, matched as strictly as an answer of the Hub; None if there is none that holds."""
    path = os.path.join(home, PLACE, f"{session}.json")
    try:
        note = json.loads(files.read(path, NOTE_BYTES, follow=False))
        return values.state(note, session) if isinstance(note, dict) else None
    except (OSError, ValueError, RecursionError, AmuxError):
        return None


def _prune(directory: str) -> None:
    found = [entry for entry in os.scandir(directory) if entry.name.endswith(".json")]
    found.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime, reverse=True)
    for entry in found[KEPT:]:
        os.unlink(entry.path)
