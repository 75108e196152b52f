"""Whose each directory of memory is: what its mark says, against the name under which it lies (D7)."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from amux_hub.doctor.finding import Findings, shell
from amux_hub.store import owner
from amux_hub.store.root import USERS, scope_location

if TYPE_CHECKING:
    from amux_hub.doctor.survey import Subject

_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ONE = "the mark of the memory that belongs there"


def judge(subject: Subject, found: Findings, fd: int, location: list[str], label: str) -> None:
    """`fd` is the directory at `location` below `memory`, `label` the name of the memory that belongs there."""
    memory = os.path.join(subject.home, "memory")
    place = os.path.join(memory, *location)
    data = _read(fd)
    if data is None and len(location) > 1 and not owner.is_empty(fd):
        data = _read(fd)  # a first write may just have marked it
        if data is None:
            found.problem("unmarked", label, "no mark: it is not served", _ONE, _marking(subject, location, place))
    if data is None:
        return
    says = _scope(data)
    if says is None:
        fix = _marking(subject, location, place) if len(location) > 1 else f"{subject.sudo}rm -- {_mark(place)}"
        found.problem("damaged", label, "a mark that names no memory: it is not served", _ONE, fix)
    elif (right := scope_location(says)) != location:
        fix = _moving(subject, memory, location, right)
        found.problem("moved", label, f"the memory {says}, says its mark: it is served to nobody", _ONE, fix)


def _moving(subject: Subject, memory: str, location: list[str], right: list[str]) -> str:
    """How a directory comes to where its mark says that it belongs."""
    here, there = os.path.join(memory, *location), os.path.join(memory, *right)
    if not os.path.lexists(there):
        return f"{subject.sudo}mv -n -- {shell(here)} {shell(there)}"
    if _says_at(there) != location:
        away = os.path.join(subject.home, f"moved-{location[-1][:12]}")
        return (
            f"its owner has another directory too, so compare them; {subject.sudo}mv -n -- {shell(here)} {shell(away)}"
        )
    if location > right:
        return f"exchanged with {shell(there)}: the command shown for that one mends both"
    one, two, swap = shell(here), shell(there), shell(here + ".swap")
    sudo = subject.sudo
    return f"{sudo}mv -n -- {one} {swap} && {sudo}mv -n -- {two} {one} && {sudo}mv -n -- {swap} {two}"


def _marking(subject: Subject, location: list[str], place: str) -> str:
    principal = subject.principals.get(location[-1])
    if principal is None:
        return f"restore {_mark(place)} from a backup"
    name, words = shell(subject.owner_name), shell(owner.PRINCIPAL + principal)
    install = f"{subject.sudo}install -m 0600 -o {name} -- /dev/stdin {_mark(place)}"
    return f"if these documents are {principal}'s: printf '%s\\n' {words} | {install}"


def _mark(place: str) -> str:
    return shell(os.path.join(place, owner.MARK))


def _says_at(place: str) -> list[str] | None:
    """The location that the mark of the directory `place` names."""
    try:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        says = _scope(_read(fd) or b"")
    finally:
        os.close(fd)
    return None if says is None else scope_location(says)


def _read(fd: int) -> bytes | None:
    """What the mark in the directory holds; None without one. What is wrong with its file is told elsewhere."""
    try:
        mark = os.open(owner.MARK, _OPEN, dir_fd=fd)
    except FileNotFoundError:
        return None
    except OSError:
        return b""
    try:
        return os.read(mark, owner.MARK_BYTES) if stat.S_ISREG(os.fstat(mark).st_mode) else b""
    finally:
        os.close(mark)


def _scope(data: bytes) -> str | None:
    """The scope that a mark names, None if it is no mark."""
    try:
        scope = data.decode().removesuffix("\n")
        marked = owner.text_of(scope) == data and scope_location(scope)[0] == USERS
    except ValueError:
        return None
    return scope if marked else None
