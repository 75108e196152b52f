"""What the package installs: every file with mode and owner, nothing of the machine that built it, the same again."""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from debpkg import tree, wheels
from tests.packaging.conftest import build
from tests.packaging.deb import MODULES, Deb

GOLDEN = Path(__file__).with_name("files.txt")


def _line(name: str, member: tarfile.TarInfo) -> str:
    mode = stat.S_IMODE(member.mode)
    kind = "/" if member.isdir() else f" -> {member.linkname}" if member.issym() else ""
    return f"{mode:04o} {member.uname}:{member.gname} {name}{kind}"


def test_files_modes_and_owners_are_those_of_the_list(deb: Deb) -> None:
    """Of copied projects the list names none: their modules are compared with the lock."""
    there = [_line(name, member) for name, member in deb.members.items() if not _copied(name)]
    wanted = GOLDEN.read_text(encoding="utf-8").splitlines()
    added, gone = sorted(set(there) - set(wanted)), sorted(set(wanted) - set(there))
    assert not (added or gone), f"if this is meant, correct {GOLDEN.name}:\nadded: {added}\ngone: {gone}"


def _copied(name: str) -> bool:
    return name.startswith(MODULES + "/") and not re.match(rf"{MODULES}/amux[a-z_]*$", name)


def test_what_is_copied_is_plain_and_from_the_lock(deb: Deb) -> None:
    copied = {name: member for name, member in deb.members.items() if name.startswith(MODULES + "/")}
    odd = [
        _line(name, member)
        for name, member in copied.items()
        if _line(name, member)[:14] not in ("0644 root:root", "0755 root:root")
        or member.isdir() != (stat.S_IMODE(member.mode) == 0o755)
        or not (member.isfile() or member.isdir())
    ]
    assert not odd
    projects = {match[1] for name in copied if (match := re.fullmatch(rf"{MODULES}/([^/]+)\.dist-info", name))}
    locked = {f"{name}-{version}" for name, (version, _) in wheels.locked().items()}
    assert {re.sub(r"[_.]", "-", name.lower()) for name in projects} == {name.replace(".", "-") for name in locked}


def test_every_module_of_the_product_is_there_and_nothing_compiled(deb: Deb) -> None:
    for package in tree.packages():
        for path in package.rglob("*.py"):
            name = f"{MODULES}/{path.relative_to(package.parent).as_posix()}"
            assert deb.read(name) == path.read_bytes()
    assert not [name for name in deb.members if name.endswith(".pyc") or "__pycache__" in name]


def test_files_of_etc_are_conffiles_and_nothing_else_is(deb: Deb) -> None:
    conffiles = deb.control["conffiles"].decode().split()
    assert conffiles == sorted(f"/{name}" for name, one in deb.members.items() if one.isfile() and name[:4] == "etc/")
    assert "/etc/amux/hub.yaml" in conffiles


def test_the_package_holds_no_path_of_the_machine_that_built_it(deb: Deb, source_root: Path) -> None:
    places = [str(source_root), str(deb.path.parent), sys.prefix]
    found = []
    for name, member in deb.members.items():
        if member.isfile():
            contents = [deb.read(name)]
            if name.endswith(".pyz"):
                with zipfile.ZipFile(io.BytesIO(contents[0])) as archive:
                    contents = [archive.read(inner) for inner in archive.namelist()]
            found += [(name, place) for place in places for data in contents if place.encode() in data]
    assert not found


def test_the_same_sources_give_the_same_bytes(
    deb: Deb, source_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another directory, with another umask, zone, language and place for temporary files."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o077)
    try:
        strange = {"TZ": "Asia/Shanghai", "LC_ALL": "C", "TMPDIR": str(tmp_path / "tmp"), "PYTHONHASHSEED": "7"}
        again = build(source_root, tmp_path / "elsewhere", **strange)
    finally:
        os.umask(before)
    assert again.name == deb.path.name
    assert again.read_bytes() == deb.path.read_bytes()
