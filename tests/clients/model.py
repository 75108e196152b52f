"""A model server of our own on loopback: OpenAI Responses for Codex, Anthropic Messages for Claude Code.

It "thinks" what a test wrote down: a generator that yields tool calls, is sent each tool's output, and returns
the final words. It logs every request, so that a test can look at what a model would have seen.

    def script(): text = yield Call("amux_memory_get", {"path": "MEMORY.md"}); return f"it says {text}"
    with ModelServer(script) as model: run(["codex", …, model.url]); model.requests[0].tools
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """The model wants a tool: the name as this client shows it, without the client's prefix."""

    tool: str
    arguments: Json


Script = Generator[Call | str, str, str]
"""Yields a call to be sent its output, or the last words of a turn to be sent "" once there is another turn."""


@dataclass(frozen=True)
class Request:
    """One request that the client made of the model."""

    path: str
    body: Json

    @property
    def tools(self) -> dict[str, Json]:
        """What the model may call, by full name; of Codex's namespaces, `namespace/function`."""
        found: dict[str, Json] = {}
        for tool in self.body.get("tools") or []:
            if tool.get("type") == "namespace":
                found.update({f"{tool['name']}/{inner['name']}": inner for inner in tool["tools"]})
            elif "name" in tool:
                found[tool["name"]] = tool
        return found

    def output(self) -> str | None:
        """The text of the tool output at the end of the conversation, None if there is none."""
        if "input" in self.body:
            items = [item for item in self.body["input"] if item.get("type") == "function_call_output"]
            return _text(items[-1]["output"]) if items else None
        results: list[Json] = []
        for message in self.body["messages"]:
            # Reminders of the client's own may follow a result, in its message or in one more.
            blocks = message["content"] if isinstance(message["content"], list) else []
            results = [] if message["role"] == "assistant" else results
            results += [block for block in blocks if block["type"] == "tool_result"]
        return _text(results[-1].get("content", "")) if results else None


def _text(value: Any) -> str:
    """The text of a tool's output, whatever the client wraps it in."""
    if isinstance(value, str):
        return value
    return "".join(part.get("text", "") for part in value)


class ModelServer:
    """Serves one conversation. What offers no tools (titles, warm-ups) is answered with "ok"."""

    def __init__(self, script: Callable[[], Script]) -> None:
        self.requests: list[Request] = []
        self.failure: str | None = None
        self._script = script()
        self._started = False
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length", 0))
                data = self.rfile.read(length)
                model.serve(self, Request(self.path, json.loads(data or b"{}")))

            def do_GET(self) -> None:
                send(self, "application/json", b'{"data":[],"models":[]}')

            def do_HEAD(self) -> None:
                send(self, "application/json", b"")

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Nothing: the test's output is pytest's."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def conversation(self) -> list[Request]:
        """The requests that offered tools: not titles and warm-ups."""
        return [request for request in self.requests if request.tools]

    def serve(self, http: BaseHTTPRequestHandler, request: Request) -> None:
        with self._lock:
            self.requests.append(request)
            if request.path.startswith("/v1/messages/count_tokens"):
                send(http, "application/json", b'{"input_tokens":100}')
                return
            step: Call | str = "ok"
            if request.tools:
                step = self._next(request)
            encode = responses if request.path.startswith("/v1/responses") else messages
            send(http, "text/event-stream", encode(request, step))

    def _next(self, request: Request) -> Call | str:
        output = request.output()
        try:
            if not self._started:
                self._started = True
                return next(self._script)
            return self._script.send(output or "")
        except StopIteration as stop:
            return str(stop.value)
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error} after {output!r}"
            return f"the script failed: {self.failure}"

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def send(http: BaseHTTPRequestHandler, kind: str, body: bytes) -> None:
    http.send_response(200)
    http.send_header("content-type", kind)
    http.send_header("content-length", str(len(body)))
    http.end_headers()
    http.wfile.write(body)


def _events(events: list[Json]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def responses(request: Request, step: Call | str) -> bytes:
    """One answer of the OpenAI Responses API, streamed."""
    number = len(request.body.get("input", []))
    item: Json
    if isinstance(step, Call):
        name = next((name for name in request.tools if name.rpartition("/")[2] == step.tool), step.tool)
        namespace, _, function = name.rpartition("/")
        item = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": function,
            "arguments": json.dumps(step.arguments, ensure_ascii=False),
        }
        if namespace:
            item["namespace"] = namespace
    else:
        content = [{"type": "output_text", "text": step, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content}
    usage = {
        "input_tokens": 1,
        "output_tokens": 1,
        "total_tokens": 2,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    response = {"id": f"resp_{number}", "object": "response", "output": [item], "usage": usage}
    return _events(
        [
            {"type": "response.created", "response": {"id": response["id"]}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        ]
    )


def messages(request: Request, step: Call | str) -> bytes:
    """One answer of the Anthropic Messages API, streamed."""
    number = len(request.body.get("messages", []))
    block: Json
    if isinstance(step, Call):
        name = next((name for name in request.tools if name.endswith(step.tool)), step.tool)
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments, ensure_ascii=False)}
        reason = "tool_use"
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": step}
        reason = "end_turn"
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", "model"),
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return _events(
        [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        ]
    )
