"""Varlink calls of one connection: a frame becomes a call, the call an answer, one after another.

Promises: each call is answered exactly once (a one-way call never, unless it broke the wire's rules); an
unexpected exception is `internal`, logged with its traceback, and the connection goes on; a violation and
`identity_refused` are answered and end the connection. Who calls is asked of the connection, by the
operation.

An interface is one of asyncvarlink's. Those whose operations check their own parameters are
`DirectInterface`.
"""

from __future__ import annotations

import abc
import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from asyncvarlink import (
    VarlinkErrorReply,
    VarlinkInterfaceRegistry,
    VarlinkMethodCall,
)
from asyncvarlink.conversion import ConversionError
from asyncvarlink.interface import AnnotatedResult
from asyncvarlink.serviceerrors import InvalidParameter

from amux.errors import AmuxError
from amux_hub.admission import Admission, shutting_down
from amux_hub.logs import Throttle
from amux_hub.wire import reply
from amux_hub.wire.accept import Connection
from amux_hub.wire.call import VERSION, Call, check_version, parse
from amux_hub.wire.transport import FrameProtocol, HubTransport

_log = logging.getLogger(__name__)
_UNBOUNDED = frozenset({"org.varlink.service", "io.amux.Hub.GetMetrics"})
"""An interface and a method whose replies have no limit: interface descriptions and metrics."""

_throttle = Throttle()


class DirectInterface(abc.ABC):
    """Beside VarlinkInterface: the methods get their parameters as they came off the wire and check them.

    What the class annotates is for introspection alone.
    """

    @abc.abstractmethod
    async def answer(self, method: str, parameters: Mapping[str, object]) -> Mapping[str, object]:
        """The reply's parameters, as JSON values. Raises AmuxError, or MethodNotFound."""

    def at_once(self, _method: str, _parameters: Mapping[str, object]) -> Mapping[str, object] | None:
        """The same if it takes no waiting and refuses nothing, else None: `answer` is to say it."""
        return None


class HubProtocol(FrameProtocol):
    """See the module. `registry` holds the interfaces of this one connection."""

    def __init__(self, connection: Connection, registry: VarlinkInterfaceRegistry, admission: Admission) -> None:
        self._connection = connection
        self._registry = registry
        self._admission = admission
        self._transport: HubTransport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, HubTransport)
        self._transport = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        """A call that runs goes on to its end: what it changes is changed, nobody is told."""
        self._transport = None
        self._connection.release()

    def frame_received(self, frame: bytes) -> None:
        try:
            call = parse(frame)
        except AmuxError as error:
            self._violation(error)
            return
        uid = self._connection.peer.uid
        entered = self._admission.enter(uid)
        if entered and (data := self._at_once(call)) is not None:
            self._admission.leave(uid)
            self._reply(None if call.oneway else data)
        else:
            self._task = asyncio.get_running_loop().create_task(self._serve(call, entered))

    def violated(self, what: str) -> None:
        self._violation(AmuxError("protocol_error", f"{what}; the connection is closed"))

    def held(self, size: int) -> None:
        try:
            self._connection.hold(size)
        except AmuxError as error:
            if self._transport is not None:
                self._transport.refuse()
                self._violation(error)

    def cut_off(self) -> None:
        self._reply(reply.encode_failure(shutting_down()), last=True)

    def dropped(self, why: str) -> None:
        self._admission.counters.connections_dropped += 1
        self._note("connection dropped: %s", why)

    def _violation(self, error: AmuxError) -> None:
        self._admission.counters.violations += 1
        self._note("protocol violation: %s", error.message)
        self._reply(reply.encode_failure(error), last=True)

    def _note(self, text: str, what: str) -> None:
        peer = self._connection.peer
        suppressed = _throttle.admit((peer.uid, text))  # `what` has positions: as many kinds as a peer likes
        if suppressed is not None:
            _log.warning(text, what, extra={"amux": {"uid": peer.uid, "pid": peer.pid, "more": suppressed}})

    def _reply(self, data: bytes | None, *, last: bool = False) -> None:
        if self._transport is not None:
            self._transport.reply(data, last=last)

    def _at_once(self, call: Call) -> bytes | None:
        """The reply, if it can be had here and now; None for a task."""
        interface = self._registry.interfaces.get(call.interface)
        if call.version not in (VERSION, None) or not isinstance(interface, DirectInterface):
            return None
        if _log.isEnabledFor(logging.DEBUG):  # every call is logged
            return None
        try:
            answer = interface.at_once(call.method, call.parameters)
            return None if answer is None else reply.encode(answer)
        except Exception:  # noqa: BLE001 - a task meets the same mistake of ours, and answers for it
            return None

    async def _serve(self, call: Call, entered: bool) -> None:
        data, last = None, False
        try:
            data = await self._admitted(call, entered)
        except AmuxError as error:
            last = error.code == "identity_refused"
            data = reply.encode_failure(error)
            if last:
                self._note("refused: %s", error.message)
        except VarlinkErrorReply as error:
            data = reply.encode_error(error.name, error.paramstojson())
        except Exception:  # noqa: BLE001 - a mistake of ours must not end the connection
            _log.exception("call failed: %s.%s", call.interface, call.method, extra={"amux": self._fields()})
            data = reply.encode_failure(_internal())
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("call %s.%s", call.interface, call.method, extra={"amux": self._fields()})
        self._reply(None if call.oneway else data, last=last)

    def _fields(self) -> dict[str, object]:
        return {"uid": self._connection.peer.uid, "pid": self._connection.peer.pid}

    async def _admitted(self, call: Call, entered: bool) -> bytes:
        uid = self._connection.peer.uid
        if not entered:
            await self._admission.wait(uid)
        try:
            check_version(call.version)
            interface = self._registry.interfaces.get(call.interface)
            if isinstance(interface, DirectInterface):
                return reply.encode(await interface.answer(call.method, call.parameters))
            return await self._typed(call)
        finally:
            self._admission.leave(uid)

    async def _typed(self, call: Call) -> bytes:
        """A method whose parameters asyncvarlink converts and checks by their annotations."""
        name = f"{call.interface}.{call.method}"
        method, signature = self._registry.lookup_method(VarlinkMethodCall(name, call.parameters))
        try:
            parameters = signature.parameter_type.fromjson(call.parameters)
        except ConversionError as error:
            location = error.location[0] if error.location else ""
            raise InvalidParameter(parameter=str(location)[:80]) from None
        result: Any = method(**parameters)
        if signature.asynchronous:
            result = await result
        assert isinstance(result, AnnotatedResult)
        answer = signature.return_type.tojson(dict(result.parameters))
        return reply.encode(answer, unbounded=not _UNBOUNDED.isdisjoint((call.interface, name)))


def _internal() -> AmuxError:
    return AmuxError("internal", "the Hub failed at this call; its log says why")
