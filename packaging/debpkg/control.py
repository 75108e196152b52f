"""The control files of the package: control, conffiles, md5sums, maintainer scripts; copyright and changelog."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import subprocess
from email.parser import HeaderParser
from email.utils import formatdate
from pathlib import Path

from debpkg import tree
from debpkg.suite import GLIBC, Suite, architecture

MAINTAINER = "{} <{}>".format(
    os.environ.get("DEBFULLNAME", "amux-hub maintainers"), os.environ.get("DEBEMAIL", "maintainers@amux-hub.invalid")
)
"""Who builds it for others sets these, as for any Debian tool; the default reaches nobody and says so."""
SCRIPTS = ("postinst", "prerm", "postrm")

CONTROL = """\
Package: amux-hub
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {size}
Depends: {depends}
Recommends: libnss-systemd
Section: admin
Priority: optional
Description: long-term memory for the AI coding agents of a Linux host
 amux-hub keeps one long-term memory for coding agents such as Codex and Claude
 Code, as ordinary Markdown files. The kernel says who is calling; the memory of
 each person is a directory that no other account, and no agent of another
 account, can read.
 .
 This package brings the Hub as a system service, started by its sockets, the
 command-line tool amux, and the MCP server "amux mcp".
"""


def write(root: Path, suite: Suite, version: str, epoch: int) -> None:
    """DEBIAN/ and what of /usr/share/doc depends on the version."""
    document = root / "usr/share/doc/amux-hub"
    document.mkdir(parents=True, exist_ok=True)
    (document / "changelog.gz").write_bytes(tree.compressed(_changelog(version, suite, epoch).encode()))
    (document / "copyright").write_text(_copyright(root), encoding="utf-8")
    control = root / "DEBIAN"
    control.mkdir()
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and control not in path.parents]
    size = sum((path.lstat().st_size + 1023) // 1024 if path.is_file() else 1 for path in root.rglob("*"))
    depends = [
        f"python3 (>= {suite.python})",
        f"python3 (<< {suite.next_python})",
        f"libc6 (>= 2.{GLIBC[-1]})",
        "init-system-helpers (>= 1.54)",
        "libpam-runtime",
        "libpam0g",
        "systemd (>= 252)",
    ]
    (control / "control").write_text(
        CONTROL.format(
            version=version, architecture=architecture(), maintainer=MAINTAINER, size=size, depends=", ".join(depends)
        ),
        encoding="utf-8",
    )
    names = [path.relative_to(root).as_posix() for path in files]
    (control / "conffiles").write_text("".join(f"/{name}\n" for name in names if name.startswith("etc/")))
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  {name}\n"
        for path, name in zip(files, names, strict=True)
        if not path.is_symlink() and not name.startswith("etc/")
    ]
    (control / "md5sums").write_text("".join(sums))
    units = tree.units()
    words = {
        "@UNITS@": units,
        "@SOCKETS@": [name for name in units if name.endswith(".socket")],
        "@SERVICES@": [name for name in units if name.endswith(".service")],
        "@MOUNTS@": tree.mounts(),
    }
    for name in SCRIPTS:
        text = (tree.FILES / name).read_text(encoding="utf-8")
        for word, values in words.items():
            text = text.replace(word, shlex.join(values))
        (control / name).write_text(text, encoding="utf-8")
        (control / name).chmod(0o755)


def _changelog(version: str, suite: Suite, epoch: int) -> str:
    """The newest section of CHANGELOG.md in the form of deb-changelog(5)."""
    text = (tree.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = text.split("\n## ", 2)[1]
    found = re.findall(r"^- (.+?)(?=^- |^#|^$|\Z)", newest, re.MULTILINE | re.DOTALL)
    items = [re.sub(r"\s+", " ", item) for item in found]
    lines = "".join(_wrapped(item.strip()) for item in items)
    date = formatdate(epoch, localtime=False)
    return f"amux-hub ({version}) {suite.name}; urgency=medium\n\n{lines}\n -- {MAINTAINER}  {date}\n"


def _wrapped(item: str) -> str:
    lines, now = [], "  *"
    for word in item.split():
        if len(now) + len(word) > 78:
            lines.append(now)
            now = "   "
        now += f" {word}"
    return "\n".join([*lines, now]) + "\n"


def _copyright(root: Path) -> str:
    """One paragraph for each copied project, from its own metadata and licence."""
    head = (tree.FILES / "copyright").read_text(encoding="utf-8")
    modules = root / tree.MODULES
    licences = {"Apache-2.0"}
    paragraphs = []
    for metadata in sorted(modules.glob("*.dist-info/METADATA")):
        message = HeaderParser().parsestr(metadata.read_text(encoding="utf-8"))
        licence = _licence(message.get("License-Expression"), message.get("License"), message.get_all("Classifier"))
        licences.add(licence)
        where = metadata.parent.relative_to(root).as_posix()
        owners = _owners(metadata.parent) or [f"the authors of {message['Name']}"]
        own = [f"{where}/*", *_own(modules, root, metadata.parent.name)]
        files = "\n ".join(own)
        holders = "\n ".join(owners)
        comment = f"{message['Name']} {message['Version']}"
        paragraphs.append(f"Files: {files}\nCopyright: {holders}\nLicense: {licence}\nComment: {comment}\n\n")
    texts = [(tree.FILES / "copyright.licenses").read_text(encoding="utf-8")]
    for licence in sorted(licences - {"Apache-2.0"}):
        short = re.sub(r"[^\w.-]", "-", licence)
        texts.append(f"License: {short}\n The full text stands in the dist-info directory of each project.\n")
    return head + "".join(paragraphs) + "\n".join(texts)


_OTHER_NAMES = {
    "attrs": ("attr", "attrs"),
    "cffi": ("cffi", "_cffi_backend"),
    "opentelemetry_api": ("opentelemetry",),
    "pyjwt": ("jwt",),
    "pyyaml": ("yaml", "_yaml"),
    "rpds_py": ("rpds",),
    "python_multipart": ("python_multipart", "multipart"),
}
"""Projects whose modules are not called like them."""


def _own(modules: Path, root: Path, name: str) -> list[str]:
    """The modules that a dist-info directory stands for: those whose names agree with it."""
    project = name.split("-")[0].lower().replace(".", "_")
    stems = _OTHER_NAMES.get(project, (project,))
    found = []
    for path in sorted(modules.iterdir()):
        if path.name.split(".")[0].lower() in stems:
            where = path.relative_to(root).as_posix()
            found.append(f"{where}/*" if path.is_dir() else where)
    return found


def _licence(expression: str | None, text: str | None, classifiers: list[str] | None) -> str:
    if expression:
        return re.sub(r"[^\w.-]", "-", expression)
    if text and len(text) < 40:
        return re.sub(r"[^\w.-]", "-", text)
    for line in classifiers or []:
        if line.startswith("License :: "):
            return re.sub(r"[^\w.-]", "-", line.rpartition(" :: ")[2])
    return "see-dist-info"


def _owners(directory: Path) -> list[str]:
    found: list[str] = []
    for path in sorted(directory.rglob("*")):
        if path.is_file() and path.name.upper().startswith(("LICEN", "COPYING")):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += re.findall(r"^\s*Copyright (?:\(c\) |© )?(\d{4}.*?)\.?\s*$", text, re.MULTILINE | re.IGNORECASE)
    # A licence names its own author too.
    return sorted({owner for owner in found if "Free Software Foundation" not in owner})


def epoch() -> int:
    """SOURCE_DATE_EPOCH, else the time of the newest commit, else that of CHANGELOG.md."""
    if named := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(named)
    git = ["git", "-c", "safe.directory=*", "-C", str(tree.ROOT), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(git, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        done = None
    if done is not None and done.returncode == 0 and done.stdout.strip():
        return int(done.stdout)
    return int((tree.ROOT / "CHANGELOG.md").stat().st_mtime)
