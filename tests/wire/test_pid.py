"""A pid is a decoration for logs: whose a connection is was settled at connect(2), whatever becomes of it (S3)."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

from tests.harness import Hub


def test_s3_a_connection_is_its_uid_s_although_its_process_is_gone(tmp_path: Path) -> None:
    """Who inherits a connection is served as the one who made it; the number of a process decides nothing."""
    ours, theirs = socket.socketpair()
    with Hub(tmp_path) as hub, ours, theirs:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                made = socket.socket(socket.AF_UNIX)
                made.connect(str(hub.sockets["hub"]))
                socket.send_fds(theirs, [b"x"], [made.fileno()])
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
        assert not Path(f"/proc/{child}").exists()
        with hub.connect("hub") as channel:
            own = channel.call("io.amux.Hub.WhoAmI")
        with socket.socket(fileno=fd) as inherited:
            inherited.settimeout(30)
            inherited.sendall(b'{"method":"io.amux.Hub.WhoAmI"}\0')
            answer = inherited.recv(8192)
    assert json.loads(answer[:-1]) == own and "pid" not in own["parameters"]
