"""Another UID, a real one, on the sockets of a private Hub that somebody opened to all: refused, and no burden."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness import NAMES, WAIT_SECONDS, Hub

_ASK = r"""
import socket, sys
calls = (b'{"method":"io.amux.Hub.WhoAmI"}\0', b'{"method":"io.amux.Memory.Get","parameters":{"path":"secret.md"}}\0',
    b'{"method":"io.amux.Admin.SetSetting","parameters":{"key":"memory.enabled","value":"false"}}\0')
for path in sys.argv[1:]:
    for data in (b'{"amux":1}\n', b'{"amux":1,"binding":"global"}\n') if "mcp" in path else calls:
        s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(path); s.sendall(data + data)
        s.shutdown(socket.SHUT_WR)
        answers = b""
        while more := s.recv(65536):
            answers += more
        print(answers)
"""
_FLOOD = r"""
import socket, sys
held = []
for number in range(300):
    s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1 + number % (len(sys.argv) - 1)])
    held.append(s)
    try:
        s.sendall(b'{"method":"io.amux.Hub.WhoAmI","x":"' + b"x" * 900)
    except OSError:
        pass
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def open_hub(tmp_path: Path) -> Hub:
    hub = Hub(tmp_path, held=True, config={"timeouts": {"first_frame": 120}})
    hub.hold()
    for directory in (hub.runtime.parent, hub.runtime):
        directory.chmod(0o755)
    for path in hub.sockets.values():
        path.chmod(0o666)
    return hub


def _as_other(program: str, hub: Hub) -> subprocess.Popen[str]:
    command = [sys.executable, "-IS", "-c", program, *(str(hub.sockets[name]) for name in NAMES)]
    return subprocess.Popen(
        command, user=12345, group=12345, extra_groups=[], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.root
def test_s8_another_uid_is_refused_on_every_socket(open_hub: Hub) -> None:
    with open_hub as hub:
        secret = {"path": "secret.md", "content": "for the owner", "expected_revision": "absent"}
        assert "error" not in hub.call("io.amux.Memory.Upsert", **secret)
        answers, _ = _as_other(_ASK, hub).communicate(timeout=WAIT_SECONDS)
        lines = answers.splitlines()
        assert len(lines) == 3 + 2 + 3
        for line in lines:
            assert "for the owner" not in line and '"parameters":{"path"' not in line
            if "InterfaceNotFound" not in line:  # hub.sock has no Admin, for whomever
                assert "12345" in line and line.count('"error"') == 1  # the second call was not looked at
        assert json.loads((hub.home / "settings.yaml").read_text()) == {"memory": {"enabled": True}}


@pytest.mark.root
def test_s5_c44_the_connections_of_another_uid_are_its_own_limit(open_hub: Hub) -> None:
    with open_hub as hub:
        other = _as_other(_FLOOD, hub)
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        channels = [hub.connect() for _ in range(100)]
        for channel in channels:
            assert channel.call("io.amux.Memory.Get", path="a.md")["parameters"]["exists"] is False
            channel.close()
        assert hub.call("io.amux.Hub.GetStatus", socket_name="admin")["parameters"]["connections_refused"] == 300 - 128
        other.communicate(timeout=WAIT_SECONDS)
