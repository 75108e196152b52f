"""A host made of temporary directories, a check run on it, and programs that stand in for those of a host."""

from __future__ import annotations

import json
import os
import pwd
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from amux import __version__
from amux_hub.config import Config
from amux_hub.doctor import systemd
from amux_hub.doctor.check import Result, results
from amux_hub.doctor.checks import CHECKS
from amux_hub.doctor.host import Host, Places
from amux_hub.registry import record as records
from amux_hub.registry.record import SELF, Pin, Record
from amux_hub.store.owner import MARK, text_of

ME = pwd.getpwuid(os.geteuid()).pw_name

STORE = [check for check in CHECKS if check.name.startswith("store-") or check.name == "memory-pointers"]

needs_an_ordinary_account = pytest.mark.skipif(
    os.geteuid() == 0, reason="root may read everything: runs in the layer of the ordinary account"
)


class Made:
    """A system Hub below `directory`, whose root and whose account amux are both the account that runs the tests."""

    def __init__(self, directory: Path, settings: Mapping[str, Any] | None = None, *, system: bool = True) -> None:
        self.directory = directory
        directory.chmod(0o755)
        self.home = self._directory("home", 0o700)
        self.memory = self._directory("home/memory", 0o700)
        self.runtime = self._directory("run", 0o755 if system else 0o700)
        self.etc = self._directory("etc", 0o755)
        self.library = self._directory("lib", 0o755)
        self._directory("lib/bin", 0o755)
        (self.library / "bin" / "amux-hub").touch(0o755)
        self.pam_file = self.etc / "pam"
        self.pinned: dict[str, Any] = {"home": str(self.home), "sockets.hub": str(self.runtime / "hub.sock")}
        self.pinned |= settings or {}
        self.places = Places(
            runtime=str(self.runtime),
            etc=str(self.etc),
            library=str(self.library),
            program=str(directory / "amux"),
            pam_file=str(self.pam_file),
            pam_socket=str(self.runtime / "pam.sock"),
            launch_socket=str(self.runtime / "launch.sock"),
            launch_bin=str(self.library / "launch-bin"),
            launches=str(directory / "launches"),
            booted=str(directory / "booted"),
            systemctl=str(directory / "systemctl"),
        )
        self.system = system

    def _directory(self, name: str, mode: int) -> Path:
        path = self.directory / name
        path.mkdir()
        path.chmod(mode)
        return path

    def host(self, **changes: Any) -> Host:
        """A new one each time: it remembers what it saw."""
        config = Config(str(self.etc / "hub.yaml"), self.pinned, {}, {}, False, self.system)
        given: dict[str, Any] = {"account": ME, "places": self.places, "root": os.geteuid()}
        return Host(config, **{**given, **changes})

    def run(self, name: str, **changes: Any) -> Result:
        """One check by its name."""
        check = next(check for check in CHECKS if check.name == name)
        return next(results([check], self.host(**changes)))

    def scope(self, principal: str = "") -> Path:
        """The directory of a scope, made if it is missing; `global` without a principal."""
        path = self.memory / "global"
        if principal:
            (self.memory / "users").mkdir(mode=0o700, exist_ok=True)
            path = self.memory / "users" / records.file_name(principal).removesuffix(".json")
        path.mkdir(mode=0o700, exist_ok=True)
        if principal:
            (path / MARK).write_bytes(text_of(f"principal:{principal}"))
            (path / MARK).chmod(0o600)
        return path

    def put(self, path: Path, data: bytes | str = "# Text\n") -> Path:
        for parent in reversed(path.relative_to(self.memory).parents):
            (self.memory / parent).mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        path.chmod(0o600)
        return path

    def enrol(self, principal: str, *pins: Pin, **fields: Any) -> Path:
        """Write a record; without pins the principal is the account that runs the tests."""
        directory = self.home / "registry"
        directory.mkdir(mode=0o700, exist_ok=True)
        pins = pins or (Pin(ME, os.geteuid(), SELF),)
        path = directory / records.file_name(principal)
        path.write_bytes(records.encode(Record(principal, "2030-01-02T03:04:05Z", pins, **fields)))
        path.chmod(0o600)
        return path

    def systemd(self, **units: Mapping[str, str]) -> None:
        """A systemctl that shows these states; units not named are as they should be. `_` stands for `-` and `.`."""
        Path(self.places.booted).mkdir(exist_ok=True)
        text = []
        for name in (*systemd.SOCKETS, *systemd.SERVICES):
            values = {"Id": name, "LoadState": "loaded", "ActiveState": "active", "Result": "success",
                      "UnitFileState": "enabled", "NeedDaemonReload": "no"}  # fmt: skip
            values |= units.get(name.replace("-", "_").replace(".", "_"), {})
            text.append("".join(f"{key}={value}\n" for key, value in values.items()))
        program = Path(str(self.places.systemctl))
        program.write_text("#!/bin/sh\ncat <<'END'\n" + "\n".join(text) + "END\n")
        program.chmod(0o755)


def told(result: Result) -> set[tuple[str, str]]:
    """Level and kind of everything that a check found."""
    return {(finding.level, finding.kind) for finding in result.findings}


def text(result: Result) -> str:
    return json.dumps([vars(finding) for finding in result.findings], ensure_ascii=False)


def findings(made: Made, **changes: object) -> dict[str, set[tuple[str, str]]]:
    """What every check of the store tells that tells anything."""
    found = {result.name: told(result) for result in results(STORE, made.host(**changes))}
    return {name: kinds for name, kinds in found.items() if kinds}


def mend(made: Made, name: str) -> None:
    """Paste the fixes of a check into a shell."""
    for finding in made.run(name).findings:
        subprocess.run(["bash", "-ec", finding.fix], check=True, stdin=subprocess.DEVNULL)


@contextmanager
def answering(path: str | Path, answer: Callable[[bytes], bytes], mode: int = 0o666) -> Iterator[list[bytes]]:
    """Something that listens at `path` and answers what it reads; what it was sent."""
    seen: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    os.chmod(path, mode)
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connected, _ = listener.accept()
            except OSError:
                return
            with connected:
                seen.append(connected.recv(65536))
                connected.sendall(answer(seen[-1]))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()
        os.unlink(path)


def a_hub(version: str = __version__, error: str = "", **status: Any) -> Callable[[bytes], bytes]:
    """What a Hub with this status answers, on any of its sockets."""
    facts = {"pid": os.getpid(), "isolation": True, "memory_enabled_running": True, "memory_enabled_saved": True}

    def answer(request: bytes) -> bytes:
        if request.endswith(b"\n"):
            return b'{"amux":1}\n'
        if b"GetInfo" in request:
            reply: dict[str, Any] = {"parameters": {"version": version}}
        elif error:
            reply = {"error": "io.amux.Hub.IdentityRefused", "parameters": {"message": error}}
        else:
            reply = {"parameters": {**facts, **status}}
        return json.dumps(reply).encode() + b"\0"

    return answer
