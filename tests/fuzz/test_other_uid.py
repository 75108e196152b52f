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
_LINGER = r"""
import socket, sys
held = []
for path in sys.argv[1:]:
    s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(path); held.append(s)
    if "mcp" not in path:  # needs no identity, and is answered
        s.sendall(b'{"method":"org.varlink.service.GetInfo"}\0')
        assert b"amux" in s.recv(65536)
for s in held:
    assert s.recv(1) == b""
print("ended")
"""
_FLOOD = r"""
import select, socket, sys
told = b""
while b"connections_per_uid" not in told:  # the first are ended while the last come, where that takes seconds
    held = []
    for number in range(300):
        s = socket.socket(socket.AF_UNIX); s.settimeout(30); s.connect(sys.argv[1 + number % (len(sys.argv) - 1)])
        held.append(s)
        try:
            s.sendall(b'{"method":"io.amux.Hub.WhoAmI","x":"' + b"x" * 900)
        except OSError:
            pass
    for s in select.select(held, [], [], 30)[0]:
        try:
            told += s.recv(65536)
        except OSError:
            pass
print(told, flush=True)
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
def test_s8_another_uid_is_refused_on_every_socket_and_not_kept_connected(open_hub: Hub) -> None:
    with open_hub as hub, hub.connect() as channel:
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
        assert "error" not in channel.call("io.amux.Hub.WhoAmI")
        said, _ = _as_other(_LINGER, hub).communicate(timeout=WAIT_SECONDS)
        assert said == "ended\n"
        assert "error" not in channel.call("io.amux.Hub.WhoAmI")  # the owner's stay


@pytest.mark.root
def test_s5_c44_the_connections_of_another_uid_are_its_own_limit(open_hub: Hub) -> None:
    with open_hub as hub:
        other = _as_other(_FLOOD, hub)
        assert other.stdout is not None and '"value":128,"found":129' in other.stdout.readline()
        channels = [hub.connect() for _ in range(100)]
        for channel in channels:
            assert channel.call("io.amux.Memory.Get", path="a.md")["parameters"]["exists"] is False
            channel.close()
        other.communicate(timeout=WAIT_SECONDS)
