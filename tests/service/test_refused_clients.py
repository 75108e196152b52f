"""A client that is refused or cut off reads why, even if the Hub hung up before the call was sent."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from amux import endpoint
from amux.client import Client
from amux.errors import AmuxError, varlink_name
from tests.service.conftest import MakeHub


def test_c44_the_command_line_is_told_which_limit(make_hub: MakeHub) -> None:
    hub = make_hub(config={"limits": {"connections_per_uid": 1}}).start()
    where = endpoint.choose({"AMUX_HUB": str(hub.sockets["hub"])})
    with hub.connect() as channel:
        assert "error" not in channel.call("io.amux.Hub.WhoAmI")
        for _ in range(50):  # the refusal comes before, while or after the call is sent
            with pytest.raises(AmuxError) as caught, Client(where, environ={}) as client:
                client.call("io.amux.Hub.WhoAmI", {})
            assert caught.value.code == "limit_exceeded"
            assert caught.value.details["limit"] == "limits.connections_per_uid"


def test_a_large_write_that_a_drain_cut_off_is_sent_again(tmp_path: Path) -> None:
    """Part of it left, then the receiving side was shut: the answer says that it was not run."""
    path = tmp_path / "hub.sock"
    stopping = {"error": varlink_name("shutting_down"), "parameters": {"message": "stopping", "details": {}}}
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            first, _ = listening.accept()
            first.recv(1000)
            first.shutdown(socket.SHUT_RD)
            first.sendall(json.dumps(stopping).encode() + b"\0")
            first.close()
            second, _ = listening.accept()
            received = b""
            while not received.endswith(b"\0"):
                received += second.recv(65536)
            second.sendall(json.dumps({"parameters": {"length": len(received)}}).encode() + b"\0")
            second.close()

        server = threading.Thread(target=serve)
        server.start()
        where = endpoint.choose({"AMUX_HUB": str(path)})
        assert where.kind == "private" and os.geteuid() == os.getuid()
        with Client(where, environ={}) as client:
            content = "x" * 500_000  # more than the kernel takes at once
            reply = client.call("io.amux.Memory.Upsert", {"content": content}, writes="a.md")
        server.join(30)
        assert reply["length"] > 500_000
