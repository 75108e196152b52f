"""Inputs to the parsers and cutters in this process: what they accept is what their rules say, whatever comes.

Each check raises FoundError with the input. Exceptions other than the typed errors are findings too, and an
input that takes longer than `WATCHDOG_SECONDS` ends the process with the stack of where it was.
"""

from __future__ import annotations

import faulthandler
import json
import re
import unicodedata
from collections.abc import Callable
from random import Random
from typing import Any

from amux import limits
from amux.errors import AmuxError
from amux_hub.identity import Caller
from amux_hub.mcp import preamble
from amux_hub.memory import check_binding
from amux_hub.store import fragment, paths, read, reply, text
from amux_hub.store.snippet import snippet
from amux_hub.wire import call, strictjson
from tests.fuzz import generators, values
from tests.fuzz.failure import FoundError

WATCHDOG_SECONDS = 60.0

_WHITE_SPACE = frozenset("\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | {
    chr(code) for code in range(0x2000, 0x200B)
}
_PERCENT = re.compile("%[0-9A-Fa-f]{2}")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def refused(function: Callable[..., Any], *arguments: Any) -> str | None:
    """The code of the refusal, None if there is none."""
    try:
        function(*arguments)
    except AmuxError as error:
        json.dumps(error.to_json(), ensure_ascii=False)
        return error.code
    return None


def _found(condition: bool, what: str, data: bytes | str) -> None:
    if condition:
        raise FoundError(what, data)


def check_path(rng: Random) -> None:
    path = values.path(rng)
    code = refused(paths.check_document, path)
    _found(code not in (None, "invalid_path"), f"refused with {code}", path)
    if code is not None:
        return
    components = path.split("/")
    _found(paths.check_document(path) != components, "its components are others", path)
    _found(not path.endswith(".md"), "accepted without .md", path)
    _found(len(path.encode()) > 1024 or len(components) > 16, "accepted over a limit", path)
    for component in components:
        _found(len(component.encode()) > 255, "accepted a component over 255 bytes", path)
        _found(component in ("", ".", "..") or component[0] == ".", "accepted a dot or nothing", path)
        _found(component[0] in _WHITE_SPACE or component[-1] in _WHITE_SPACE, "accepted space at an end", path)
        _found(component.endswith("."), "accepted a dot at an end", path)
    _found(any(one.endswith(".md") for one in components[:-1]), "accepted a directory that ends in .md", path)
    _found(path[0] == "~" or _PERCENT.search(path) is not None, "accepted a tilde or a percent escape", path)
    for character in path:
        bad = character in _BIDI or character == "\\" or unicodedata.category(character) == "Cc"
        _found(bad, f"accepted {character!r}", path)
    _found(refused(paths.check_prefix, path) is not None, "a document's path is no prefix", path)
    for number in range(1, len(components)):
        directory = "/".join(components[:number])
        _found(refused(paths.check_prefix, directory) is not None, "its directory is no prefix", path)


def check_twins(rng: Random) -> None:
    """Case and normal form never make a second name (C16, C17, D3)."""
    name = values.text(rng, 6)
    if refused(paths.check_document, f"{name}.md") is not None:
        return
    key = paths.twin_key(name)
    for other in (unicodedata.normalize("NFD", name), unicodedata.normalize("NFC", name), name.casefold()):
        _found(paths.twin_key(other) != key, f"its twin {other!r} has another key", name)


def check_prefix(rng: Random) -> None:
    prefix = values.prefix(rng)
    code = refused(paths.check_prefix, prefix)
    _found(code not in (None, "invalid_path"), f"refused with {code}", prefix)
    if code is None:
        _found(prefix != "" and "/".join(paths.check_prefix(prefix)) != prefix, "its components are others", prefix)


def check_query(rng: Random) -> None:
    query = values.query(rng)
    code = refused(text.parse_query, query)
    terms = [term for term in "".join("\n" if c in _WHITE_SPACE else c for c in query).split("\n") if term]
    wanted = None
    if len(query.encode("utf-8", "surrogatepass")) > limits.QUERY_BYTES or len(terms) > limits.QUERY_TERMS:
        wanted = "limit_exceeded"
    elif not terms:
        wanted = "invalid_argument"
    _found(code != wanted, f"refused with {code}, not {wanted}", query)
    if code is None:
        keys = text.parse_query(query)
        _found(keys != list(dict.fromkeys(text.match_key(term).encode() for term in terms)), "other terms", query)
        _found(not all(keys), "an empty keyword", query)


def check_json(rng: Random) -> None:
    data = generators.call(rng)
    if rng.random() < 0.5:
        data = generators.mangled(data, rng)
    try:
        value = strictjson.loads(data)
    except AmuxError as error:
        _found(error.code != "protocol_error", f"refused with {error.code}", data)
        _found(len(error.message) > 300, "a refusal quotes what was sent", data)
        return
    _found(repr(json.loads(data.decode())) != repr(value), "read otherwise than by the standard library", data)
    _found(repr(strictjson.loads(strictjson.dumps(value))) != repr(value), "does not survive being written", data)
    code = refused(call.parse, data)
    _found(code not in (None, "protocol_error"), f"refused as a call with {code}", data)
    if code is None:
        code = refused(call.check_version, call.parse(data).version)
        _found(code not in (None, "version_mismatch"), f"its version is refused with {code}", data)


