"""Versions: this package, the running Hub, Python, and what it is built on."""

from __future__ import annotations

import importlib
import platform
import sys
from importlib import metadata

from amux import __version__
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError
from amux_hub.doctor.host import Host

DEPENDENCIES = {
    "asyncvarlink": "asyncvarlink",
    "click": "click",
    "mcp": "mcp",
    "pyyaml": "yaml",
    "sdnotify": "sdnotify",
    "stringzilla": "stringzilla",
}
"""Distribution → module."""

_PYTHON = (3, 11)


def _versions(host: Host, findings: Findings) -> str:
    summary = f"amux-hub {__version__}, Python {platform.python_version()}"
    if sys.version_info < _PYTHON:
        findings.problem("python", sys.executable, platform.python_version(), "3.11 or newer", "upgrade Python")
    try:
        version = host.running.version
    except SkippedError as reason:
        return f"{summary}; {reason}"
    except (OSError, ValueError):
        return f"{summary}; the running Hub does not say its own"
    if version != __version__:
        findings.warning("running", "the running Hub", f"version {version}", f"{__version__}, installed", host.restart)
    return f"{summary}, running {version}"


def _dependencies(host: Host, findings: Findings) -> str:
    found = []
    for distribution, module in DEPENDENCIES.items():
        try:
            importlib.import_module(module)
            found.append(f"{distribution} {metadata.version(distribution)}")
        except Exception as error:  # noqa: BLE001 - a broken library may fail in any way
            fix = f"{host.sudo}apt-get install --reinstall amux-hub" if host.system else "pip install --force amux-hub"
            findings.problem("import", distribution, f"{type(error).__name__}: {error}", "importable", fix)
    return ", ".join(found)


CHECKS = (Check("versions", _versions), Check("dependencies", _dependencies, 60))
