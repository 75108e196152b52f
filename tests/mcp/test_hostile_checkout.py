"""N4, the part on `-IS`: an MCP server started inside a checkout that brings its own `json.py` and the like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import Hub
from tests.mcp.peers import Relay

PYTHON = "/usr/bin/python3"
TRAPS = ("json.py", "socket.py", "select.py", "signal.py", "struct.py", "sitecustomize.py", "usercustomize.py")


@pytest.fixture(scope="module")
def pyz(tmp_path_factory: pytest.TempPathFactory, source_root: Path) -> Path:
    out = tmp_path_factory.mktemp("pyz") / "amux.pyz"
    subprocess.run([sys.executable, str(source_root / "packaging" / "build_pyz.py"), str(out)], check=True)
    return out


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout in which any import of one of its modules leaves a file behind."""
    path = tmp_path / "checkout"
    (path / "amux").mkdir(parents=True)
    trap = f"import os\nos.close(os.open({str(tmp_path / 'sprung')!r}, os.O_CREAT | os.O_WRONLY))\n"
    for name in (*TRAPS, "amux/__init__.py", "amux/relay.py", "click.py"):
        (path / name).write_text(trap)
    (path / ".env").write_text("AMUX_HUB=/nonexistent/hub.sock\n")
    (path / ".mcp.json").write_text('{"mcpServers":{"amux":{"command":"false"}}}')
    (path / "hub.yaml").write_text("memory: {enabled: false}\n")
    return path


def test_n4_a_checkout_brings_no_code_and_no_settings(shared_hub: Hub, pyz: Path, checkout: Path) -> None:
    env = {"PYTHONPATH": str(checkout), "PYTHONSTARTUP": str(checkout / "json.py"), "PYTHONHOME": "/nonexistent"}
    with Relay(shared_hub, command=[PYTHON, "-IS", str(pyz), "mcp"], cwd=checkout, env=env) as relay:
        relay.open()
        assert relay.tool("memory_get", path="hostile.md")["exists"] is False
        assert relay.finish() == ""
    assert not (checkout.parent / "sprung").exists()


def test_n4_the_trap_would_spring_without_the_flags(shared_hub: Hub, pyz: Path, checkout: Path) -> None:
    """Else the test above would show nothing."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout), "AMUX_HUB": str(shared_hub.sockets["hub"])}
    subprocess.run(
        [PYTHON, str(pyz), "mcp"],
        cwd=checkout,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert (checkout.parent / "sprung").exists()
