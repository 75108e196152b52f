"""The errors of the wire, for introspection: one Varlink error for each code of `amux.errors`."""

import types
import typing

from asyncvarlink import TypedVarlinkErrorReply

from amux.errors import CODES, INTERFACE, varlink_name


class Failure(typing.TypedDict):
    """What every error carries: one line for a person, and the same facts for a program."""

    message: str
    details: typing.Any


MEANINGS = {
    "invalid_argument": "A parameter is missing, unknown, of the wrong type or out of range.",
    "invalid_path": "The path breaks the grammar of document paths.",
    "name_twin": "The new name differs from an existing or reserved one only in case or Unicode form.",
    "invalid_content": "The content is not a text that can be stored.",
    "not_utf8": "It is not UTF-8: details.position is the first bad byte, details.observed_revision its hash.",
    "unsafe_file": "The name leads to something that is not a plain file of the Hub's own, or to another's memory.",
    "not_found": "There is no such thing.",
    "conflict": "The revision is not the current one, which is details.observed_revision. Nothing changed.",
    "limit_exceeded": "A limit is exceeded: details.limit, details.value and details.found say which.",
    "memory_disabled": "Memory is switched off.",
    "identity_refused": "The caller is not served here. The connection is closed.",
    "identity_unavailable": "It could not be found out who the caller is: try again.",
    "binding_required": "A call that names a session must carry the session's binding.",
    "binding_mismatch": "The binding is not the caller's scope.",
    "forbidden": "Only an administrator may do this, or a file pins the setting.",
    "storage_full": "The disk, or the part of it that may be used, is full. Nothing changed.",
    "storage_readonly": "The file system is read-only. Nothing changed.",
    "storage_io": "The file system failed.",
    "busy": "Too much is going on: try again after details.retry_after_ms.",
    "shutting_down": "The Hub is stopping and did not run the call: send it again to the next one.",
    "hub_unavailable": "No Hub answers. Made by the client, never by a Hub.",
    "outcome_uncertain": "Whether the write happened is unknown. Made by the client, never by a Hub.",
    "continuation_expired": "The pages of this answer are gone: ask the first question again.",
    "version_mismatch": "The client's version is not served: details.client and details.hub name both.",
    "protocol_error": "The message broke the rules of the wire. The connection is closed.",
    "internal": "A mistake of the Hub's own; its log says more.",
}


def _error(code: str) -> type[TypedVarlinkErrorReply]:
    name = varlink_name(code).rpartition(".")[2]

    def body(namespace: dict[str, object]) -> None:
        namespace["__doc__"] = MEANINGS[code]
        namespace["__annotations__"] = {"parameters": Failure}

    return types.new_class(name, (TypedVarlinkErrorReply,), {"interface": INTERFACE}, body)


ERRORS = tuple(_error(code) for code in CODES)
"""In the order of `amux.errors.CODES`."""
