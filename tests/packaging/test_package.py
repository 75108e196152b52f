"""The package as a package: lintian, dependencies, programs, pages and maintainer scripts."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pytest

from amux import __version__
from debpkg import tree
from debpkg.suite import SUITES, running
from tests.packaging.deb import MODULES, Deb

SUITE = SUITES[running() or "bookworm"]


def test_lintian_finds_nothing(deb: Deb, source_root: Path) -> None:
    done = subprocess.run(["lintian", str(deb.path)], capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if not line.startswith("N:")]
    assert (said, done.returncode) == ([], 0), done.stderr


def test_every_override_has_its_reason(source_root: Path) -> None:
    lines = (source_root / "packaging/debpkg/files/lintian-overrides").read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        assert line.startswith("#") or (number and lines[number - 1].startswith("#")), line


def test_it_installs_only_beside_the_python_that_its_modules_are_for(deb: Deb) -> None:
    assert deb.field("Package") == "amux-hub"
    assert deb.field("Version") == f"{__version__}+deb{SUITE.release}"
    depends = deb.field("Depends").split(", ")
    assert f"python3 (>= {SUITE.python})" in depends
    assert f"python3 (<< {SUITE.next_python})" in depends
    tag = "cpython-" + SUITE.python.replace(".", "")
    compiled = [name for name in deb.members if name.startswith(MODULES) and ".cpython-" in name]
    assert compiled
    assert not [name for name in compiled if tag not in name]


@pytest.mark.skipif(SUITE.python != f"{sys.version_info[0]}.{sys.version_info[1]}", reason="another Python's modules")
def test_its_programs_run_from_the_unpacked_tree(deb: Deb, tmp_path: Path) -> None:
    """With the package's own modules alone; the place is the only thing that differs from an installed one."""
    deb.unpack(tmp_path)
    modules = str(tmp_path / MODULES)
    for name, words in (("usr/bin/amux", ["--version"]), ("usr/lib/amux/bin/amux-hub", ["--version"])):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert text.startswith("#!/usr/bin/python3 -IS\n")
        moved = text.replace(f'"/{MODULES}"', repr(modules))
        assert moved != text
        done = subprocess.run([sys.executable, "-IS", "-c", moved, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, __version__ in done.stdout) == (0, True), done.stderr
    whole = f"import sys; sys.path[:0] = [{modules!r}]; import amux_hub.service, amux_hub.mcp.server"
    subprocess.run([sys.executable, "-IS", "-c", whole], check=True)
    pyz = [sys.executable, "-IS", str(tmp_path / "usr/lib/amux/amux.pyz"), "--version"]
    assert __version__ in subprocess.run(pyz, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("name", ["postinst", "prerm", "postrm"])
def test_maintainer_scripts_are_right_as_far_as_a_shell_can_tell(deb: Deb, name: str) -> None:
    text = deb.control[name]
    subprocess.run(["sh", "-n"], input=text, check=True)
    assert text.startswith(b"#!/bin/sh\n")
    assert b"\nset -e\n" in text
    assert b"@" not in text


def test_maintainer_scripts_know_every_unit(deb: Deb) -> None:
    for name in ("postinst", "postrm"):
        assert set(tree.units()) <= set(re.findall(r"[\w-]+\.(?:socket|service)", deb.control[name].decode()))


def test_no_script_deletes_memory(deb: Deb) -> None:
    """The one command that does is only ever printed."""
    for name, text in deb.control.items():
        if name in ("postinst", "prerm", "postrm"):
            lines = [line.strip() for line in text.decode().splitlines()]
            deleting = [line for line in lines if re.search(r"\b(rm|userdel|deluser)\b", line)]
            assert all(line.startswith(("echo ", "#", "rm -rf /run/amux")) for line in deleting), deleting
    assert b"rm -rf $home" in deb.control["postrm"]


def test_man_pages_are_well_formed_and_say_everything(deb: Deb) -> None:
    pages = {name: gzip.decompress(deb.read(name)) for name in deb.members if "/man/" in name and name.endswith(".gz")}
    assert {name.rpartition("/")[2] for name in pages} >= {"amux.1.gz", "amux-hub.8.gz", "hub.yaml.5.gz"}
    for name, page in pages.items():
        groff = ["groff", "-man", "-Tutf8", "-ww", "-z"]
        done = subprocess.run(groff, input=page, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), name
        see = page.decode().partition(".SH SEE ALSO\n")[2].replace("\\-", "-").strip()
        assert re.fullmatch(r"(\.BR [a-z.-]+ \(\d\),\n)*\.BR [a-z.-]+ \(\d\)", see), name
    keys = pages["usr/share/man/man5/hub.yaml.5.gz"].decode()
    for default in ("[]", "{}", "60", "33554432", "true", "$AMUX_HOME"):
        assert default in keys
    assert "default: (" not in keys, "as it would stand in the file"
    text = pages["usr/share/man/man1/amux.1.gz"].decode().replace("\\-", "-")
    for command in ("amux memory search", "amux status", "amux system config set", "amux mcp"):
        assert f".SS {command}" in text


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("usr/share/bash-completion/completions/amux", b"complete -o nosort"),
        ("usr/share/zsh/vendor-completions/_amux", b"#compdef amux"),
        ("usr/share/fish/vendor_completions.d/amux.fish", b"complete --no-files --command amux"),
    ],
)
def test_completions_stand_where_shells_look(deb: Deb, name: str, word: bytes) -> None:
    assert word in deb.read(name)


def test_the_shipped_configuration_is_accepted_and_isolates(deb: Deb, tmp_path: Path) -> None:
    from amux_hub import config

    problems: list[config.Problem] = []
    (tmp_path / "hub.yaml").write_bytes(deb.read("etc/amux/hub.yaml"))
    values = config.read(str(tmp_path / "hub.yaml"), problems, missing_ok=False)
    assert not problems
    assert values == {"isolation": True}
