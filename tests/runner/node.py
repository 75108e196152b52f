"""Node for the clients that tests drive: the machine's own if it is new enough, else one from the npm registry.

Debian 12 ships Node 18, and the real clients want 20. npm brings a newer one as an ordinary package; it goes
into the tests' cache, is fetched and run as the account of the tests, and reaches nothing else.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.runner.env import say
from tests.runner.place import Place

MINIMUM = 20
VERSION = "22.23.5"
SYSTEM_TRUST = Path("/etc/ssl/certs/ca-certificates.crt")
"""Debian's own Node trusts the system's certificates; the one that stands in for it has to be told."""

_ARCHITECTURES = {"x86_64": "x64", "aarch64": "arm64"}


def with_node(place: Place) -> Place:
    """`place` with a Node of at least MINIMUM first on its PATH; unchanged if there is none to be had."""
    path = place.environment["PATH"]
    architecture = _ARCHITECTURES.get(platform.machine())
    if architecture is None or shutil.which("npm", path=path) is None or _major(path) >= MINIMUM:
        return place
    name = f"node-linux-{architecture}"
    home = place.cache / f"node-{VERSION}"
    binaries = home / "node_modules" / name / "bin"
    if not (binaries / "node").exists():
        say(f"this machine's Node is older than {MINIMUM}: installing {name} {VERSION} into {place.cache}")
        install = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(home)]
        account = place.account
        done = subprocess.run(
            [*install, f"{name}@{VERSION}"],
            env=place.environment,
            cwd=place.tmp,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )
        if done.returncode != 0:
            say(f"it could not be installed: {done.stderr.strip()[-500:]}")
            return place
    environment = {**place.environment, "PATH": f"{binaries}:{path}"}
    if SYSTEM_TRUST.exists():
        environment.setdefault("NODE_EXTRA_CA_CERTS", str(SYSTEM_TRUST))
    return replace(place, environment=environment)


def _major(path: str) -> int:
    node = shutil.which("node", path=path)
    if node is None:
        return 0
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)\.", shown)
    return int(found.group(1)) if found else 0
