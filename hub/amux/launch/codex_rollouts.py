"""Codex's records of conversations, `$CODEX_HOME/sessions/YYYY/MM/DD/rollout-TIME-ID.jsonl`: read, never written.

The id is a UUID of version 7, so its name alone says when a conversation began; the first line says where, and whether
it is a child's.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator

from amux.launch import files

NAME = re.compile(r"rollout-.*-([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})\.jsonl")
READ_BYTES = 1024 * 1024
"""The first line holds Codex's base instructions; what the model was told first follows it."""
DAY_SECONDS = 24 * 3600


def begun(home: str, directory: str | None, marker: str, since: float) -> str | None:
    """The id of the one conversation that began after `since`, in this directory (None: in any), and whose model was
    told `marker`. Where several launches began such ones, the one that a program of ours holds open; None if unsure."""
    found = {path: native for path, native in _new(home, since) if _matches(path, native, directory, marker)}
    if len(found) > 1:
        held = _held_by_descendants()
        found = {path: native for path, native in found.items() if os.path.realpath(path) in held}
    return next(iter(found.values())) if len(found) == 1 else None


def _new(home: str, since: float) -> Iterator[tuple[str, str]]:
    """Path and id of each record that is younger than `since`. Their directories are named by the local date."""
    days = {time.strftime("%Y/%m/%d", time.localtime(moment)) for moment in (since, since + DAY_SECONDS, time.time())}
    for day in sorted(days):
        directory = os.path.join(home, "sessions", day)
        try:
            names = os.listdir(directory)
        except OSError:
            continue
        for name in names:
            match = NAME.fullmatch(name)
            if match and int(match[1].replace("-", "")[:12], 16) >= int(since * 1000):
                yield os.path.join(directory, name), match[1]


def _matches(path: str, native: str, directory: str | None, marker: str) -> bool:
    try:
        data = files.read(path, READ_BYTES)
        meta = json.loads(data.partition(b"\n")[0])["payload"]
        child = not isinstance(meta["source"], str)
        here = directory is None or os.path.realpath(meta["cwd"]) == directory
        return meta["id"] == native and not child and here and marker.encode() in data
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False  # not yet written so far


def _held_by_descendants() -> set[str]:
    """The files that programs below this one have open."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it ended
    held = set()
    for pid in parents:
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            held |= set(_open_files(pid))
    return held


def _open_files(pid: int) -> Iterator[str]:
    try:
        with os.scandir(f"/proc/{pid}/fd") as found:
            for entry in found:
                yield os.readlink(entry.path)
    except OSError:
        return
