"""Lays out what the package installs, below a directory that stands for /.

Promises: every file is a copy or generated from the code; modes are 0644 and 0755; nothing depends on the clock, the
account or the place of the build.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import build_pyz
from debpkg import man, wheels
from debpkg.suite import Suite, architecture, interpreter

ROOT = wheels.ROOT
FILES = Path(__file__).with_name("files")
LIBRARY = "usr/lib/amux"
MODULES = f"{LIBRARY}/site-packages"

START = '''\
#!/usr/bin/python3 -IS
"""{name}: nothing of the working directory, the environment or the host's own Python packages is imported."""

import sys

sys.path.insert(0, "/{modules}")

from {module} import {function}

sys.exit({function}())
'''


def lay_out(root: Path, suite: Suite, cache: Path) -> None:
    """Everything but the control files."""
    _modules(root / MODULES, suite, cache)
    _programs(root)
    _units(root)
    _archive(root, suite)
    _put(root, f"{LIBRARY}/launch-bin/amux", (FILES / "launch-amux").read_bytes(), 0o755)
    _put(root, "etc/amux/hub.yaml", (FILES / "hub.yaml").read_bytes())
    pam = ROOT / "packaging" / "pam.d" / "amux"
    if pam.exists():
        _put(root, "etc/pam.d/amux", pam.read_bytes())
    _completions(root)
    _pages(root)


def _put(root: Path, name: str, data: bytes, mode: int = 0o644) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def packages() -> list[Path]:
    """The import packages of the product."""
    return [ROOT / name for name in _project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]]


def scripts() -> dict[str, str]:
    """Program → `module:function`."""
    found: dict[str, str] = _project()["project"]["scripts"]
    return found


def _modules(target: Path, suite: Suite, cache: Path) -> None:
    target.mkdir(parents=True)
    for file in wheels.fetch(suite, architecture(), cache / f"wheels-{suite.name}-{architecture()}"):
        wheels.unpack(file, target)
    for library in sorted(target.rglob("*.so*")):
        subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "py.typed")
    for package in packages():
        shutil.copytree(package, target / package.name, ignore=ignored)


def _programs(root: Path) -> None:
    for name, entry in sorted(scripts().items()):
        module, function = entry.split(":")
        text = START.format(name=name, modules=MODULES, module=module, function=function)
        _put(root, "usr/bin/amux" if name == "amux" else f"{LIBRARY}/bin/{name}", text.encode(), 0o755)
    # A person runs a private Hub by its name; the helpers of the system have no name to be called by.
    (root / "usr/bin/amux-hub").symlink_to("../lib/amux/bin/amux-hub")


def units() -> list[str]:
    """Names of the system's units that are enabled or started by themselves."""
    return sorted(path.name for path in (ROOT / "systemd").iterdir() if path.suffix in (".service", ".socket"))


def mounts() -> list[str]:
    """Names of its mount units, which a service brings along: nobody enables them."""
    return sorted(path.name for path in (ROOT / "systemd").glob("*.mount"))


def _units(root: Path) -> None:
    for path in sorted((ROOT / "systemd").rglob("*")):
        if not path.is_file():
            continue
        kind = path.parent.name
        folder = {"user": "systemd/user", "systemd": "systemd/system"}.get(kind, kind)
        _put(root, f"usr/lib/{folder}/{path.name}", path.read_bytes())


def _archive(root: Path, suite: Suite) -> None:
    out = root / LIBRARY / "amux.pyz"
    build_pyz.build(out, interpreter(suite), root / MODULES / "click")


def _completions(root: Path) -> None:
    """What `amux completion` of this very tree prints."""
    code = f"import sys; sys.path[:0] = [{str(root / MODULES)!r}]; from amux.__main__ import main; sys.exit(main())"
    for shell, name in (
        ("bash", "usr/share/bash-completion/completions/amux"),
        ("zsh", "usr/share/zsh/vendor-completions/_amux"),
        ("fish", "usr/share/fish/vendor_completions.d/amux.fish"),
    ):
        command = [sys.executable, "-ISB", "-c", code, "completion", shell]
        _put(root, name, subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def _pages(root: Path) -> None:
    pages = {name: render() for name, render in man.PAGES.items()}
    for path in FILES.glob("*.8"):
        pages[path.name] = path.read_text(encoding="utf-8")
    for name, text in pages.items():
        folder = f"usr/share/man/man{name[-1]}"
        _put(root, f"{folder}/{name}.gz", compressed(text.encode()))
    _put(root, "usr/share/doc/amux-hub/README.md", (ROOT / "README.md").read_bytes())
    _put(root, "usr/share/doc/amux-hub/changelog.upstream.gz", compressed((ROOT / "CHANGELOG.md").read_bytes()))
    overrides = (FILES / "lintian-overrides").read_bytes()
    _put(root, "usr/share/lintian/overrides/amux-hub", overrides)


def compressed(data: bytes) -> bytes:
    """gzip(1) -9n: without a name or a time."""
    return gzip.compress(data, 9, mtime=0)


def settle(root: Path, epoch: int) -> None:
    """Modes and times of everything below, whatever umask and clock of the build were."""
    for directory, _, names in os.walk(root, topdown=False):
        for path in [*(Path(directory, name) for name in names), Path(directory)]:
            if path.is_symlink():
                os.utime(path, (epoch, epoch), follow_symlinks=False)
                continue
            executable = path.is_dir() or (stat.S_IMODE(path.stat().st_mode) & 0o100 and MODULES not in str(path))
            path.chmod(0o755 if executable else 0o644)
            os.utime(path, (epoch, epoch))
