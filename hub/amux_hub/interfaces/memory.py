"""io.amux.Memory: the operations on documents, as they look on the wire.

Thin: the annotations are what clients see, `Memory.call` checks and runs everything. Parameters reach it as
they came, because a boolean must not pass for an integer and an unknown one is `invalid_argument`.
"""

# No postponed annotations: asyncvarlink reads them when the class is made.
import typing
from collections.abc import Mapping

from asyncvarlink import VarlinkInterface, varlinkmethod
from asyncvarlink.serviceerrors import MethodNotFound

from amux_hub.interfaces.shared import Shared
from amux_hub.wire.accept import Connection
from amux_hub.wire.protocol import DirectInterface


class Match(typing.TypedDict):
    path: str
    line: int
    snippet: str
    truncated: bool
    revision: str
    keywords: int


class Skipped(typing.TypedDict):
    path: str
    reason: str


class _Search(typing.TypedDict):
    matches: list[Match]
    scanned_files: int
    incomplete: bool


class SearchReply(_Search, total=False):
    incomplete_reason: str
    truncated: bool
    skipped_files: int
    skipped: list[Skipped]


class _Get(typing.TypedDict):
    path: str
    exists: bool
    revision: str
    content: str
    offset: int
    start_line: int
    end_line: int
    total_lines: int
    size_bytes: int
    truncated: bool


class GetReply(_Get, total=False):
    next_offset: int


class WriteReply(typing.TypedDict):
    path: str
    revision: str


class ForgetReply(WriteReply, total=False):
    already_absent: bool


class Document(typing.TypedDict):
    path: str
    bytes: int
    revision: str | None


class _List(typing.TypedDict):
    documents: list[Document]
    total_documents: int
    total_bytes: int


class ListReply(_List, total=False):
    next_after: str
    incomplete: bool


class MemoryInterface(VarlinkInterface, DirectInterface, name="io.amux.Memory"):
    """The memory of the caller: Markdown documents, named by relative paths that end in ".md".

    The scope follows from who calls and is never a parameter. `session` and `binding` are preconditions: a
    call that names a session must carry the binding that the conversation began with, and it must be the
    caller's scope. A reply has at most 8192 bytes.
    """

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._memory = shared.memory
        self._connection = connection

    async def answer(self, method: str, parameters: Mapping[str, object]) -> Mapping[str, object]:
        name = _METHODS.get(method)
        if name is None:
            raise MethodNotFound(method=method)
        return await self._memory.call(self._connection.caller, name, parameters)

    def at_once(self, method: str, parameters: Mapping[str, object]) -> Mapping[str, object] | None:
        caller = self._connection.known_caller()
        return None if caller is None else self._memory.at_once(caller, _METHODS.get(method, ""), parameters)

    @varlinkmethod
    def Search(  # noqa: N802 - the wire's name
        self,
        *,
        query: str,
        path_prefix: str | None = None,
        limit: int | None = None,
        session: str | None = None,
        binding: str | None = None,
    ) -> SearchReply:
        """Find documents that contain keywords: 1 to 16 of them, separated by white space, taken literally.

        Those with more distinct keywords come first. `limit` is 5 if 0 or missing, at most 20. When
        `incomplete` is true a part of the memory was not scanned: narrow `path_prefix`.
        """
        raise NotImplementedError

    @varlinkmethod
    def Get(  # noqa: N802
        self,
        *,
        path: str,
        start_line: int | None = None,
        end_line: int | None = None,
        offset: int | None = None,
        session: str | None = None,
        binding: str | None = None,
    ) -> GetReply:
        """Read a document or a part of it. A missing one is no error: `exists` is false.

        When `truncated` is true continue at `next_offset`, and check that `revision` is still the same.
        """
        raise NotImplementedError

    @varlinkmethod
    def Upsert(  # noqa: N802
        self,
        *,
        path: str,
        content: str,
        expected_revision: str,
        session: str | None = None,
        binding: str | None = None,
    ) -> WriteReply:
        """Create a document (`expected_revision` "absent") or replace it whole.

        It happens only if the document's revision is the expected one, else Conflict. What is answered is
        on the disk.
        """
        raise NotImplementedError

    @varlinkmethod
    def Forget(  # noqa: N802
        self,
        *,
        path: str,
        expected_revision: str,
        session: str | None = None,
        binding: str | None = None,
    ) -> ForgetReply:
        """Delete a document, if its revision is the expected one. One that is not there answers
        `already_absent`."""
        raise NotImplementedError

    @varlinkmethod
    def List(  # noqa: N802
        self,
        *,
        after: str | None = None,
        path_prefix: str | None = None,
        session: str | None = None,
        binding: str | None = None,
    ) -> ListReply:
        """Documents by path. When there are more, `next_after` is the `after` of the next call."""
        raise NotImplementedError


_METHODS = {name: name.lower() for name in ("Search", "Get", "Upsert", "Forget", "List")}
