"""The messages of `amux mcp`: what it must know of a request, and what it says in the Hub's place.

Knows ids, the handshake and the names of the tools that write; nothing else of MCP. No input, no output.
"""

from __future__ import annotations

import json

from amux import limits, tools
from amux.errors import CODES, AmuxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PARSE_ERROR, INVALID_REQUEST, SERVER_ERROR = -32700, -32600, -32000  # JSON-RPC 2.0, section 5.1

WANTED_ID = f"the id of a request is a whole number or a string of at most {limits.ID_BYTES} bytes"

_HANDSHAKES = frozenset({"initialize", "server/discover"})
_MODERN = "io.modelcontextprotocol/protocolVersion"
"""Each request of MCP 2026-07-28 says so in its `_meta`; there, results carry a `resultType`."""


class Call:
    """One request of the client that is not answered yet."""

    __slots__ = ("deadline", "handshake", "id", "line", "method", "sent")

    def __init__(self, message: dict[str, Any], line: bytes) -> None:
        self.id: str | int = message["id"]
        self.method = message["method"]
        self.line = line
        self.handshake = message if isinstance(self.method, str) and self.method in _HANDSHAKES else None
        """The message, if it fixes the protocol era of a connection."""
        self.sent = False
        """Whether any byte of it left on the connection of now."""
        self.deadline: float | None = None
        """When to give up waiting for a Hub; None while there is one."""

    def parameters(self) -> dict[str, Any]:
        found = json.loads(self.line).get("params")
        return found if isinstance(found, dict) else {}

    def writes(self) -> str | None:
        """The path that this call may change ("" if it names none), None if it changes nothing."""
        if self.method != "tools/call":
            return None
        parameters = self.parameters()
        name = parameters.get("name")
        if not isinstance(name, str) or name not in tools.WRITES:
            return None
        arguments = parameters.get("arguments")
        path = arguments.get("path") if isinstance(arguments, dict) else None
        return path if isinstance(path, str) else ""

    def failed(self, error: AmuxError) -> bytes:
        """The line that answers this call with `error`: a result for the model, where it is a tool's."""
        if self.method != "tools/call":
            return failed(self.id, SERVER_ERROR, error)
        text = json.dumps(error.to_json(), ensure_ascii=False, separators=(",", ":"))
        result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
        meta = self.parameters().get("_meta")
        if isinstance(meta, dict) and _MODERN in meta:
            result["resultType"] = "complete"
        return _line({"jsonrpc": "2.0", "id": self.id, "result": result})


def failed(name: str | int | None, code: int, error: AmuxError) -> bytes:
    """The line of a JSON-RPC error."""
    body = {"code": code, "message": error.message, "data": error.to_json()["error"]}
    return _line({"jsonrpc": "2.0", "id": name, "error": body})


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def is_id(value: object) -> bool:
    """Whether MCP allows this id (JSON-RPC 2.0 also knows null and fractions), and it can be answered."""
    if isinstance(value, str):
        fits = len(value) <= limits.ID_BYTES and len(value.encode("utf-8", "surrogatepass")) <= limits.ID_BYTES
        return fits and not any("\ud800" <= letter <= "\udfff" for letter in value)
    return isinstance(value, int) and not isinstance(value, bool)


def is_crowded(message: dict[str, Any], line: bytes) -> bool:
    """Whether the Hub refuses it for the number of its values, counted as there: opening brackets and commas.

    The Hub does not parse such a message and may not find its id, which whoever sent it waits for.
    """
    if line.count(b",") + line.count(b"{") + line.count(b"[") < limits.JSON_VALUES:
        return False
    count, left = 0, [message]
    while left and count < limits.JSON_VALUES:
        value: Any = left.pop()
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list):
            count += max(len(value), 1)
            left += value
    return count >= limits.JSON_VALUES


def is_shutting_down(message: dict[str, Any]) -> bool:
    """Whether this answer says that the Hub stops and did not run the call."""
    try:
        if "error" in message:
            return bool(message["error"]["data"]["code"] == "shutting_down")
        result = message["result"]
        if result.get("isError") is not True:
            return False
        return bool(json.loads(result["content"][0]["text"])["error"]["code"] == "shutting_down")
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False


def refusal(error: object) -> AmuxError:
    """The error of a refused first line; whatever else came is `protocol_error`."""
    if isinstance(error, dict) and error.get("code") in CODES and isinstance(error.get("message"), str):
        return AmuxError(error["code"], error["message"])
    return AmuxError("protocol_error", "what listens there does not answer as a Hub does: check AMUX_HUB")


def uncertain(path: str) -> AmuxError:
    shown = path[: limits.PATH_BYTES]
    return AmuxError(
        "outcome_uncertain",
        f"the Hub went away before it answered: whether {shown} was changed is unknown; read it again before "
        "you repeat this",
        path=shown,
    )


def crowded() -> AmuxError:
    return AmuxError(
        "protocol_error",
        f"one message has at most {limits.JSON_VALUES} values, lists and objects included, and this one has more: it "
        "was not sent",
        limit="json_values",
        value=limits.JSON_VALUES,
    )


def too_long(found: str) -> AmuxError:
    return AmuxError(
        "limit_exceeded",
        f"one message has at most {limits.FRAME_BYTES} bytes, this one has {found}: it was not sent; a document has "
        f"at most {limits.DOCUMENT_BYTES}",
        limit="frame_bytes",
        value=limits.FRAME_BYTES,
        found=found,
    )