_OWNER = Caller(1000, "u", "u", "global", administrator=True)


def check_first_line(rng: Random) -> None:
    line = generators.greeting(rng)
    try:
        greeting = preamble.parse(strictjson.loads(line))
        check_binding(_OWNER, greeting.session, greeting.binding)
    except AmuxError as error:
        known = ("protocol_error", "invalid_argument", "version_mismatch", "binding_required", "binding_mismatch")
        _found(error.code not in known, f"refused with {error.code}", line)
        return
    _found(greeting.binding not in ("", "global"), "a foreign binding is accepted", line)


def check_binding_text(rng: Random) -> None:
    session, binding = values.session(rng), values.binding(rng)
    code = refused(check_binding, _OWNER, session, binding)
    shown = f"{session!r} {binding!r}"
    _found(code is None and binding not in ("", "global"), "a foreign binding is accepted", shown)
    _found(code is None and bool(session) and not binding, "a session without a binding is accepted", shown)


def check_fragments(rng: Random) -> None:
    """Fragments concatenate to the document, each in a bounded reply, none inside a character (C11, C18)."""
    document = values.content(rng).encode("utf-8", "replace")
    got, offset, rounds = b"", 0, 0
    while True:
        answer = read.get("a.md", document, 0, 0, offset)
        _found(reply.size(answer) > reply.PARAMETERS_BYTES, f"a reply of {reply.size(answer)} bytes", document)
        piece = str(answer["content"]).encode()
        _found(answer["offset"] != offset, "it begins elsewhere", document)
        got += piece
        if not answer["truncated"]:
            break
        _found(not piece, "no progress", document)
        offset = answer["next_offset"]  # type: ignore[assignment]
        rounds += 1
        _found(rounds > 1000, "no end", document)
    _found(got != document, "the fragments are not the document", document)
    asked = [rng.choice(values.NUMBERS) for _ in range(3)]
    try:
        read.check_range(*asked)
        read.get("a.md", document, *asked)
    except AmuxError as error:
        _found(error.code != "invalid_argument", f"{asked} refused with {error.code}", document)


def check_cut(rng: Random) -> None:
    passage = values.text(rng, 60)
    budget = rng.choice(values.SIZES)
    fits = fragment.fitting(passage, budget)
    _found(fragment.escaped_size(passage[:fits]) > budget, f"does not fit {budget}", passage)
    at = fragment.cut(passage, fits)
    _found(bool(passage) and not 1 <= at <= max(fits, 2), f"cut at {at}, {fits} fit", passage)
    clipped = fragment.clip(passage, budget)
    _found(not passage.startswith(clipped) or len(clipped.encode()) > budget, f"clipped to {clipped!r}", passage)


def check_search(rng: Random) -> None:
    """Title, key and snippet of any document."""
    document = values.content(rng).encode("utf-8", "replace")
    title = text.title_of(document)
    _found(title not in document.decode().removeprefix("\ufeff"), f"its title is {title!r}", document)
    key = text.match_key_bytes(document)
    _found(len(key.splitlines()) != len(document.splitlines()), "its key has other lines", document)
    try:
        terms = text.parse_query(values.query(rng))
    except AmuxError:
        return
    found = snippet(document, key, terms)
    lines = document.splitlines() or [b""]
    _found(not 1 <= found.line <= len(lines), f"line {found.line}", document)
    whole = lines[found.line - 1].decode()
    _found(len(found.text.encode()) > limits.SNIPPET_BYTES, "the snippet is too long", document)
    _found(found.text not in whole or found.truncated == (found.text == whole), f"snippet {found.text!r}", document)


CHECKS = (
    check_path,
    check_path,
    check_prefix,
    check_query,
    check_query,
    check_twins,
    check_json,
    check_json,
    check_first_line,
    check_binding_text,
    check_fragments,
    check_cut,
    check_search,
)


class Grammar:
    """A target; see `tests.fuzz.wire.Wire`. Input N is a matter of `CHECKS[N % len(CHECKS)]`."""

    violations = 0

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def batch(self, first: int, count: int) -> None:
        """Inputs `first` to `first + count - 1`. Raises FoundError."""
        faulthandler.dump_traceback_later(WATCHDOG_SECONDS, exit=True)
        try:
            for index in range(first, first + count):
                check = CHECKS[index % len(CHECKS)]
                try:
                    check(Random(f"{self._seed}:grammar:{index}"))
                except Exception as error:
                    error.add_note(f"grammar input {index} of seed {self._seed}, {check.__name__}")
                    raise
        finally:
            faulthandler.cancel_dump_traceback_later()

    def close(self) -> None:
        pass
