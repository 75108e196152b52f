"""Lines as the two streams that the SDK reads and writes; nothing of the SDK sees a socket.

Promises: every line is strict JSON before the SDK sees it, what is not is answered and the conversation goes
on; no further request is read while `IN_FLIGHT` are unanswered, or as many bytes as one message may have; the
end of the input reaches the SDK only once all are answered, because the SDK cancels what runs when its input
ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any

import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from amux import limits
from amux.errors import AmuxError
from amux.tools import TOOLS
from amux_hub.mcp.lines import Lines
from amux_hub.wire import strictjson

IN_FLIGHT = 16
"""Requests of one connection that are read before the first is answered, if they are short."""

_parse = types.jsonrpc_message_adapter.validate_python


class Incoming:
    """The SDK's read stream."""

    __slots__ = ("_held", "_lines", "_metadata", "_room", "_unanswered", "violated")

    def __init__(self, lines: Lines) -> None:
        self.violated: AmuxError | None = None
        self._lines = lines
        self._unanswered = 0
        self._held = 0
        self._room: asyncio.Future[None] | None = None
        self._metadata = ServerMessageMetadata(on_request_unanswered=self._settled, can_send_request=False)

    def answered(self) -> None:
        self._unanswered -= 1
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _settled(self) -> None:
        """The SDK's word that a request, cancelled by its client, will not be answered."""
        self.answered()

    async def _until(self, unanswered: int) -> None:
        while self._unanswered > unanswered:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    async def __anext__(self) -> SessionMessage | Exception:
        while True:
            await self._until(IN_FLIGHT - 1 if self._held <= limits.FRAME_BYTES else 0)
            if not self._unanswered:
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
            if isinstance(message, types.JSONRPCRequest):
                self._unanswered += 1
                self._held += len(line)
            return SessionMessage(message, self._metadata)

    def _message(self, line: bytes) -> types.JSONRPCMessage | None:
        """The message of one line; None if there is none, which is answered unless the line is empty."""
        if not line.strip():
            return None
        try:
            value = strictjson.loads(line)
        except AmuxError as error:
            error.message = error.message.removesuffix("; the connection is closed")
            self._refuse(_id_of(line), types.PARSE_ERROR, error)
            return None
        # The SDK would take a request with a bad id for a notification, and never answer it.
        id_is_bad = isinstance(value, dict) and "id" in value and _id_in(value) is None
        try:
            if not id_is_bad:
                return _parse(value, by_name=False)
            what = "a message whose id is neither a string nor a whole number"
        except ValidationError:
            what = "a batch" if isinstance(value, list) else "no JSON-RPC 2.0 message"
        refusal = AmuxError("protocol_error", f"the message is {what}: send one request a line")
        self._refuse(_id_in(value), types.INVALID_REQUEST, refusal)
        return None

    def _refuse(self, request: str | int | None, code: int, error: AmuxError) -> None:
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
    """The SDK's write stream; `answered` is called once for each answer."""

    __slots__ = ("_answered", "_lines")

    def __init__(self, lines: Lines, answered: Callable[[], None]) -> None:
        self._lines = lines
        self._answered = answered

    async def send(self, item: SessionMessage, /) -> None:
        message = item.message
        try:
            if isinstance(message, types.JSONRPCResponse) and "tools" in message.result:
                # The SDK's models sort the keys of each tool; the contract's table is served as it stands.
                message.result["tools"] = TOOLS
            self._lines.write(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
            await self._lines.drain()
        finally:
            if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                self._answered()

    async def aclose(self) -> None:
        """The connection is closed by who opened it."""

    async def __aenter__(self) -> Outgoing:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _id_of(line: bytes) -> str | int | None:
    """The id of a request that the strict parser refused, so that its sender need not wait for an answer."""
    if strictjson.crowded(line):
        return None
    try:
        return _id_in(json.loads(line))
    except (ValueError, RecursionError):
        return None


def _id_in(value: Any) -> str | int | None:
    found = value.get("id") if isinstance(value, dict) else None
    if isinstance(found, str):
        # Half of a surrogate pair, which only a refused message can hold, has no UTF-8.
        return found if not any("\ud800" <= letter <= "\udfff" for letter in found) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
