"""What no file of this repository may hold, and that every relative link in its pages leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

from tests.lint.sources import ROOT

# Written in pieces, or these lines would find themselves.
ARCHIVE_HOST = re.compile(r"https?://[a-z0-9.-]+/" + r'(simple|debian|debian-security)([/ "]|$)')
PLACE_OF_WORK = re.compile(r"/(work|farm)" + r"/(main|steering|shared|\.library|\.mirror)\b")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
SKIPPED = {".git", ".venv", "build", "dist", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}


def _files() -> list[Path]:
    """The repository's text files; git's list where there is one, else all but what our commands leave."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=False) if _git() else None
    if listed is not None:
        assert listed.returncode == 0, listed.stderr
        names = [ROOT / os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    else:
        names = [path for path in ROOT.rglob("*") if not SKIPPED & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in names if path.is_file() and b"\0" not in path.read_bytes())


def _git() -> bool:
    return (ROOT / ".git").exists() and shutil.which("git") is not None


def test_no_file_names_a_package_archive_or_the_place_where_it_was_written() -> None:
    found = []
    for path in _files():
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if ARCHIVE_HOST.search(line) or PLACE_OF_WORK.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found


def test_the_patterns_find_what_they_are_for() -> None:
    assert ARCHIVE_HOST.search("deb http" + "://archive.example.org/" + "debian bookworm main")
    assert ARCHIVE_HOST.search('index = "https' + "://index.example.org/" + 'simple"')
    assert not ARCHIVE_HOST.search("https://www.debian.org/doc/")
    assert PLACE_OF_WORK.search("/work" + "/main/hub")


def test_every_relative_link_leads_somewhere() -> None:
    broken = []
    for path in _files():
        if path.suffix != ".md":
            continue
        for target in LINK.findall(FENCE.sub("", path.read_text(encoding="utf-8"))):
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            file, _, anchor = unquote(target).partition("#")
            page = (path.parent / file).resolve() if file else path
            if not page.exists():
                broken.append(f"{path.relative_to(ROOT)}: {target}: no such file")
            elif anchor and page.suffix == ".md" and anchor not in _anchors(page):
                broken.append(f"{path.relative_to(ROOT)}: {target}: no such heading")
    assert not broken


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6} +(.+?) *$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
