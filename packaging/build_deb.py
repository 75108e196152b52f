"""Builds the Debian package of one suite and prints its path.

    build_deb.py [--suite bookworm|trixie] [--version VERSION] [--out DIRECTORY] [--cache DIRECTORY] [--quick]

Promises that the same sources, time (SOURCE_DATE_EPOCH, else that of the newest commit) and suite give the same
bytes; that every dependency is one of packaging/wheels.lock; and that no account but one's own is needed: owners are
set by dpkg-deb. Nothing is compiled but amux.pyz, so a machine of one suite builds for the others.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from amux import __version__
from debpkg import control, tree
from debpkg.suite import SUITES, Suite, architecture, running

SMALL, QUICK = ("-Zxz", "-z6"), ("-Zgzip", "-z1")
"""Options of dpkg-deb(1): most of a build's time is spent on the former."""


def build(suite: Suite, version: str, out: Path, cache: Path, compression: tuple[str, ...] = SMALL) -> Path:
    """The path of the package, replaced at once."""
    epoch = control.epoch()
    whole = f"{version}+deb{suite.release}"
    out.mkdir(parents=True, exist_ok=True)
    target = out / f"amux-hub_{whole}_{architecture()}.deb"
    with tempfile.TemporaryDirectory(dir=out, prefix=".unfinished-") as scratch:
        root = Path(scratch, "root")
        root.mkdir()
        tree.lay_out(root, suite, cache)
        control.write(root, suite, whole, epoch)
        tree.settle(root, epoch)
        made = Path(scratch, target.name)
        command = ["dpkg-deb", "--root-owner-group", *compression, "--build", str(root), str(made)]
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "SOURCE_DATE_EPOCH": str(epoch), "LC_ALL": "C.UTF-8"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        made.replace(target)
    return target


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Build the Debian package of amux-hub.")
    parser.add_argument("--suite", choices=SUITES, default=running() or "bookworm", help="default: %(default)s")
    parser.add_argument("--version", default=__version__, help="of the package, for tests of upgrades")
    parser.add_argument("--out", type=Path, default=tree.ROOT / "dist")
    parser.add_argument("--cache", type=Path, default=tree.ROOT / "build", help="where downloaded wheels are kept")
    parser.add_argument("--quick", action="store_true", help="compress little: a larger file, in a quarter of the time")
    options = parser.parse_args(arguments)
    suite, out, cache = SUITES[options.suite], options.out.resolve(), options.cache.resolve()
    print(build(suite, options.version, out, cache, QUICK if options.quick else SMALL))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
