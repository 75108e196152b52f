"""Lines as the two streams that the SDK reads and writes; nothing of the SDK sees a socket.

Promises: every line is strict JSON before the SDK sees it, what is not is answered and the conversation goes
on; no further request is read while `IN_FLIGHT` are unanswered, or as many bytes as one message may have; the
end of the input reaches the SDK only once all are answered, because the SDK cancels what runs when its input
ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Any

import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from amux import limits
from amux.errors import AmuxError
from amux.tools import TOOLS
from amux_hub.mcp.ids import Id, Requests, id_in, id_of, served
from amux_hub.mcp.lines import Lines
from amux_hub.wire import strictjson

_SHORT = 200
"""Code points of the message of an error that would be over its limit."""

IN_FLIGHT = 16
"""Requests of one connection that are read before the first is answered, if they are short."""

_parse = types.jsonrpc_message_adapter.validate_python


class Incoming:
    """The SDK's read stream."""

    __slots__ = ("_held", "_lines", "_requests", "_room", "violated")

    def __init__(self, lines: Lines) -> None:
        self.violated: AmuxError | None = None
        self._lines = lines
        self._requests = Requests()
        self._held = 0
        self._room: asyncio.Future[None] | None = None

    def name(self, number: object) -> Id | None:
        """What its client calls the request of this number; None if it is not open any more."""
        return self._requests.name(number)

    def answered(self, number: object) -> None:
        """The request of this number needs nothing further."""
        self._requests.closed(number)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _settled(self, number: int) -> None:
        """The SDK's word that a request, cancelled by its client, will not be answered."""
        self.answered(number)

    async def _until(self, unanswered: int) -> None:
        while len(self._requests) > unanswered:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            await self._until(IN_FLIGHT - 1 if self._held <= limits.FRAME_BYTES else 0)
            if not self._requests:
                self._held = 0
            try:
                line = await self._lines.next_line()
            except AmuxError as error:
                self.violated = error
                self._refuse(None, types.INVALID_REQUEST, error)
                line = None
            if line is None:
                await self._until(0)
                raise StopAsyncIteration
            message = self._message(line)
            if message is None:
                await self._lines.drain()
                continue
            settled = None
            if isinstance(message, types.JSONRPCRequest):
                self._held += len(line)
                message.id = self._requests.opened(message.id)
                settled = partial(self._settled, message.id)
            return SessionMessage(message, ServerMessageMetadata(on_request_unanswered=settled, can_send_request=False))

    def _message(self, line: bytes) -> types.JSONRPCMessage | None:
        """The message of one line; None if there is none, which is answered unless the line is empty."""
        if not line.strip():
            return None
        try:
            value = strictjson.loads(line)
        except AmuxError as error:
            error.message = error.message.removesuffix("; the connection is closed")
            self._refuse(id_of(line), types.PARSE_ERROR, error)
            return None
        what = _wrong(value)
        try:
            if not what:
                return self._cancelling(_parse(value, by_name=False))
        except ValidationError:
            what = "no JSON-RPC 2.0 message"
        refusal = AmuxError("protocol_error", f"the message is {what}: send one request a line")
        self._refuse(id_in(value), types.INVALID_REQUEST, refusal)
        return None

    def _cancelling(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage | None:
        """The message as the SDK knows its request, if it cancels one; None if that is none of ours."""
        if not isinstance(message, types.JSONRPCNotification) or message.method != "notifications/cancelled":
            return message
        parameters = message.params or {}
        number = self._requests.number(parameters.get("requestId"))
        if number is None:
            return None
        message.params = {**parameters, "requestId": number}
        return message

    def _refuse(self, request: Id | None, code: int, error: AmuxError) -> None:
        body = {"code": code, "message": error.message, "data": error.to_json()["error"]}
        self._lines.write(strictjson.dumps({"jsonrpc": "2.0", "id": request, "error": body}))

    async def receive(self) -> SessionMessage | Exception:
        return await self.__anext__()

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""

    def __aiter__(self) -> Incoming:
        return self

    async def __aenter__(self) -> Incoming:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing:
    """The SDK's write stream: answers to what `incoming` gave it."""

    __slots__ = ("_incoming", "_lines")

    def __init__(self, lines: Lines, incoming: Incoming) -> None:
        self._lines = lines
        self._incoming = incoming

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        number = None
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            number = message.id
            if number is not None:
                name = self._incoming.name(number)
                if name is None:
                    return  # cancelled, and settled meanwhile
                message.id = name
        try:
            if isinstance(message, types.JSONRPCResponse) and "tools" in message.result:
                # The SDK's models sort the keys of each tool; the contract's table is served as it stands.
                message.result["tools"] = TOOLS
            line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            if isinstance(message, types.JSONRPCError) and len(line) > limits.REPLY_BYTES:
                # The SDK repeats what it did not know, however long that is.
                message.error = types.ErrorData(code=message.error.code, message=message.error.message[:_SHORT])
                line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            self._lines.write(line)
            await self._lines.drain()
        finally:
            self._incoming.answered(number)

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _wrong(value: Any) -> str:
    """What the SDK would take for something else than its sender meant, and never answer; empty: nothing."""
    if isinstance(value, list):
        return "a batch"
    if isinstance(value, dict):
        if "method" in value and ("result" in value or "error" in value):
            return "a request and an answer in one"
        if "id" in value and not served(value["id"]):
            return f"a message whose id is neither a whole number nor a string of at most {limits.ID_BYTES} bytes"
    return ""
