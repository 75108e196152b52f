"""What the hot path imports: its start is part of every tool call of an agent, so each module counts.

Measured on real calls against a real Hub, because what a module imports late counts as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.harness import Hub

import amux

NEVER = {
    "_pydecimal",
    "argparse",
    "ast",
    "asyncio",
    "click",
    "concurrent",
    "contextlib",
    "dataclasses",
    "datetime",
    "decimal",
    "email",
    "hashlib",
    "http",
    "importlib.metadata",
    "inspect",
    "locale",
    "logging",
    "pathlib",
    "pickle",
    "random",
    "shutil",
    "ssl",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "traceback",
    "typing",
    "unittest",
    "urllib",
    "xml",
    "yaml",
}
"""Modules that cost milliseconds, or that only something heavier would bring in. (`json` needs `re`, and that
functools and enum; nobody can help that.)"""

CODE = """
import os, sys
before = set(sys.modules)
sys.path[:0] = filter(None, [sys.argv.pop(1), sys.argv.pop(1)])
out = int(sys.argv.pop(1))
from amux.__main__ import main
status = 0
try:
    status = main(sys.argv[1:])
except SystemExit as ended:
    status = ended.code
os.write(out, "\\n".join(set(sys.modules) - before).encode())
sys.exit(status)
"""

TEXT = "# Notes\n\nlantern\n"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub")) as running:
        running.call("io.amux.Memory.Upsert", path="a.md", content=TEXT, expected_revision="absent")
        yield running


def _imported(
    hub: Hub, arguments: list[str], stdin: bytes = b"", also: str = ""
) -> tuple[int, set[str], bytes]:
    """Run one command as a bare interpreter does; its exit status, new modules, standard output.

    `also` is a further directory to import from: a bare interpreter has the standard library alone.
    """
    reading, writing = os.pipe()
    where = str(Path(amux.__file__).parent.parent)
    command = [sys.executable, "-IS", "-c", CODE, where, also, str(writing), *arguments]
    env = {**hub.env, "AMUX_HUB": str(hub.sockets["hub"])}
    process = subprocess.run(command, input=stdin, env=env, pass_fds=[writing], capture_output=True, check=False)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        modules = set(stream.read().decode().split())
    return process.returncode, modules, process.stdout


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["memory", "search", "lantern"], 0),
        (["memory", "show", "a.md"], 0),
        (["memory", "upsert", "b.md", "--expected-revision", "absent"], 0),
        (["memory", "upsert", "a.md", "--expected-revision", "absent"], 4),
        (["memory", "forget", "missing.md", "--expected-revision", "0" * 64], 0),
        (["memory", "show", "../a.md"], 2),
        (["mcp"], 0),
        (["dial-stdio"], 0),
        (["dial-stdio", "--mcp"], 0),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_hot_command_imports_nothing_heavy(hub: Hub, arguments: list[str], status: int) -> None:
    stdin = json.dumps(INITIALIZE).encode() + b"\n" if arguments == ["mcp"] else b""
    found, modules, stdout = _imported(hub, arguments, stdin)
    assert found == status
    if arguments == ["mcp"]:
        assert json.loads(stdout)["result"]["protocolVersion"] == "2025-06-18"
    assert modules, "the command did not come back to its caller"
    heavy = {name for name in modules if name in NEVER or name.partition(".")[0] in NEVER}
    assert not heavy
    assert "amux.cli" not in modules


def test_the_measurement_sees_what_a_cold_command_imports(hub: Hub) -> None:
    where = str(Path(click.__file__).parent.parent)
    status, modules, _ = _imported(hub, ["status"], also=where)
    assert status == 0
    assert {"click", "amux.cli", "typing"} <= modules
