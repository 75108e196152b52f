"""`amux memory search|show|upsert|forget`: the hot commands, their table of options and a parser for it.

Promises that an agent's call costs one small process: nothing here imports click, argparse or re. The table
COMMANDS is the only place where options stand; click builds its help and completion from it (cli/memory.py).
The parser here takes well-formed command lines alone and leaves every other one to click, so there is one
author of usage errors.
"""

from __future__ import annotations

import os

from amux import endpoint, limits, output
from amux.client import MEMORY, Client
from amux.errors import EXIT_OK, AmuxError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Values = dict[str, Any]

TEXT, NUMBER, FILE, FLAG = "text", "number", "file", "flag"

_LARGEST = 2**63 - 1
"""What a number of a call can be: the wire's integers have 64 bits."""
_DIGITS = 19


class Option:
    """One option: `kind` is TEXT, NUMBER, FILE or FLAG; the value's name is the flag's, with underscores."""

    __slots__ = ("about", "flag", "kind", "metavar", "name", "required")

    def __init__(
        self,
        flag: str,
        kind: str,
        about: str,
        metavar: str = "",
        required: bool = False,
    ) -> None:
        self.flag = flag
        self.name = flag.removeprefix("--").replace("-", "_")
        self.kind = kind
        self.about = about
        self.metavar = metavar
        self.required = required


class Command:
    """One hot command: its argument (several words of it if `many`), options and help."""

    __slots__ = ("about", "argument", "many", "options", "run")

    def __init__(
        self,
        argument: str,
        about: str,
        options: tuple[Option, ...],
        run: Callable[[Values], int],
        many: bool = False,
    ) -> None:
        self.argument = argument
        self.about = about
        self.options = options
        self.run = run
        self.many = many


def utf8(argument: str, what: str, code: str = "invalid_argument") -> str:
    """A command-line argument as the text that its bytes spell in UTF-8, whatever the locale says."""
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError as error:
        raise AmuxError(
            code, f"{what} {argument!r} refused: byte {error.start} is not UTF-8", argument=what, position=error.start
        ) from error


def parse(command: Command, argv: list[str]) -> Values | None:
    """The values of a well-formed command line, None for any other (click says what is wrong with it)."""
    values: Values = {}
    words: list[str] = []
    options = {option.flag: option for option in command.options}
    rest = iter(argv)
    for word in rest:
        if word == "--":
            words += rest
        elif not word.startswith("-") or word == "-":
            words.append(word)
        else:
            flag, equals, value = word.partition("=")
            option = options.get(flag)
            if option is None or (option.kind == FLAG and equals):
                return None
            if option.kind == FLAG:
                values[option.name] = True
                continue
            if not equals:
                following = next(rest, None)
                if following is None:
                    return None
                value = following
            if option.kind == NUMBER and not (value.isascii() and value.isdigit() and len(value) <= _DIGITS):
                return None
            values[option.name] = int(value) if option.kind == NUMBER else value
    if not words or (len(words) > 1 and not command.many):
        return None
    if any(option.required and option.name not in values for option in command.options):
        return None
    values[command.argument] = words if command.many else words[0]
    return values


def call(method: str, parameters: Values, writes: str | None = None) -> Values:
    """One call of io.amux.Memory to the Hub that the environment means."""
    with Client(endpoint.choose()) as client:
        return client.call(MEMORY + method, parameters, writes)


def as_json(values: Values) -> bool:
    """Whether the answer is JSON: asked for, or not for a terminal."""
    return bool(values.get("json")) or not output.is_terminal(1)


def given(values: Values, *names: str) -> Values:
    """The parameters of those options that were given. Raises `invalid_argument` for a number that none can be."""
    parameters = {name: values[name] for name in names if values.get(name) is not None}
    for name, value in parameters.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            flag = "--" + name.replace("_", "-")
            raise AmuxError("invalid_argument", f"{flag} must be from 0 to {_LARGEST}", argument=name, value=_LARGEST)
    return parameters


def search(values: Values) -> int:
    parameters = given(values, "limit")
    parameters["query"] = utf8(" ".join(values["query"]), "query")
    if values.get("path_prefix") is not None:
        parameters["path_prefix"] = utf8(values["path_prefix"], "path_prefix", "invalid_path")
    reply = call("Search", parameters)
    if as_json(values):
        output.write(1, output.as_json(reply))
    else:
        output.matches(reply, parameters["query"])
    return EXIT_OK


def show(values: Values) -> int:
    path = utf8(values["path"], "path", "invalid_path")
    reply = call("Get", {"path": path, **given(values, "start_line", "end_line", "offset")})
    if as_json(values):
        output.write(1, output.as_json(reply))
    else:
        output.fragment(reply)
    return EXIT_OK


