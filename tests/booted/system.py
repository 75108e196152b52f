"""`System`: the installed Hub of a booted machine, with callers who are real accounts of it.

Everything goes the way of a user: the sockets in /run/amux, commands in /usr/bin, files in /etc. A caller is an
account by name, a bare UID, or None for root.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tests.booted.lab.machine import Machine

User = str | int | None
Reply = dict[str, Any]

TALK = """
import json, socket, sys
END = b"\\n" if "mcp.sock" in sys.argv[1] else b"\\0"
def reply():
    data = b""
    while not data.endswith(END):
        try:
            more = hub.recv(65536)
        except ConnectionError:
            more = b""
        if not more:
            return {"error": "closed"}
        data += more
    return json.loads(data[:-1])
hub = socket.socket(socket.AF_UNIX)
if len(sys.argv) > 2:
    hub.bind(sys.argv[2])
hub.settimeout(60)
hub.connect(sys.argv[1])
for line in sys.stdin:
    if line.strip():
        try:
            hub.sendall(line.strip().encode() + END)
        except OSError:
            pass
    if "notifications/" not in line:
        print(json.dumps(reply()), flush=True)
"""
"""Calls, a line each, over one connection; a line each comes back. An empty line only waits for what comes."""

HUB_YAML = "/etc/amux/hub.yaml"
HOME = "/var/lib/amux"
BASE = "isolation: true\nmemory:\n  enabled: true\n"
QUICK = "identity:\n  verdict_seconds: 1\n"
"""What was found out about an account holds for a second, so that a change shows at once."""


class Failed(Exception):  # noqa: N818 - what a caller was told
    """The Hub answered with an error; `code` is its last word."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(json.dumps(reply))
        self.code = str(reply["error"]).rpartition(".")[2]
        self.parameters: Reply = reply.get("parameters") or {}


