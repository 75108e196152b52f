"""Images: a directory for each recipe in a cache, built once by mmdebstrap(1), never written to afterwards.

A build that is killed leaves no mount (it runs in a mount and PID namespace that end with it) and no image, only a
directory `*.new` that the next build removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.booted.lab.archive import sources, transport
from tests.booted.lab.recipe import Recipe, recipe
from tests.booted.lab.trouble import LabError, require, say
from tests.runner.env import ROOT_CACHE

_PROGRESS = 15.0
"""Seconds between two lines about a build that goes on."""
_LONGEST = 900.0
"""Seconds after which a build counts as hung; it takes one to two minutes."""


def directory() -> Path:
    """Where images stand: $AMUX_TESTS_IMAGES, else in root's cache of `make test`. Closed: they hold setuid files."""
    given = os.environ.get("AMUX_TESTS_IMAGES")
    path = Path(given) if given else ROOT_CACHE / "images"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def ensure(suite: str) -> Path:
    """The root directory of the suite's image, built if its recipe was not built yet."""
    require()
    wanted = recipe(suite)
    image = directory() / wanted.name
    with _exclusive(directory() / f"{suite}.lock", f"another build of {suite}"):
        if not image.exists():
            for stale in directory().glob(f"{suite}-*.new"):
                shutil.rmtree(stale)
            _build(wanted, image)
            _forget_others(wanted)
    return image


def _build(wanted: Recipe, image: Path) -> None:
    new = image.with_name(image.name + ".new")
    new.mkdir()
    os.chmod(new, 0o755)  # it becomes / of the machine
    with tempfile.TemporaryDirectory(prefix="amux-image-") as temporary:
        log, settings = Path(temporary) / "log", Path(temporary) / "apt.conf"
        settings.write_text("\n".join([*transport(), 'Acquire::Languages "none";', ""]))
        command = [
            # With the first process of the namespace everything in it dies, and with the last its mounts.
            *("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *("mmdebstrap", "--mode=root", "--variant=apt", "--format=directory", "--skip=output/dev"),
            f"--include={','.join(wanted.packages)}",
            f"--aptopt={settings}",
            "--dpkgopt=force-unsafe-io",
            *(f"--dpkgopt=path-exclude={pattern}" for pattern in wanted.left_out),
            *("--dpkgopt=path-include=/usr/share/doc/*/copyright",),
            *(f"--customize-hook={line}" for line in wanted.finish),
            *(wanted.suite, str(new), *sources(wanted.suite)),
        ]
        began = time.monotonic()
        say(f"building the image of {wanted.suite} (one to two minutes, once; kept in {image})")
        with log.open("wb") as output:
            status = _watch(command, output.fileno(), log, wanted.suite, began)
        if status != 0:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise LabError(f"building the image of {wanted.suite} failed with status {status}:\n{end}")
    os.rename(new, image)
    say(f"built the image of {wanted.suite} in {time.monotonic() - began:.0f} s")


def _watch(command: list[str], output: int, log: Path, suite: str, began: float) -> int:
    """Wait for a build, and say every now and then what it is at."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output) as process:
        try:
            while True:
                try:
                    return process.wait(_PROGRESS)
                except subprocess.TimeoutExpired:
                    passed = time.monotonic() - began
                    if passed > _LONGEST:
                        raise LabError(f"building the image of {suite} hangs: stopped after {passed:.0f} s") from None
                    lines = log.read_text(errors="replace").splitlines() or ["starting"]
                    say(f"{suite}: {passed:.0f} s, {lines[-1].strip()[:80]}")
        finally:
            process.kill()


def _forget_others(wanted: Recipe) -> None:
    """Remove images of the suite's former recipes; one that a running machine still uses stays."""
    for other in directory().glob(f"{wanted.suite}-*"):
        if other.name == wanted.name or not other.is_dir():
            continue
        with in_use(other, fcntl.LOCK_EX) as alone:
            if alone:
                say(f"removing the image of a former recipe, {other.name}")
                shutil.rmtree(other)


@contextmanager
def in_use(image: Path, how: int = fcntl.LOCK_SH) -> Iterator[bool]:
    """Hold an image while a machine runs on it; answers False if it is held in a way that excludes `how`."""
    descriptor = os.open(image, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


@contextmanager
def _exclusive(path: Path, other: str) -> Iterator[None]:
    """One builder at a time; a killed one holds nobody up."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {other}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
