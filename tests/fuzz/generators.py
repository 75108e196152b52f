"""Inputs of each kind of socket and of the grammar: mostly right, with one thing or several wrong.

Promises: an input is a function of the generator's state alone. Structure first: a call that is almost right
reaches further into the Hub than noise does, and noise is only one kind among others.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from amux import limits
from tests.fuzz import values

Message = dict[str, Any]

_METHODS = (
    "io.amux.Memory.Search",
    "io.amux.Memory.Search",
    "io.amux.Memory.Get",
    "io.amux.Memory.Get",
    "io.amux.Memory.List",
    "io.amux.Memory.Forget",
    "io.amux.Hub.WhoAmI",
    "io.amux.Hub.GetStatus",
    "io.amux.Hub.GetCapabilities",
    "org.varlink.service.GetInfo",
    "org.varlink.service.GetInterfaceDescription",
    "io.amux.Admin.GetSetting",
    "io.amux.Admin.ListSettings",
    "io.amux.Memory.Upsert",
    "io.amux.Memory.Upsert",
)
_NO_METHODS = (
    "io.amux.Memory.Purge",
    "io.amux.Memory.search",
    "io.amux.Session.Resolve",
    "io.amux.Memory",
    "Search",
    "",
    ".",
    "..",
    "io.amux.Memory.Search\n",
    "io.amux.Memory.Search\0",
    "io.systemd.UserDatabase.GetUserRecord",
    "io.amux.Memory.__init__",
    "io.amux.Memory.answer",
    "io.amux.Hub.Failure",
)


def _parameters(method: str, rng: Random) -> Message:
    """What the method takes, with values that are right or not."""
    name = method.rpartition(".")[2]
    take: dict[str, dict[str, Callable[[Random], Any]]] = {
        "Search": {"query": values.query, "path_prefix": values.prefix, "limit": _number},
        "Get": {"path": values.path, "start_line": _number, "end_line": _number, "offset": _number},
        "List": {"after": values.path, "path_prefix": values.prefix},
        "Forget": {"path": values.path, "expected_revision": values.revision},
        "Upsert": {"path": _written, "content": values.content, "expected_revision": values.revision},
        "GetInterfaceDescription": {"interface": lambda rng: rng.choice(_METHODS).rpartition(".")[0]},
        "GetSetting": {"key": lambda rng: rng.choice(("memory.enabled", "home", "no.such", values.text(rng)))},
    }
    wanted = dict(take.get(name, {}))
    parameters: Message = {}
    for key, make in wanted.items():
        if rng.random() < 0.85:
            parameters[key] = make(rng)
    if rng.random() < 0.1:
        parameters["session"] = values.session(rng)
    if rng.random() < 0.1:
        parameters["binding"] = values.binding(rng)
    return parameters


def _written(rng: Random) -> str:
    """New documents would make the memory grow: those of the table, or what is refused."""
    path = values.path(rng)
    return path if path in values.DOCUMENTS or rng.random() < 0.05 else rng.choice(values.DOCUMENTS)


def _number(rng: Random) -> Any:
    return rng.choice((0, 0, 1, 2, 3, 20)) if rng.random() < 0.6 else rng.choice(values.NUMBERS)


def _disturbed(message: Message, rng: Random) -> Message:
    """One thing wrong with a message: a type, a name too many, a claim."""
    parameters = message.get("parameters")
    target = parameters if isinstance(parameters, dict) and parameters and rng.random() < 0.7 else message
    kind = rng.randrange(5)
    key = rng.choice(list(target))
    if kind == 0:
        target[key] = values.json_value(rng)
    elif kind == 1:
        del target[key]
    elif kind == 2:
        target[values.text(rng, 4)] = values.json_value(rng)
    elif kind == 3:
        claim = rng.choice(("principal", "uid", "scope", "user", "account", "pid", "_meta", "fds", "isolation"))
        target[claim] = rng.choice(("root", "alice", 0, "principal:alice", ["root"]))
    else:
        nest: Any = target[key]
        for _ in range(rng.choice((1, 12, 13, 14, 15, 16, 17, 60))):
            nest = [nest] if rng.random() < 0.5 else {"": nest}
        target[key] = nest
    return message


def call(rng: Random) -> bytes:
    """One frame's bytes, without its NUL: a call that is right, or nearly."""
    method = rng.choice(_METHODS) if rng.random() < 0.9 else rng.choice((*_NO_METHODS, values.text(rng)))
    message: Message = {"method": method, "parameters": _parameters(method, rng)}
    for flag, chance in (("oneway", 0.05), ("more", 0.05), ("upgrade", 0.02)):
        if rng.random() < chance:
            message[flag] = rng.choice((True, True, False, None, 1, "true"))
    if rng.random() < 0.1:
        message["amux"] = rng.choice(("0.1", "0.0", "9.9", "1", "", 1, None, [], "0.1\n", "٠.١"))
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        message = _disturbed(message, rng)
    return values.encoded(message, rng)


