"""Programs from npm that tests drive, each of one pinned version, in a cache outside the checkout.

Install scripts of packages are never run. A program that cannot be installed skips its tests by name and
reason, which is a failure where everything must run (AMUX_TESTS_REQUIRE_ALL=1).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

INSTALL_SECONDS = 600

CODEX = ("@openai/codex", "0.153.4")
CODEX_CURRENT = ("@openai/codex", "0.171.0")
CLAUDE_CODE = ("@anthropic-ai/claude-code", "2.1.332")
PI = ("@mariozechner/pi-coding-agent", "0.73.1")
INSPECTOR = ("@modelcontextprotocol/inspector", "1.0.3")
CONFORMANCE = ("@modelcontextprotocol/conformance", "0.1.13")
"""The last of its releases that starts on Node 20, which Debian 13 ships: later ones need `fs.globSync`."""


_failed: dict[Path, str] = {}
"""What could not be installed is tried once a run."""


def program(cache: Path, package: tuple[str, str], command: str) -> str:
    """The path of `command` of an npm package, installed on first use. Skips the test if that fails."""
    name, version = package
    home = cache / "npm" / f"{name.removeprefix('@').replace('/', '-')}-{version}"
    path = home / "node_modules" / ".bin" / command
    if path.exists():
        return str(path)
    for needed in ("node", "npm"):
        if shutil.which(needed) is None:
            pytest.skip(f"{name} {version}: {needed} is not installed")
    if home in _failed:
        pytest.skip(_failed[home])
    home.parent.mkdir(parents=True, exist_ok=True)
    with home.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            trouble = _install(home, f"{name}@{version}")
            if trouble is not None:
                _failed[home] = f"{name} {version} cannot be installed: {trouble}"
                pytest.skip(_failed[home])
    assert path.exists(), f"{name} {version} has no command {command}"
    return str(path)


def claude_code(cache: Path) -> str:
    """Claude Code's native binary. Its command is made by an install script, which we do not run."""
    command = Path(program(cache, CLAUDE_CODE, "claude"))
    binaries = list(command.parent.parent.glob("@anthropic-ai/claude-code-linux-*/claude"))
    if not binaries:
        pytest.skip(f"{CLAUDE_CODE[0]} {CLAUDE_CODE[1]} has no binary for this machine")
    return str(binaries[0])


def _install(home: Path, what: str) -> str | None:
    """Install beside `home`, then move there: a run that was interrupted leaves nothing half done."""
    shutil.rmtree(home, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home.parent, ignore_cleanup_errors=True) as temporary:
        target = Path(temporary) / "package"
        target.mkdir()
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(target), what]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_SECONDS,
                check=False,
                cwd=target,
                text=True,
                env={
                    **os.environ,
                    "npm_config_update_notifier": "false",
                    "npm_config_cache": str(home.parent / "_cache"),
                },
            )
        except subprocess.TimeoutExpired:
            return f"npm did not end within {INSTALL_SECONDS} s"
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines() if line.strip()]
            return "; ".join(lines[-3:]) or f"npm ended with {done.returncode}"
        target.rename(home)
    return None
