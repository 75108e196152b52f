"""The locked dependencies of the product, as wheels of a suite, checked by hash and unpacked.

Promises: nothing is installed whose hash is not in packaging/wheels.lock, and no code of a dependency runs here:
wheels are unpacked, and of the one that comes as source (sdnotify, a single module) the module is copied.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from debpkg.suite import GLIBC, MACHINES, Suite

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "packaging" / "wheels.lock"
REQUIREMENTS = ROOT / "packaging" / "requirements.lock"
SOURCES = ("sdnotify",)
"""What has no wheel on the index."""

KEPT = {"METADATA", "entry_points.txt", "top_level.txt"}
"""Of a dist-info directory, beside licences: what importlib.metadata reads. The rest tells how it was installed."""


def options(suite: Suite, architecture: str) -> list[str]:
    """Options of pip that choose the wheels of a suite."""
    machine = MACHINES[architecture]
    platforms = [*(f"manylinux_2_{minor}" for minor in reversed(GLIBC)), "manylinux2014"]
    chosen = [f"--platform={platform}_{machine}" for platform in platforms]
    return [f"--python-version={suite.python}", "--only-binary=:all:", *chosen]


def pip(*arguments: str) -> None:
    """Run `pip download`; its output only where it fails."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download", "--quiet"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"build_deb: pip download failed:\n{done.stdout}{done.stderr}".rstrip())


def locked() -> dict[str, tuple[str, set[str]]]:
    """Name → version and the hashes of the files that may stand for it."""
    found: dict[str, tuple[str, set[str]]] = {}
    text = LOCK.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = line.split()
            name, version = requirement.split("==")
            found[name] = (version, {word.removeprefix("--hash=sha256:") for word in hashes})
    return found


def fetch(suite: Suite, architecture: str, directory: Path) -> list[Path]:
    """The files of all locked dependencies, from `directory` where they are there and whole, else by pip."""
    directory.mkdir(parents=True, exist_ok=True)
    wanted = locked()
    with _alone(directory):
        with contextlib.suppress(LookupError):
            return _all(directory, wanted)
        _download(suite, architecture, directory, wanted)
        return _all(directory, wanted)


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """One build at a time looks into it or downloads, so that none reads a file that another is still writing."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _download(suite: Suite, architecture: str, directory: Path, wanted: dict[str, tuple[str, set[str]]]) -> None:
    for names, chosen in (
        ([name for name in wanted if name not in SOURCES], options(suite, architecture)),
        (list(SOURCES), ["--no-binary=:all:"]),
    ):
        list_of = directory / "requirements.txt"
        lines = [f"{name}=={wanted[name][0]} {_hashes(wanted[name][1])}\n" for name in names]
        list_of.write_text("".join(lines), encoding="utf-8")
        pip("--no-deps", "--require-hashes", f"--dest={directory}", *chosen, f"--requirement={list_of}")


def _hashes(hashes: set[str]) -> str:
    return " ".join(f"--hash=sha256:{one}" for one in sorted(hashes))


def _all(directory: Path, wanted: dict[str, tuple[str, set[str]]]) -> list[Path]:
    files = {hashlib.sha256(path.read_bytes()).hexdigest(): path for path in directory.iterdir()}
    chosen = []
    for name, (version, hashes) in wanted.items():
        there = sorted(hashes & set(files))
        if len(there) != 1:
            raise LookupError(f"{name} {version}: {len(there)} files")
        chosen.append(files[there[0]])
    return sorted(chosen)


def unpack(file: Path, target: Path) -> None:
    """The modules of one wheel or source archive, and what importlib.metadata and licences need."""
    members = _wheel(file) if file.suffix == ".whl" else _source(file)
    for name, data in members:
        path = target / _inside(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise SystemExit(f"build_deb: a dependency wants to write to {name}")
    return path


def _wheel(file: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            name = re.sub(r"^[^/]+\.data/(purelib|platlib)/", "", member.filename)
            if not member.is_dir() and _wanted(name):
                yield name, archive.read(member)


def _source(file: Path) -> Iterator[tuple[str, bytes]]:
    """`<name>-<version>/<name>/…` and its PKG-INFO, of the one kind of source archive that we have."""
    stem = file.name.removesuffix(".tar.gz")
    package = stem.rpartition("-")[0]
    with tarfile.open(file) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member) if member.isfile() else None
            if content is None:
                continue
            inner = member.name.removeprefix(stem + "/")
            if inner == "PKG-INFO":
                yield f"{stem}.dist-info/METADATA", content.read()
            elif inner.startswith("LICENSE"):
                yield f"{stem}.dist-info/licenses/{inner}", content.read()
            elif inner.startswith(package + "/") and _wanted(inner):
                yield inner, content.read()


def _wanted(name: str) -> bool:
    parts = PurePosixPath(name).parts
    if parts[0].endswith(".dist-info"):
        return parts[1] in KEPT or "licen" in name.lower() or os.path.basename(name).startswith(("COPYING", "NOTICE"))
    if ".data/" in name or "/tests/" in name:
        return False
    return not name.endswith((".pyi", ".pyx", ".pxd", ".c", ".h", ".hpp", ".cpp", "py.typed", ".pyc"))