_SPLICES = (
    b"\0",
    b"\n",
    b"\r",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"NaN",
    b"Infinity",
    b"1e999",
    b"-",
    b"00",
    b"9" * 400,
    b"0." + b"1" * 400,
    b"\\ud800",
    b"\\udc00\\ud800",
    b"\\u0000",
    b"\\x",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xef\xbb\xbf",
    b"/**/",
    b"'",
    b"\x1b]0;x\x07",
    b'"method":"io.amux.Hub.WhoAmI",',
    b'"":0,"":0,',
)


def mangled(data: bytes, rng: Random) -> bytes:
    """Bytes put in, taken out, changed, doubled or cut off."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at] + rng.choice(_SPLICES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + rng.choice((1, 1, 2, 5, 40)) :]
        elif kind == 2:
            data = data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        elif kind == 3:
            data = data[:at] + data[rng.randrange(len(data) + 1) :]
        elif kind == 4:
            data = data[:at]
        else:
            data = data[:at] + data[at : at + 20] * rng.choice((2, 3, 50)) + data[at:]
    return data


def huge(rng: Random, frame: Callable[[Any], bytes]) -> bytes:
    """A message around the limit of a frame, to the byte; `frame` puts a text or value where one belongs."""
    size = limits.FRAME_BYTES + rng.choice((-1, 0, 1, 2, 4096, -100_000))
    kind = rng.randrange(4)
    if kind == 0:
        return frame("x" * (size - len(frame(""))))
    if kind == 1:
        filler = rng.choice((b"[", b"{", b'{"":', b"[[],", b'"\\', b'\\"', b"1", b"-", b" ", b'"', b"\xf0", b"[0,"))
        return (filler * (size // len(filler) + 1))[:size]
    if kind == 2:
        element = rng.choice(("0,", '"",', "{},", "[],", '{"":0},', "null,"))
        many = b"[" + element.encode() * (size // len(element) - 60) + b"0]"
        return frame("\x01").replace(b'"\\u0001"', many)
    return frame(rng.choice(("\ud800", "部", "\0", "😀", "\\")) * (size // 8))


def wire(rng: Random) -> bytes:
    """What one client writes to hub.sock or admin.sock: frames with their ends, or without."""
    kind = rng.random()
    if kind < 0.50:
        return call(rng) + b"\0"
    if kind < 0.78:
        return mangled(call(rng), rng) + b"\0"
    if kind < 0.88:
        return b"\0".join(call(rng) if rng.random() < 0.9 else b"" for _ in range(rng.randrange(2, 12))) + b"\0"
    if kind < 0.92:
        return b"\0" * rng.choice((1, 2, 100)) + call(rng) + b"\0"
    if kind < 0.96:
        return mangled(call(rng), rng)
    if kind < 0.998:
        return rng.randbytes(rng.randrange(200)) + b"\0" * rng.randrange(2)
    method = rng.choice(_METHODS[:6])
    return huge(rng, lambda value: json.dumps({"method": method, "parameters": {"path": value}}).encode()) + b"\0"


# MCP

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_RPC = (
    "tools/call",
    "tools/call",
    "tools/call",
    "tools/call",
    "tools/call",
    "tools/list",
    "ping",
    "initialize",
    "server/discover",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "resources/list",
    "prompts/get",
    "logging/setLevel",
    "completion/complete",
    "tasks/get",
    "subscriptions/listen",
    "rpc.discover",
    "",
)
_TOOLS = {
    "amux.memory_search": "io.amux.Memory.Search",
    "amux.memory_get": "io.amux.Memory.Get",
    "amux.memory_forget": "io.amux.Memory.Forget",
    "amux.memory_upsert": "io.amux.Memory.Upsert",
    "amux.result_continue": "",
    "amux.memory_purge": "",
}


def greeting(rng: Random) -> bytes:
    """The first line to mcp.sock, its end included; right in about half of the cases."""
    message: Message = {"amux": 1}
    if rng.random() < 0.4:
        message["session"] = values.session(rng)
    if rng.random() < 0.4:
        message["binding"] = values.binding(rng)
    if rng.random() < 0.2:
        message["amux"] = rng.choice((0, 2, -1, 1.0, "1", True, None, [1], 2**63, 10**30))
    if rng.random() < 0.15:
        message = _disturbed(message, rng)
    # A refused first line is logged with its reason, which may quote the binding: neither stored nor asked.
    line = values.encoded(message, rng).replace(b"\n", b" ").replace(values.MARKER.encode(), b"x")
    if rng.random() < 0.2:
        line = mangled(line, rng)
    return line + rng.choice((b"\n", b"\n", b"\n", b"\r\n", b" " * 1100 + b"\n"))


def rpc(rng: Random) -> bytes:
    """One JSON-RPC message, right or nearly, without its line end."""
    method = rng.choice(_RPC) if rng.random() < 0.95 else values.text(rng)
    parameters: Message = {}
    if method == "tools/call":
        tool = rng.choice(list(_TOOLS)[:3] if rng.random() < 0.8 else list(_TOOLS))
        arguments = _parameters(_TOOLS[tool], rng)
        if tool == "amux.result_continue":
            arguments = {"continuation": values.text(rng)}
        parameters = {"name": tool, "arguments": arguments}
    elif method == "initialize":
        version = rng.choice(("2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01", "", values.text(rng)))
        parameters = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "f", "version": "0"}}
    elif method == "notifications/cancelled":
        parameters = {"requestId": _id(rng), "reason": values.text(rng)}
    elif method == "notifications/progress":
        parameters = {"progressToken": _id(rng), "progress": rng.choice(values.NUMBERS)}
    elif method == "logging/setLevel":
        parameters = {"level": rng.choice(("debug", "info", "no"))}
    if rng.random() < 0.5:
        parameters["_meta"] = dict(MODERN)
    message: Message = {"jsonrpc": "2.0", "method": method, "params": parameters}
    if not method.startswith("notifications/") or rng.random() < 0.1:
        message["id"] = _id(rng)
    if rng.random() < 0.03:  # an answer to a question that nobody asked
        message = {"jsonrpc": "2.0", "id": _id(rng), rng.choice(("result", "error")): values.json_value(rng)}
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        if isinstance(message.get("params"), dict) and rng.random() < 0.6:
            inner = {"parameters": message["params"]}
            message["params"] = _disturbed(inner, rng).get("parameters")
        else:
            message = _disturbed(message, rng)
    return values.encoded(message, rng).replace(b"\n", b" ")


def _id(rng: Random) -> Any:
    if rng.random() < 0.8:
        return rng.randrange(40)
    return rng.choice((*values.NUMBERS, "", "a", values.text(rng), None, True, 1.5, [], {}, "\ud800"))


def mcp(rng: Random) -> bytes:
    """What one client writes to mcp.sock after the first line: lines with their ends, or without."""
    kind = rng.random()
    if kind < 0.55:
        return rpc(rng) + rng.choice((b"\n", b"\n", b"\r\n"))
    if kind < 0.8:
        return mangled(rpc(rng), rng) + b"\n"
    if kind < 0.9:
        return b"\n".join(rpc(rng) if rng.random() < 0.8 else b"" for _ in range(rng.randrange(2, 12))) + b"\n"
    if kind < 0.93:
        return b"[" + b",".join(rpc(rng) for _ in range(rng.randrange(3))) + b"]\n"
    if kind < 0.95:
        return rng.choice((b"\n", b"\r\n", b" \n", b"{}\n", b"\0\n", b"x\n")) * rng.choice((1, 10, 300))
    if kind < 0.999:
        return rng.randbytes(rng.randrange(200)) + b"\n"
    return (
        huge(rng, lambda value: json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": value}).encode())
        + b"\n"
    )
