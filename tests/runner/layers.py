"""The layers of the tests: which folders, what else they need on the machine, how long they may take."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Layer:
    """`needs` maps a command to the Debian package that brings it; `seconds` ends a run that hangs.

    A layer that is `root_only` runs as root alone, all of it, whatever its tests are marked.
    """

    name: str
    needs: tuple[tuple[str, str], ...] = ()
    seconds: int = 600
    second_interpreter: bool = False
    root_only: bool = False


LAYERS = (
    Layer("lint"),
    Layer("unit", second_interpreter=True),
    Layer("store", second_interpreter=True),
    Layer("property"),
    Layer("wire", second_interpreter=True),
    Layer("service"),
    Layer("pam"),
    Layer("materializer"),
    Layer("systemd", needs=(("systemd-analyze", "systemd"),)),
    Layer("packaging", needs=(("lintian", "lintian"), ("strip", "binutils"), ("groff", "groff-base"))),
    Layer("cli", second_interpreter=True),
    Layer("mcp"),
    Layer("launch"),
    Layer("fuzz"),
    Layer("faults", needs=(("strace", "strace"),), seconds=900),
    Layer("clients", needs=(("node", "nodejs"), ("npm", "npm")), seconds=900),
    Layer(
        "booted",
        needs=(
            *(("systemd-nspawn", "systemd-container"), ("mmdebstrap", "mmdebstrap")),
            *(("ip", "iproute2"), ("ssh", "openssh-client")),
        ),
        seconds=1800,
        root_only=True,
    ),
)

NOT_LAYERS = {"runner", "demo", "bench", "data", "host"}
"""Folders under tests/ that no layer runs: tools, the demo, the bench, inputs, and the checks of a deployed host."""


def present(tests: Path) -> list[Layer]:
    """The layers whose folders hold tests, in order; a folder that the table does not know comes last."""
    folders = {path.parent.relative_to(tests).parts[0] for path in tests.glob("*/**/test_*.py")} - NOT_LAYERS
    known = [layer for layer in LAYERS if layer.name in folders]
    names = {layer.name for layer in known}
    return known + [Layer(name) for name in sorted(folders - names)]


def missing(layers: list[Layer]) -> dict[str, list[Layer]]:
    """Debian packages that are missing, each with the layers that need it."""
    found: dict[str, list[Layer]] = {}
    for layer in layers:
        for command, package in layer.needs if os.geteuid() == 0 or not layer.root_only else ():
            if shutil.which(command) is None:
                found.setdefault(package, []).append(layer)
    return found


def has_root_tests(tests: Path) -> bool:
    """Whether any test wants to run as root (`@pytest.mark.root`)."""
    mark = re.compile(r"\bmark\.root\b")
    return any(mark.search(path.read_text(encoding="utf-8")) for path in tests.glob("*/**/test_*.py"))


def install(packages: list[str]) -> str | None:
    """Install Debian packages as root; the end of apt's output if that failed."""
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["env", *(f"{k}={v}" for k, v in environment.items()), "apt-get", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            return done.stdout[-2000:]
    return None
