"""One scope on disk, entry by entry: kinds, owners, modes, names, twins, amounts."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from amux import limits
from amux_hub.doctor import document, pointers
from amux_hub.doctor.finding import forms, plain, shell
from amux_hub.store.owner import MARK
from amux_hub.store.paths import SUFFIX, entry_fault, nfc, twin_key
from amux_hub.store.write import TEMPORARY

if TYPE_CHECKING:
    from amux_hub.doctor.survey import Subject, Survey

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_YOUNG_SECONDS = 60
_TYPES = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}


class Scope:
    """`label` names it for people, `path` is its directory. `late` once the time was over."""

    def __init__(self, survey: Survey, subject: Subject, label: str, path: str, until: float) -> None:
        self.survey = survey
        self.subject = subject
        self.label = label
        self.path = path
        self.until = until
        self.late = False
        self.entries = self.size = 0
        self.documents: set[str] = set()
        self.entry: bytes | None = None
        """What MEMORY.md holds."""

    def _what(self, components: list[str]) -> str:
        return f"{self.label}: {'/'.join(components)}" if components else self.label

    def _word(self, components: list[str]) -> str:
        return shell("/".join([self.path, *components]))

    def enter(self, parent: int, name: str, components: list[str], status: os.stat_result) -> int | None:
        """A descriptor of a directory that the Hub would enter, None with a finding if it would not."""
        if not stat.S_ISDIR(status.st_mode):
            self.kind(components, status)
            return None
        self.directory(components, status)
        try:
            return os.open(name, DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.unreadable(components, error)
            return None

    def directory(self, components: list[str], status: os.stat_result) -> None:
        """Judge a directory by its status."""
        self.survey.directories += 1
        self._owner(components, status)
        self._mode(components, status, 0o700)

    def walk(self, fd: int, components: list[str]) -> None:
        """Everything in one directory and below it."""
        names: dict[str, str] = {}
        directories = []
        for name in sorted(os.listdir(fd)):
            self.entries += 1
            if time.monotonic() > self.until:
                self.late = True
                return
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.unreadable([*components, name], error)
                continue
            if self._look(fd, [*components, name], status, names):
                directories.append((name, status))
        for name, status in directories:
            child = [*components, name]
            if (below := self.enter(fd, name, child, status)) is None:
                continue
            try:
                self.walk(below, child)
            finally:
                os.close(below)

    def _look(self, fd: int, child: list[str], status: os.stat_result, names: dict[str, str]) -> bool:
        """Judge one entry; whether it is a directory to go into."""
        name = child[-1]
        is_directory = stat.S_ISDIR(status.st_mode)
        if not is_directory and not stat.S_ISREG(status.st_mode):
            self.kind(child, status)
            return False
        if name.startswith(".") and child != [MARK]:
            self._hidden(child, status)
            return False
        if not is_directory:
            self._mode(child, status, 0o600)
            if status.st_nlink > 1:
                self._linked(child, status)
            else:
                self._owner(child, status)
            if child == [MARK]:
                self.entries -= 1
                return False
            if not name.endswith(SUFFIX):
                found = self.survey.findings["store-names"]
                found.note("other", self._what(child), f"no {SUFFIX} file: not served, not counted")
                return False
        if (fault := entry_fault(child, directory=is_directory)) is not None:
            below = ", nor is anything below it" if is_directory else ""
            fix = f"{self.subject.sudo}mv -- {self._word(child)} "
            fix += shell("/".join([self.path, *child[:-1], "new-name" + ("" if is_directory else SUFFIX)]))
            found = self.survey.findings["store-names"]
            found.warning("name", self._what(child), f"never served{below}: {fault}", "a name that is a path", fix)
            return False
        self._twin(child, names)
        if not is_directory:
            self._document(fd, child, status)
        return is_directory

    def _document(self, fd: int, child: list[str], status: os.stat_result) -> None:
        path = "/".join(child)
        self.documents.add(path)
        self.size += status.st_size
        if status.st_nlink > 1 or status.st_uid != self.subject.owner:
            return  # the Hub does not open it
        if not status.st_mode & stat.S_IRUSR:
            self.unreadable(child, None)
            return
        try:
            data = document.read(fd, child[-1])
        except FileNotFoundError:
            return
        except OSError as error:
            self.unreadable(child, error)
            return
        if data is None:
            return  # replaced by something else since we looked
        document.judge(self.survey.findings, self._what(child), path, data, status.st_size)
        if path == limits.ENTRY_NAME:
            self.entry = data

    def finish(self) -> None:
        """What only all of it tells: amounts, and where MEMORY.md leads."""
        survey, found = self.survey, self.survey.findings["store-limits"]
        survey.documents += len(self.documents)
        survey.size += self.size
        for what, value, limit in (
            ("documents", len(self.documents), limits.SCOPE_DOCUMENTS),
            ("bytes", self.size, limits.SCOPE_BYTES),
            ("directory entries", self.entries, limits.SCAN_ENTRIES),
        ):
            if value > limit:
                fix = "forget or shorten documents: until then it can only shrink"
                found.warning("quota", self.label, f"{value:,} {what}", f"at most {limit:,}", fix)
        if self.entry is not None and not self.late:
            pointers.judge(survey.findings["memory-pointers"], self.label, self.entry, self.documents)

    # Faults of one entry

    def kind(self, components: list[str], status: os.stat_result) -> None:
        what = _TYPES.get(stat.S_IFMT(status.st_mode))
        fix = f"{self.subject.sudo}rm -- {self._word(components)}"
        if what is None:
            what, word = "a file where a directory belongs", self._word(components)
            fix = f"{self.subject.sudo}mv -- {word} {word}.old"
        wanted = "regular files and directories alone: the Hub never touches it"
        self.survey.findings["store-kinds"].problem("kind", self._what(components), what, wanted, fix)

    def _linked(self, child: list[str], status: os.stat_result) -> None:
        word, copy = self._word(child), self._word([*child[:-1], child[-1] + ".copy"])
        sudo = self.subject.sudo
        fix = f"{sudo}cp -p --no-dereference -- {word} {copy} && {sudo}mv -- {copy} {word}"
        if status.st_uid != self.subject.owner:  # perhaps a link to somebody's secret: never ours to copy or chown
            fix = f"{sudo}rm -- {word}"
        found = f"{status.st_nlink} hard links, owner UID {status.st_uid}: it may be read or changed from elsewhere"
        self.survey.findings["store-kinds"].problem("linked", self._what(child), found, "one link", fix)

    def _owner(self, components: list[str], status: os.stat_result) -> None:
        subject = self.subject
        if status.st_uid != subject.owner:
            wanted = f"{subject.owner_name} (UID {subject.owner}): the Hub touches nobody else's"
            name, memory = shell(subject.owner_name), shell(os.path.join(subject.home, "memory"))
            # Never chown -R: a hard link to a secret would be given away.
            which = f"{memory} '(' -type d -o -type f -links 1 ')' '!' -user {name}"
            fix = f"{subject.root_sudo}find {which} -exec chown -h {name}: '{{}}' +"
            found = f"owner UID {status.st_uid}"
            self.survey.findings["store-owners"].problem("owner", self._what(components), found, wanted, fix)

    def _mode(self, components: list[str], status: os.stat_result, wanted: int) -> None:
        """The directory above is closed to others, so a wide mode is no hole, but one copied elsewhere would be."""
        mode = stat.S_IMODE(status.st_mode)
        fix = f"{self.subject.sudo}chmod {wanted:04o} -- {self._word(components)}"
        found = self.survey.findings["store-modes"]
        if mode & wanted != wanted and wanted == 0o700:
            found.problem("closed", self._what(components), f"mode {mode:04o}", f"{wanted:04o}", fix)
        elif mode & 0o077:
            found.note("wide", self._what(components), f"mode {mode:04o}", f"{wanted:04o}", fix)

    def _hidden(self, child: list[str], status: os.stat_result) -> None:
        found = self.survey.findings["store-temporary"]
        if not TEMPORARY.fullmatch(child[-1]):
            self.survey.findings["store-names"].note("hidden", self._what(child), "hidden: not served, not counted")
        elif not self.subject.serving or time.time() - status.st_mtime > _YOUNG_SECONDS:
            fix = "the next start removes it"
            found.note("stale", self._what(child), "left by a write that a crash ended", "", fix)

    def _twin(self, child: list[str], names: dict[str, str]) -> None:
        name = child[-1]
        found = self.survey.findings["store-twins"]
        other = names.setdefault(twin_key(name), name)
        if other != name:
            what = self._what([*child[:-1], other]) + f" and {plain(name)}"
            differ = "case" if nfc(other) != nfc(name) else "Unicode form"
            wanted = "one name: agents take them for one document"
            fix = f"merge them, then: {self.subject.sudo}rm -- {self._word(child)}"
            found.warning("twin", what, f"{forms(other)} and {forms(name)} differ only in {differ}", wanted, fix)
        elif len(child) == 1 and name != limits.ENTRY_NAME and twin_key(name) == twin_key(limits.ENTRY_NAME):
            entry = self._word([limits.ENTRY_NAME])
            fix = f"{self.subject.sudo}mv -n -- {self._word(child)} {entry}"
            found.warning("entry", self._what(child), "the name is reserved", limits.ENTRY_NAME, fix)

    def unreadable(self, components: list[str], error: OSError | None) -> None:
        why = "its owner may not read it" if error is None else (error.strerror or type(error).__name__)
        fix = f"{self.subject.sudo}chmod u+rwX -- {self._word(components)}"
        found = self.survey.findings["store-readable"]
        found.problem("unreadable", self._what(components), why, "readable by the Hub", fix)
