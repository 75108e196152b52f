"""Runs inside a booted host with the package installed, as root: calls of one user beside many principals. Prints JSON.

Accounts are lines of passwd(5) and shadow(5), records of the registry are written as the Hub writes them: enrolling
each by a call would take minutes and measure PAM. Standard library alone, for the host's own Python.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from statistics import median, quantiles
from typing import Any

FIRST_UID = 20_000
CONNECTED = 200
GETS = 400
HOME = Path("/var/lib/amux")


class Client:
    """One connection under a UID of its own: SO_PEERCRED is what connect(2) saw."""

    def __init__(self, uid: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        os.seteuid(uid)
        try:
            self._socket.connect("/run/amux/hub.sock")
        finally:
            os.seteuid(0)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._socket.sendall(json.dumps({"method": method, "parameters": parameters}).encode() + b"\0")
        received = b""
        while not received.endswith(b"\0"):
            received += self._socket.recv(65536)
        answer: dict[str, Any] = json.loads(received[:-1])
        if "error" in answer:
            raise RuntimeError(str(answer))
        return answer["parameters"]  # type: ignore[no-any-return]

    def close(self) -> None:
        self._socket.close()


def accounts(count: int) -> None:
    with open("/etc/passwd", "a") as passwd, open("/etc/shadow", "a") as shadow:
        for number in range(count):
            passwd.write(f"p{number}:x:{FIRST_UID + number}:{FIRST_UID + number}::/nonexistent:/bin/sh\n")
            shadow.write(f"p{number}:*:19000::::::\n")


def enrol(numbers: range) -> None:
    directory = HOME / "registry"
    owner = HOME.stat()
    for number in numbers:
        name = f"p{number}"
        record = {
            "principal": name,
            "first_seen": "2026-01-01T00:00:00Z",
            "accounts": [{"name": name, "uid": FIRST_UID + number, "by": "self"}],
            "former": [],
            "retired": "",
        }
        path = directory / (sha256(name.encode()).hexdigest() + ".json")
        path.write_text(json.dumps(record))
        path.chmod(0o600)
        os.chown(path, owner.st_uid, owner.st_gid)


def milliseconds(began: float) -> float:
    return (time.perf_counter() - began) * 1e3


def systemctl(*words: str) -> str:
    return subprocess.run(["systemctl", *words], check=True, capture_output=True, text=True).stdout.strip()


def resident() -> float:
    """MiB of the Hub."""
    pid = systemctl("show", "-P", "MainPID", "amux-hub.service")
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def measure(principals: int) -> dict[str, float]:
    began = time.perf_counter()
    systemctl("restart", "amux-hub.service")
    started = milliseconds(began)
    first = []
    clients = []
    for number in range(min(principals, CONNECTED)):
        began = time.perf_counter()
        client = Client(FIRST_UID + number)
        client.call("io.amux.Hub.WhoAmI")
        first.append(milliseconds(began))
        clients.append(client)
    one = clients[0]
    found = one.call("io.amux.Memory.Get", path="note.md")
    if not found["exists"]:
        text = "# Note\n\n".ljust(2047, "x") + "\n"
        one.call("io.amux.Memory.Upsert", path="note.md", content=text, expected_revision="absent")
    alone, among = [], []
    for _ in range(GETS):
        began = time.perf_counter()
        one.call("io.amux.Memory.Get", path="note.md")
        alone.append(milliseconds(began))
    for number in range(GETS):
        clients[number % len(clients)].call("io.amux.Memory.List")
        began = time.perf_counter()
        one.call("io.amux.Memory.Get", path="note.md")
        among.append(milliseconds(began))
    result = {
        "principals": principals,
        "connected": len(clients),
        "start_ms": started,
        "first_call_ms": median(first),
        "get_ms": median(alone),
        "get_p95_ms": quantiles(alone, n=20)[18],
        "get_among_others_ms": median(among),
        "resident_mib": resident(),
    }
    for client in clients:
        client.close()
    return result


def main() -> None:
    most = int(sys.argv[1])
    accounts(most)
    systemctl("start", "amux-hub.service")
    Path("/etc/amux/hub.yaml").write_text("memory:\n  enabled: true\nlimits:\n  rate_per_uid: 0\n")
    rows, enrolled = [], 0
    for principals in (1, 10, most):
        systemctl("stop", "amux-hub.service")
        enrol(range(enrolled, principals))
        enrolled = principals
        rows.append(measure(principals))
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
