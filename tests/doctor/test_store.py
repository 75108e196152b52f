"""The checks of the memory: D2, D8, C16, C17, and what a document may be."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from amux import limits
from amux_hub.doctor import survey
from amux_hub.doctor.check import results
from amux_hub.doctor.checks import CHECKS
from amux_hub.doctor.finding import SHOWN
from amux_hub.store import root, write
from tests.doctor.kit import (
    ME,
    Made,
    a_hub,
    answering,
    findings,
    mend,
    needs_an_ordinary_account,
    text,
    told,
)

SECRET = "lantern-of-the-secret"


def test_a_memory_as_it_should_be(made: Made) -> None:
    assert findings(made) == {}
    made.enrol("alice")
    made.put(made.scope() / "MEMORY.md", "# Here\n\n- [Tools](tools/shell.md)\n- 部署 in `工具.md`\n")
    made.put(made.scope() / "tools" / "shell.md")
    made.put(made.scope() / "工具.md")
    made.put(made.scope("alice") / "a.md", "")
    assert findings(made) == {}
    assert made.run("store-scopes").summary == "2 scopes, 4 documents, 72 bytes"


def test_d2_everything_that_is_no_plain_file(made: Made) -> None:
    scope = made.scope()
    made.put(scope / "a.md")
    (scope / "link.md").symlink_to("/etc/passwd")
    (scope / "directory").symlink_to("/etc")
    (scope / ".hidden").symlink_to("/etc")
    os.mkfifo(scope / "fifo.md")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.getcwd()
        os.chdir(scope)
        bound.bind("s.md")
        os.chdir(here)
    found = made.run("store-kinds")
    assert told(found) == {("problem", "kind")}
    assert {finding.found for finding in found.findings} == {"a symbolic link", "a FIFO", "a socket"}
    assert len(found.findings) == 5
    mend(made, "store-kinds")
    assert findings(made) == {}
    assert (scope / "a.md").exists()


def test_d2_hard_links(made: Made) -> None:
    nasty = made.put(made.scope() / "it's\n $(touch x) \\ é.md".replace("\n", "").replace("\\", "-"), SECRET)
    os.link(nasty, made.directory / "elsewhere")
    found = made.run("store-kinds")
    assert told(found) == {("problem", "linked")}
    mend(made, "store-kinds")
    assert findings(made) == {}
    assert nasty.read_text() == SECRET


def test_d8_hard_links_to_what_is_another_accounts_are_never_given_away(made: Made) -> None:
    """Here all files are another account's than the Hub's: the commands neither chown nor copy the linked one."""
    linked = made.put(made.scope() / "linked.md")
    os.link(linked, made.directory / "elsewhere")
    made.put(made.scope() / "single.md")
    kinds = made.run("store-kinds", account="lp")
    assert [finding.fix.split()[-3:-1] for finding in kinds.findings] == [["rm", "--"]]
    owners = made.run("store-owners", account="lp")
    assert told(owners) == {("problem", "owner")}
    assert not any(finding.what.endswith("linked.md") for finding in owners.findings)
    assert any(finding.what.endswith("single.md") for finding in owners.findings)
    assert "-links 1" in owners.findings[0].fix
    assert told(made.run("store-owners")) == set()


@pytest.mark.root
def test_d8_a_hostile_tree_that_root_restored(made: Made) -> None:
    scope = made.scope()
    for name, kind in (("block.md", 0o060600), ("char.md", 0o020600)):
        os.mknod(scope / name, kind, os.makedev(1, 3))
    made.put(scope / "foreign.md")
    os.chown(scope / "foreign.md", 12345, 12345)
    secret = made.directory / "shadow"
    secret.write_text(SECRET)
    os.chown(secret, 4321, 4321)
    os.link(secret, scope / "linked.md")
    (made.memory / "users").symlink_to("/etc")
    assert findings(made) == {
        "store-kinds": {("problem", "kind"), ("problem", "linked")},
        "store-owners": {("problem", "owner")},
        "store-modes": {("note", "wide")},
    }
    mend(made, "store-owners")
    mend(made, "store-kinds")
    mend(made, "store-modes")
    assert findings(made) == {}
    assert (secret.stat().st_uid, secret.read_text(), (scope / "foreign.md").stat().st_uid) == (4321, SECRET, 0)
    assert not (scope / "linked.md").exists()


def test_d8_roots_that_are_links_or_files(made: Made) -> None:
    made.scope().rmdir()
    (made.memory / "global").symlink_to("/etc")
    assert findings(made) == {"store-kinds": {("problem", "kind")}}
    (made.memory / "global").unlink()
    (made.memory / "users").touch()
    assert findings(made) == {"store-kinds": {("problem", "kind")}}
    mend(made, "store-kinds")
    assert findings(made) == {"store-scopes": {("warning", "stranger")}}


def test_a_memory_that_is_no_directory(made: Made) -> None:
    made.memory.rmdir()
    made.memory.touch()
    assert findings(made)["store-kinds"] == {("problem", "kind")}


@needs_an_ordinary_account
def test_a_memory_that_its_owner_closed(made: Made) -> None:
    made.memory.chmod(0)
    found = findings(made)
    made.memory.chmod(0o700)
    assert found["store-modes"] == {("problem", "closed")}
    assert found["store-readable"] == {("problem", "unreadable")}


def test_modes(made: Made) -> None:
    made.put(made.scope() / "a" / "b.md").chmod(0o644)
    (made.scope() / "a").chmod(0o755)
    assert findings(made) == {"store-modes": {("note", "wide")}}
    mend(made, "store-modes")
    assert findings(made) == {}
    (made.scope() / "a").chmod(0o600)
    assert ("problem", "closed") in findings(made)["store-modes"]
    mend(made, "store-modes")
    assert findings(made) == {}


def test_what_the_hub_may_not_read(made: Made) -> None:
    made.put(made.scope() / "a.md").chmod(0)
    assert findings(made) == {"store-readable": {("problem", "unreadable")}}
    mend(made, "store-readable")
    assert findings(made) == {}


@needs_an_ordinary_account
def test_a_directory_that_the_hub_may_not_read(made: Made) -> None:
    made.put(made.scope() / "a" / "b.md")
    (made.scope() / "a").chmod(0)
    try:
        assert findings(made)["store-readable"] == {("problem", "unreadable")}
    finally:
        (made.scope() / "a").chmod(0o700)


def test_names_that_are_no_paths(made: Made) -> None:
    scope = made.scope()
    for name in (b"a\x1b[2J.md", b"not\xffutf8.md", b" space.md", b"%2e.md", "bidi\u202e.md".encode()):
        made.put(Path(os.fsdecode(bytes(scope) + b"/" + name)))
    made.put(scope / "dir.md" / "below.md")
    found = made.run("store-names")
    assert told(found) == {("warning", "name")}
    assert (len(found.findings), found.more) == (SHOWN, [{"level": "warning", "kind": "name", "count": 1}])
    for finding in found.findings:
        assert finding.what.isprintable() and finding.fix.isprintable()
    assert "store-text" not in findings(made)


def test_fixes_reach_names_that_do_not_print(made: Made) -> None:
    name = os.fsdecode(b"a\x1b'\xff\\\n\xe2\x80\xae.md")
    made.put(made.scope() / name, SECRET)
    mend(made, "store-names")
    assert (made.scope() / "new-name.md").read_text() == SECRET
    assert findings(made) == {}


def test_files_that_are_no_documents(made: Made) -> None:
    made.put(made.scope() / "a.txt")
    made.put(made.scope() / ".b.md")
    (made.scope() / ".git").mkdir()
    assert findings(made) == {"store-names": {("note", "other"), ("note", "hidden")}}


def test_c16_twins_are_named_in_both_forms(made: Made) -> None:
    made.put(made.scope() / "\u00e9.md")
    made.put(made.scope() / "e\u0301.md")
    found = made.run("store-twins")
    assert told(found) == {("warning", "twin")}
    assert r'"e\u0301.md"' in found.findings[0].found
    assert r'"\xe9.md"' in found.findings[0].found
    assert found.findings[0].found.endswith("Unicode form")
    mend_one = found.findings[0].fix.rpartition("then: ")[2]
    subprocess.run(["bash", "-ec", mend_one], check=True)
    assert findings(made) == {}


def test_c17_case_twins_directories_too(made: Made) -> None:
    made.put(made.scope() / "A" / "b.md")
    made.put(made.scope() / "a" / "b.md")
    made.put(made.scope() / "memory.md")
    found = made.run("store-twins")
    assert told(found) == {("warning", "twin"), ("warning", "entry")}
    assert 'global: A and a' in text(found).replace('\\"', '"')


def test_c15_what_is_not_utf8(made: Made) -> None:
    made.put(made.scope() / "a.md", b"12345\xff" + SECRET.encode())
    found = made.run("store-text")
    assert told(found) == {("warning", "utf8")}
    assert (found.findings[0].what, "byte 5" in found.findings[0].found) == ("global: a.md", True)


def test_limits(made: Made) -> None:
    scope = made.scope()
    made.put(scope / "MEMORY.md", "x\n" * limits.ENTRY_LINES)
    made.put(scope / "a.md", "x" * limits.DOCUMENT_BYTES)
    assert findings(made) == {}
    made.put(scope / "MEMORY.md", "x\n" * (limits.ENTRY_LINES + 1))
    assert findings(made) == {"store-limits": {("warning", "entry")}}
    made.put(scope / "MEMORY.md", "x" * (limits.ENTRY_BYTES + 1))
    assert findings(made) == {"store-limits": {("warning", "entry")}}
    made.put(scope / "MEMORY.md")
    made.put(scope / "a.md", "x" * (limits.DOCUMENT_BYTES + 1))
    assert findings(made) == {"store-limits": {("warning", "document")}}
    made.put(scope / "a.md", b"\xff" * (limits.READABLE_BYTES + 1))
    assert findings(made) == {"store-limits": {("warning", "unreadable")}}


def test_quota(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        made.put(made.scope() / f"{name}.md", "12")
    for limit, fits in (("SCOPE_DOCUMENTS", 3), ("SCOPE_BYTES", 6), ("SCAN_ENTRIES", 3)):
        with monkeypatch.context() as patch:
            patch.setattr(limits, limit, fits)
            assert findings(made) == {}
            patch.setattr(limits, limit, fits - 1)
            assert findings(made) == {"store-limits": {("warning", "quota")}}


def test_stale_temporary_files(made: Made) -> None:
    name = write._PREFIX + "0" * 32
    path = made.put(made.scope() / name)
    assert findings(made) == {"store-temporary": {("note", "stale")}}
    with locked(made):  # a Hub may be writing it just now
        assert "store-temporary" not in findings(made)
        os.utime(path, (time.time() - 3600,) * 2)
        assert findings(made)["store-temporary"] == {("note", "stale")}


@contextmanager
def locked(made: Made) -> Iterator[int]:
    """The lock of a Hub, held by this process."""
    fd = os.open(made.memory / root._LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield os.getpid()
    finally:
        os.close(fd)


def test_the_lock_of_the_hub_that_answers(made: Made) -> None:
    assert survey.LOCK == root._LOCK
    assert made.run("store-lock").outcome == "ok"
    with locked(made) as pid:
        assert told(made.run("store-lock")) == {("note", "silent")}
        with answering(made.runtime / "hub.sock", a_hub(pid=pid)):
            assert made.run("store-lock").outcome == "ok"
        with answering(made.runtime / "hub.sock", a_hub(pid=pid + 1)):
            assert told(made.run("store-lock")) == {("problem", "other")}
    with answering(made.runtime / "hub.sock", a_hub(pid=os.getpid())):  # the tree was replaced below it
        assert told(made.run("store-lock")) == {("problem", "lost")}


def test_more_than_one_holder_of_a_lock(made: Made) -> None:
    """A kernel shows one; a network file system may show two."""
    (made.memory / root._LOCK).touch(0o600)
    inode = (made.memory / root._LOCK).stat().st_ino
    proc = made.directory / "proc"
    proc.mkdir()
    lines = [f"{n}: FLOCK  ADVISORY  WRITE {n} 00:21:{inode} 0 EOF" for n in (101, 102)]
    waits = f"3: -> FLOCK  ADVISORY  WRITE 103 00:21:{inode} 0 EOF"
    (proc / "locks").write_text("\n".join([*lines, waits, f"4: POSIX  ADVISORY  READ 104 00:21:{inode} 0 EOF"]) + "\n")
    places = type(made.places)(**{**vars(made.places), "proc": str(proc)})
    found = made.run("store-lock", places=places)
    assert told(found) == {("problem", "many")}
    assert "101, 102" in found.findings[0].found
    assert "103" not in found.findings[0].found


def test_scopes_are_named_by_their_principals(made: Made) -> None:
    made.enrol("alice")
    made.put(made.scope("alice") / "a.md", b"\xff")
    made.put(made.scope("bob") / "b.md", b"\xff")
    named = [finding.what for finding in made.run("store-text").findings]
    orphan = f"users/{made.scope('bob').name[:12]}…: b.md"
    assert sorted(named) == ["alice: a.md", orphan]


def test_the_scope_of_a_private_hub_is_its_owners(private: Made) -> None:
    private.put(private.scope(ME) / "a.md", b"\xff")
    assert [finding.what for finding in private.run("store-text").findings] == [f"{ME}: a.md"]


def test_what_the_time_did_not_suffice_for_is_named(made: Made) -> None:
    made.put(made.scope() / "a.md", b"\xff")
    subject = survey.Subject(str(made.home), os.geteuid(), ME, "", "", {}, False)
    late = survey.take(subject, -1)
    assert late.late == ["global"]
    found = made.run("store-scopes", _known={"the walk over the memory": late})
    assert (told(found), found.findings[0].what) == ({("skipped", "unseen")}, "global")
    assert made.run("store-text", _known={"the walk over the memory": late}).summary.endswith("as far as was looked")
    assert survey.take(subject).late == []


def test_many_findings_are_counted(made: Made) -> None:
    for number in range(SHOWN + 7):
        made.put(made.scope() / f"{number}.md", b"\xff")
    found = made.run("store-text")
    assert (len(found.findings), found.more[0]["count"]) == (SHOWN, 7)


def test_nothing_of_the_memory_is_shown(made: Made) -> None:
    for data in (SECRET.encode(), b"\xff" + SECRET.encode(), SECRET.encode() * 90_000):
        made.put(made.scope() / f"{len(data)}.md", data)
        made.put(made.scope("alice") / "MEMORY.md", data + b" [x](gone.md)")
    found = list(results(CHECKS, made.host()))
    assert SECRET not in json.dumps([vars(f) for result in found for f in result.findings])
    assert SECRET not in "".join(result.summary for result in found)


def test_a_memory_that_is_missing_or_closed(made: Made) -> None:
    made.memory.rmdir()
    assert findings(made) == {}
    assert made.run("store-kinds", euid=os.geteuid() + 1).outcome == "skipped"