def upsert(values: Values) -> int:
    path = utf8(values["path"], "path", "invalid_path")
    expected = utf8(values["expected_revision"], "expected_revision")
    content = read_content(values.get("file"))
    parameters = {"path": path, "content": content, "expected_revision": expected}
    reply = call("Upsert", parameters, writes=path)
    if as_json(values):
        output.write(1, output.as_json(reply))
    else:
        output.line(1, f"saved {reply.get('path')}, revision {reply.get('revision')}")
    return EXIT_OK


def forget(values: Values) -> int:
    path = utf8(values["path"], "path", "invalid_path")
    expected = utf8(values["expected_revision"], "expected_revision")
    reply = call("Forget", {"path": path, "expected_revision": expected}, writes=path)
    if as_json(values):
        output.write(1, output.as_json(reply))
    else:
        output.line(1, f"{'was already absent:' if reply.get('already_absent') else 'forgot'} {path}")
    return EXIT_OK


def read_content(file: str | None) -> str:
    """The new text of a document, from a file or standard input, every byte kept.

    Refuses what the Hub would refuse (docs/reference/limits.md), before anything is sent: `invalid_content`
    for what is not UTF-8 or holds NUL, `limit_exceeded` over the limit of a document.
    """
    try:
        if file is None or file == "-":
            if output.is_terminal(0) and output.is_terminal(2):
                output.line(2, "amux: reading the new text from the terminal; end it with Ctrl-D")
            data = _read(0)
        else:
            source = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = _read(source)
            finally:
                os.close(source)
    except OSError as error:
        name = "standard input" if file is None or file == "-" else file
        raise AmuxError("invalid_argument", f"cannot read {name}: {error.strerror}", argument="file") from error
    return check_content(data)


def check_content(data: bytes) -> str:
    """The text of a document's bytes, if a document may hold them."""
    if len(data) > limits.DOCUMENT_BYTES:
        over = "more than " if len(data) > limits.READABLE_BYTES else ""
        raise AmuxError(
            "limit_exceeded",
            f"the new text has {over}{len(data)} bytes; a document has at most {limits.DOCUMENT_BYTES}: split it",
            limit="document_bytes",
            value=limits.DOCUMENT_BYTES,
            found=len(data),
        )
    try:
        content = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise AmuxError(
            "invalid_content", f"the new text is not UTF-8 at byte {error.start}", position=error.start
        ) from error
    nul = data.find(b"\0")
    if nul >= 0:
        raise AmuxError("invalid_content", f"the new text holds a NUL at byte {nul}: not a text", position=nul)
    return content


def _read(source: int) -> bytes:
    data = bytearray()
    while len(data) <= limits.READABLE_BYTES:
        part = os.read(source, 128 * 1024)
        if not part:
            break
        data += part
    return bytes(data)


JSON = Option("--json", FLAG, "Print JSON at a terminal too.")
REVISION = Option(
    "--expected-revision",
    TEXT,
    "The revision that you read (64 hex digits), or absent if the document must not exist yet.",
    "REVISION",
    required=True,
)
COMMANDS: dict[str, Command] = {
    "search": Command(
        "query",
        "Find documents that contain literal keywords.",
        (
            Option("--path-prefix", TEXT, "Only this directory or document.", "PATH"),
            Option(
                "--limit",
                NUMBER,
                f"How many documents, {limits.SEARCH_DEFAULT} if 0, at most {limits.SEARCH_MAXIMUM}.",
                "N",
            ),
            JSON,
        ),
        search,
        many=True,
    ),
    "show": Command(
        "path",
        "Show one document, or a part of it.",
        (
            Option("--start-line", NUMBER, "First line, counted from 1.", "N"),
            Option("--end-line", NUMBER, "Last line, inclusive.", "N"),
            Option("--offset", NUMBER, "Byte offset to go on at: next_offset of a truncated answer.", "N"),
            JSON,
        ),
        show,
    ),
    "upsert": Command(
        "path",
        "Create one document, or replace it whole, with the text of a file or of standard input.",
        (REVISION, Option("--file", FILE, "Read the text here instead of standard input.", "FILE"), JSON),
        upsert,
    ),
    "forget": Command("path", "Delete one document.", (REVISION, JSON), forget),
}


def main(name: str, argv: list[str]) -> int | None:
    """Run one hot command; None if its command line is for click."""
    command = COMMANDS[name]
    values = parse(command, argv)
    if values is None:
        return None
    return output.guarded(lambda: command.run(values), bool(values.get("json")))
