"""Virtual environments: the locked dependencies, made once a lock, and the product installed over them.

Dependencies and product are kept apart so that every run tests the product as a wheel installs it, while
the half minute of pip is spent once. Nothing here is built from anything but packaging/requirements.lock, and for tests
of whole hosts ansible/requirements.lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
LOCK = CHECKOUT / "packaging" / "requirements.lock"
HOST_LOCK = CHECKOUT / "ansible" / "requirements.lock"
ROOT_CACHE = Path("/var/cache/amux-hub")
_KEY = "amux-lock"


class TroubleError(Exception):
    """Something about the machine or the checkout; the message says what, and what to do."""


def say(text: str) -> None:
    print(text, flush=True)


def base_directory() -> Path:
    """Where environments and runs live: a cache that every account can enter, or the user's own checkout."""
    base = ROOT_CACHE if os.geteuid() == 0 else CHECKOUT / "build"
    base.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        base.chmod(0o755)
    return base


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """One process at a time; a killed one holds nobody up."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another run that is setting up ({path})")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _quiet(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TroubleError(f"{what} failed ({' '.join(command)}):\n{done.stdout}{done.stderr}".rstrip())


def pip(python: Path, *arguments: str, what: str) -> None:
    common = ["--disable-pip-version-check", "--no-input", "--quiet"]
    _quiet([str(python), "-m", "pip", *common, *arguments], what)


def locked(directory: Path, interpreter: str = sys.executable, lock: Path = LOCK) -> Path:
    """A virtual environment at `directory` with exactly the locked packages; returns its interpreter."""
    python = directory / "bin" / "python"
    key = _key(interpreter, lock)
    build = CHECKOUT / "build" if directory.parent == CHECKOUT else directory.parent
    build.mkdir(exist_ok=True)
    with exclusive(build / "setup.lock"):
        if _marker(directory) == key:
            return python
        if directory.exists() and _marker(directory) is None:
            raise TroubleError(f"{directory} was not made by this command; move it away, then run it again")
        shutil.rmtree(directory, ignore_errors=True)
        say(f"setting up {directory} from {lock.relative_to(CHECKOUT)} (half a minute, once)")
        directory.mkdir()
        (directory / _KEY).write_text("unfinished\n")
        _quiet([interpreter, "-I", "-m", "venv", str(directory)], "making a virtual environment")
        # sdnotify comes as source: built by the standard interface, without the deprecated setup.py install.
        pip(python, "install", "--use-pep517", "-r", str(lock), what="installing the locked packages")
        (directory / _KEY).write_text(key + "\n")
    return python


def shared_name(interpreter: str, lock: Path = LOCK) -> str:
    """The name of a cached environment: one for each lock and interpreter."""
    return f"env-{_key(interpreter, lock)[:16]}"


def development() -> Path:
    """`.venv` of the checkout, the product installed so that edits take effect; returns its interpreter."""
    directory = CHECKOUT / ".venv"
    python = locked(directory)
    marker = directory / "amux-editable"
    wanted = hashlib.sha256((CHECKOUT / "pyproject.toml").read_bytes()).hexdigest()
    if not marker.exists() or marker.read_text() != wanted:
        offline = ["--no-deps", "--no-index", "--no-build-isolation"]
        pip(python, "install", *offline, "-e", str(CHECKOUT), what="installing the product into .venv")
        marker.write_text(wanted)
    return python


def overlay(dependencies: Path, source: Path, directory: Path, interpreter: str = sys.executable) -> Path:
    """The product from `source`, built as a wheel and installed at `directory` over `dependencies`."""
    wheels = directory.with_name(directory.name + ".wheel")
    offline = ["--no-deps", "--no-index"]
    build = ["wheel", *offline, "--no-build-isolation", "-w", str(wheels), str(source)]
    pip(dependencies, *build, what="building the wheel")
    (wheel,) = wheels.glob("amux_hub-*.whl")
    _quiet([interpreter, "-I", "-m", "venv", "--without-pip", str(directory)], "making a virtual environment")
    python = directory / "bin" / "python"
    pip(dependencies, "--python", str(python), "install", *offline, str(wheel), what="installing the wheel")
    (own,) = directory.glob("lib/python*/site-packages")
    (theirs,) = dependencies.parent.parent.glob("lib/python*/site-packages")
    (own / "locked-packages.pth").write_text(f"{theirs}\n")
    shutil.rmtree(wheels)
    return python


def _key(interpreter: str, lock: Path) -> str:
    version = subprocess.run([interpreter, "-VV"], capture_output=True, check=True).stdout
    parts = [lock.read_bytes(), interpreter.encode(), version]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _marker(directory: Path) -> str | None:
    """The key that an environment of ours was made for; `unfinished` after an interrupted attempt."""
    try:
        return (directory / _KEY).read_text().strip()
    except FileNotFoundError:
        return None if directory.exists() and any(directory.iterdir()) else ""
