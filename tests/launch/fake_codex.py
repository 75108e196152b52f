#!/usr/bin/python3
"""What an adapter asks of Codex before a start: `app-server`, as Codex answers it.

FAKE_CODEX is a JSON object: `layers` (kind → settings, the weakest first; those after `sessionFlags` are stronger),
`threads` (ids that there are), `untrusted` (a kind that is
shown and not used), `refuse` (method → text of an error), `do` (`hang`, `flood`, `die`; `linger`: keeps a
child), `record` (a file: what it was started with, and what it was asked).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import tomllib
from typing import Any

told = json.loads(os.environ["FAKE_CODEX"])
asked: list[Any] = []


def lay(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    for key, value in above.items():
        below[key] = lay(dict(below.get(key) or {}), value) if isinstance(value, dict) else value
    return below


def override(text: str) -> dict[str, Any]:
    """`a.b=VALUE` as Codex reads it: the key is cut at its points, quotes and all."""
    key, _, value = text.partition("=")
    found: Any = tomllib.loads(f"x={value}")["x"]
    for part in reversed(key.split(".")):
        found = {part: found}
    return dict(found)


def answer(method: str, parameters: dict[str, Any]) -> dict[str, Any]:
    if method in told.get("refuse", {}):
        return {"error": {"code": -32600, "message": told["refuse"][method]}}
    if method == "thread/memoryMode/set" and parameters["threadId"] not in told.get("threads", []):
        return {"error": {"code": -32600, "message": f"no rollout found for thread id {parameters['threadId']}"}}
    if method != "config/read":
        return {"result": {}}
    flags: dict[str, Any] = {}
    for word, value in zip(sys.argv[2:], sys.argv[3:], strict=False):
        if word == "-c":
            flags = lay(flags, override(value))
    merged: dict[str, Any] = {}
    stronger = "sessionFlags" in told.get("layers", {})
    layers: list[Any] = []
    for kind, config in {**told.get("layers", {}), **({} if stronger else {"sessionFlags": {}})}.items():
        own = flags if kind == "sessionFlags" else config
        layers.insert(0, {"name": {"type": kind}, "config": own, "disabledReason": None})
        if kind == told.get("untrusted"):
            layers[0]["disabledReason"] = told.get("reason", "add it as a trusted project")
        else:
            merged = lay(merged, own)
    return {"result": {"config": merged, "layers": layers}}


if told.get("do") == "die":
    print("WARNING: something else\nError: url is not supported for stdio\nin `mcp_servers.amux`", file=sys.stderr)
    sys.exit(1)
if told.get("do") == "linger":
    with open(told["record"] + ".child", "w") as file:
        file.write(str(subprocess.Popen(["sleep", "600"]).pid))
for line in sys.stdin:
    message = json.loads(line)
    asked.append(message)
    if "record" in told:
        with open(told["record"], "w") as file:
            home = os.environ.get("CODEX_HOME")
            json.dump({"argv": sys.argv, "cwd": os.getcwd(), "home": home, "asked": asked, "pid": os.getpid()}, file)
    if "id" not in message:
        continue
    if told.get("do") == "hang":
        time.sleep(600)
    while told.get("do") == "flood":
        print("x" * 65536)
    print(json.dumps({"method": "some/notification", "params": {}}))
    print(json.dumps({"id": message["id"], **answer(message["method"], message.get("params"))}), flush=True)