class Held:
    """One connection of a user that stays open."""

    def __init__(self, machine: Machine, user: User, socket: str = "hub") -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        command = ("python3", "-IS", "-c", TALK, f"/run/amux/{socket}.sock")
        self._process = machine.start(*command, user=user, **pipes)

    def call(self, method: str, **parameters: object) -> Reply:
        return self.say(_line(method, parameters))

    def mcp(self, **preamble: str) -> Reply:
        """What `amux mcp` says first, and its answer."""
        return self.say(json.dumps({"amux": 1, **preamble}))

    def tool(self, name: str, **arguments: object) -> Reply:
        """The JSON that a tool answers, an error too; `mcp` and a first call of `initialize` come before."""
        parameters = {"name": f"amux.{name}", "arguments": arguments}
        answer = self.say(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}))
        result: Reply = json.loads(answer["result"]["content"][0]["text"])
        return result

    def initialize(self) -> None:
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        self.say(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}))
        self._send('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def wait_for_the_end(self) -> bool:
        """Whether the Hub closed it, having waited for a minute."""
        return bool(self.say("")["error"] == "closed")

    def _send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def say(self, line: str) -> Reply:
        """One line of the wire, and the answer."""
        self._send(line)
        assert self._process.stdout is not None
        reply: Reply = json.loads(self._process.stdout.readline())
        return reply

    def close(self) -> None:
        # Not killed: nsenter(1) would die without having reaped what it started, and the machine's end wait for that.
        self._process.communicate(timeout=120)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _line(method: str, parameters: Reply) -> str:
    name = method if "." in method else f"io.amux.Memory.{method}"
    return json.dumps({"method": name, "parameters": parameters})


class System:
    """Made once for a machine; `reset` brings back what a test changed."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.shipped = machine.get(HUB_YAML)
        self.configure(BASE + QUICK)
        self._since = 0

    # Calling

    def ask(self, user: User, method: str, /, *, socket: str = "hub", **parameters: object) -> Reply:
        """The whole reply, an error too. `method` without an interface is one of io.amux.Memory."""
        command = ("python3", "-IS", "-c", TALK, f"/run/amux/{socket}.sock")
        done = self.machine.run(*command, user=user, stdin=_line(method, parameters) + "\n")
        reply: Reply = json.loads(done.stdout)
        return reply

    def call(self, user: User, method: str, /, *, socket: str = "hub", **parameters: object) -> Reply:
        """The reply's parameters. Raises `Failed`."""
        reply = self.ask(user, method, socket=socket, **parameters)
        if "error" in reply:
            raise Failed(reply)
        answer: Reply = reply["parameters"]
        return answer

    def refusal(self, user: User, method: str = "List", /, **parameters: Any) -> Failed:
        """The error that a call must answer."""
        try:
            answer = self.call(user, method, **parameters)
        except Failed as failed:
            return failed
        raise AssertionError(f"{user} was served: {method} answered {answer}")

    def write(self, user: User, path: str, content: str) -> str:
        """Create a document; its revision."""
        return str(self.call(user, "Upsert", path=path, content=content, expected_revision="absent")["revision"])

    def read(self, user: User, path: str) -> str | None:
        """A document's content, None where there is none."""
        answer = self.call(user, "Get", path=path)
        return str(answer["content"]) if answer["exists"] else None

    def who(self, user: User) -> Reply:
        return self.call(user, "io.amux.Hub.WhoAmI")

    def admin(self, *words: str, check: bool = True) -> Reply:
        """`amux admin …` as root, its JSON or its error's."""
        done = self.machine.run("amux", "admin", *words, "--json", check=check)
        answer: Reply = json.loads(done.stdout or done.stderr)
        return answer

    # What an administrator does

    def configure(self, text: str) -> None:
        """A new hub.yaml, in force."""
        self.configured = text
        self.machine.put(text.encode(), HUB_YAML)
        self.restart()

    def restart(self) -> None:
        self.machine.run("systemctl", "restart", "amux-hub")

    def reload(self) -> None:
        """Also forgets what is known of accounts. In force when this returns."""
        before = len(self.reloads())
        self.machine.run("systemctl", "reload", "amux-hub")
        self.machine.wait("the reload", lambda: len(self.reloads()) > before)

    def reloads(self) -> list[dict[str, Any]]:
        return [one for one in self.machine.journal("-u", "amux-hub") if "reloaded" in str(one["MESSAGE"])]

    def pid(self) -> int:
        return int(self.show("amux-hub", "MainPID"))

    def show(self, unit: str, name: str) -> str:
        return self.machine.run("systemctl", "show", unit, "-p", name, "--value").stdout.strip()

    def audit(self, event: str, **wanted: str) -> list[dict[str, str]]:
        """Records of the Hub's audit with these fields, oldest first: `uid="1000"` is AMUX_UID=1000.

        Those of this test: since `reset`.
        """
        matches = [f"AMUX_{name.upper()}={value}" for name, value in wanted.items()]
        found = self.machine.journal("-u", "amux-hub", f"AMUX_AUDIT={event}", *matches)
        return [one for one in found if int(one["__REALTIME_TIMESTAMP"]) >= self._since]

    def audited(self, event: str, **wanted: str) -> dict[str, str]:
        """The newest such record, waited for: refusals are counted for a second."""
        self.machine.wait(f"{event} {wanted} in the audit", lambda: self.audit(event, **wanted))
        return self.audit(event, **wanted)[-1]

    def principals(self) -> list[str]:
        return [one["principal"] for one in self.admin("principals", "list")["principals"]]

    def reset(self) -> None:
        """The Hub as `__init__` left it, nobody enrolled, nothing stored."""
        if self.configured != BASE + QUICK:
            self.configure(BASE + QUICK)
        with Held(self.machine, None, "admin") as root:
            while found := root.call("io.amux.Admin.ListPrincipals")["parameters"]["principals"]:
                for one in found:
                    for method in ("RetirePrincipal", "PurgePrincipal"):
                        reply = root.call(f"io.amux.Admin.{method}", principal=one["principal"])
                        assert "error" not in reply, reply
        self.machine.run("sh", "-c", f"rm -rf {HOME}/memory/global")
        self._since = time.time_ns() // 1000

    def tree(self) -> dict[str, str]:
        """Every file below memory/: its path and digest."""
        script = f"cd {HOME}/memory && find . -type f -name '*.md' -exec sha256sum {{}} +"
        lines = self.machine.run("sh", "-c", script).stdout.splitlines()
        return {path: digest for digest, path in (line.split(None, 1) for line in lines)}


def digest(principal: str) -> str:
    return hashlib.sha256(principal.encode()).hexdigest()


Maker = Callable[..., str]
"""`make(name, *useradd_options)`: the account's name."""


def doctor(machine: Machine, user: str | None = None) -> dict[str, dict[str, Any]]:
    """The checks by name; the exit status agrees with them."""
    done = machine.run("amux", "doctor", "--json", user=user, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1), done
    return {check["name"]: check for check in report["checks"]}


def problems(checks: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    found = {}
    for name, check in checks.items():
        if kinds := [finding["kind"] for finding in check["findings"] if finding["level"] == "problem"]:
            found[name] = kinds
    return found
