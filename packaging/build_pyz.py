"""Build `amux.pyz`: the package `amux` and click as one file that `/usr/bin/python3 -IS` runs.

    python3 packaging/build_pyz.py OUT [--python /usr/bin/python3] [--click DIRECTORY]

Promises that the same sources, click and interpreter give the same bytes; that every module stands as `.py`
beside `.pyc` (the interpreter's own minor version skips compiling, any other compiles and still runs); and that
all members are stored, not deflated: starting from them is faster than inflating. The `.pyc` are unchecked
hash-based ones (PEP 552): nothing compares times. Uses the standard library; click is only copied.
"""

from __future__ import annotations

import argparse
import base64
import importlib.util
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "hub" / "amux"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The earliest time that a zip archive can name."""

MAIN = '''\
"""The entry of amux.pyz."""

import sys

from amux.__main__ import main

sys.exit(main())
'''

# Runs in the interpreter that the archive is for, which may see another tree of files (chroot): sources come by
# standard input, compiled modules leave by standard output. The second word of a pair is the name inside the archive:
# it is what a traceback shows, and the build's own paths must not decide the bytes.
COMPILE = """
import base64, importlib.util, json, marshal, sys
compiled = {}
for name, text in json.load(sys.stdin).items():
    data = base64.b64decode(text)
    code = compile(data, "amux.pyz/" + name, "exec", dont_inherit=True, optimize=0)
    flags = (1).to_bytes(4, "little")  # hash-based, not checked: PEP 552
    header = importlib.util.MAGIC_NUMBER + flags + importlib.util.source_hash(data)
    compiled[name] = base64.b64encode(header + marshal.dumps(code)).decode()
json.dump(compiled, sys.stdout)
"""


def find_click() -> Path:
    """The directory of click beside the interpreter that runs this."""
    spec = importlib.util.find_spec("click")
    if spec is None or spec.origin is None:
        raise SystemExit("build_pyz: click is not importable here: install it, or name its directory with --click")
    return Path(spec.origin).parent


def sources(click: Path) -> dict[str, Path]:
    """Name in the archive → file, sorted."""
    found: dict[str, Path] = {}
    for package in (PACKAGE, click):
        for path in package.rglob("*.py"):
            found[f"{package.name}/{path.relative_to(package).as_posix()}"] = path
    return dict(sorted(found.items()))


def compile_all(python: Sequence[str], files: dict[str, Path]) -> dict[str, bytes]:
    """Name of the `.py` → bytes of its `.pyc`, compiled by the command `python`."""
    listing = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    command = [*python, "-IS", "-c", COMPILE]
    done = subprocess.run(command, input=json.dumps(listing).encode(), stdout=subprocess.PIPE, check=True)
    return {name: base64.b64decode(text) for name, text in json.loads(done.stdout).items()}


def licences(click: Path) -> dict[str, bytes]:
    """The licence texts that must travel with the copies."""
    found = {"LICENSE": (ROOT / "LICENSE").read_bytes()}
    for path in sorted(click.parent.glob("click-*.dist-info/**/LICENSE*")):
        found[f"click/{path.name}"] = path.read_bytes()
    return found


def build(out: Path, python: Sequence[str], click: Path, compression: int = zipfile.ZIP_STORED) -> None:
    """Write the archive to `out`, replacing it at once."""
    with tempfile.TemporaryDirectory() as scratch:
        main = Path(scratch, "__main__.py")
        main.write_text(MAIN)
        files = {"__main__.py": main, **sources(click)}
        compiled = compile_all(python, files)
        members = licences(click)
        for name, path in files.items():
            members[name] = path.read_bytes()
            members[name + "c"] = compiled[name]
    unfinished = out.with_name(f".{out.name}.unfinished")
    try:
        with zipfile.ZipFile(unfinished, "w", compression) as archive:
            for name in sorted(members):
                entry = zipfile.ZipInfo(name, EPOCH)
                entry.external_attr = 0o100644 << 16
                entry.compress_type = compression
                archive.writestr(entry, members[name])
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Build amux.pyz.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default="/usr/bin/python3", help="the interpreter that will run it")
    parser.add_argument("--click", type=Path, help="the directory of the click package to copy")
    arguments = parser.parse_args(argv)
    build(arguments.out, [arguments.python], arguments.click or find_click())
    size = arguments.out.stat().st_size // 1024
    print(f"{arguments.out}, {size} KiB; run it as: python3 -IS {arguments.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
