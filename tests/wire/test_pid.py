"""A pid is a decoration for logs: whose a connection is was settled at connect(2), whatever becomes of it (S3)."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

from tests.harness import Hub

_CONNECT = """
import socket, sys
made = socket.socket(socket.AF_UNIX)
made.connect(sys.argv[1])
socket.send_fds(socket.socket(fileno=int(sys.argv[2])), [b"x"], [made.fileno()])
"""


def test_s3_a_connection_is_its_uid_s_although_its_process_is_gone(tmp_path: Path) -> None:
    """Who inherits a connection is served as the one who made it; the number of a process decides nothing."""
    ours, theirs = socket.socketpair()
    with Hub(tmp_path) as hub, ours, theirs:
        command = [sys.executable, "-c", _CONNECT, str(hub.sockets["hub"]), str(theirs.fileno())]
        made = subprocess.Popen(command, pass_fds=[theirs.fileno()])
        assert made.wait(timeout=60) == 0
        _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
        assert not Path(f"/proc/{made.pid}").exists()
        with hub.connect("hub") as channel:
            own = channel.call("io.amux.Hub.WhoAmI")
        with socket.socket(fileno=fd) as inherited:
            inherited.settimeout(30)
            inherited.sendall(b'{"method":"io.amux.Hub.WhoAmI"}\0')
            answer = inherited.recv(8192)
    assert json.loads(answer[:-1]) == own and "pid" not in own["parameters"]
