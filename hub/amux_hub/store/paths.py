"""The grammar of logical paths: what is refused, and why. Refused, never repaired.

Rules: docs/reference/limits.md, "Paths". Nothing here touches a disk.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from amux import limits
from amux.errors import AmuxError

_PERCENT = re.compile(r"%[0-9A-Fa-f]{2}")
# Unicode Standard Annex 9, "Directional Formatting Characters".
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
SUFFIX = ".md"
_TILDE = "begins with ~; paths are relative to the memory"


def nfc(text: str) -> str:
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(maxsize=16384)
def twin_key(component: str) -> str:
    """What two names must not share: NFC(casefold(NFC(name)))."""
    if component.isascii():
        return component.lower()
    return nfc(nfc(component).casefold())


def _refuse(path: str, why: str) -> AmuxError:
    shown = path if len(path) <= 120 else path[:117] + "…"
    return AmuxError("invalid_path", f"path {printable(shown)!r} refused: {why}", reason=why)


def printable(text: str) -> str:
    """`text` without control, bidirectional control and unencodable characters, for messages and replies."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if _is_plain(c) else c.encode("unicode_escape").decode("ascii") for c in text)


def _is_plain(c: str) -> bool:
    return unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp") and c not in _BIDI


def _character_fault(text: str) -> str | None:
    """What characters rule out, wherever they stand."""
    if "\\" in text:
        return "contains a backslash; separate names with /"
    if _PERCENT.search(text):
        return "contains a percent escape; write the character itself"
    if not (text.isascii() and text.isprintable()):
        for c in text:
            if unicodedata.category(c) == "Cc":
                return f"contains the control character U+{ord(c):04X}"
            if c in _BIDI:
                return f"contains the bidirectional control character U+{ord(c):04X}"
    return None


def _component_fault(component: str, *, last: bool) -> str | None:
    if not component:
        return "empty component; use one slash between names and none at either end"
    if component.startswith("."):
        return "a component begins with a dot"
    if component[0].isspace() or component[-1].isspace():
        return "a component begins or ends with a space"
    if component.endswith("."):
        return "a component ends with a dot"
    if len(component.encode()) > limits.COMPONENT_BYTES:
        return f"a component is longer than {limits.COMPONENT_BYTES} bytes"
    if not last and component.endswith(SUFFIX):
        return f"a directory ends in {SUFFIX}"
    return None


def _check(path: str) -> list[str]:
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise _refuse(path, "not valid UTF-8") from None
    if size > limits.PATH_BYTES:
        raise _refuse(path, f"{size} bytes; the limit is {limits.PATH_BYTES}")
    if path.startswith("/"):
        raise _refuse(path, "absolute; paths are relative to the memory")
    if path.startswith("~"):
        raise _refuse(path, _TILDE)
    if fault := _character_fault(path):
        raise _refuse(path, fault)
    return path.split("/")


def check_document(path: str) -> list[str]:
    """The components of a document's path.

    Raises `invalid_path`, naming the rule.
    """
    components = _check(path)
    _check_components(path, components, document=True)
    if not components[-1].endswith(SUFFIX):
        raise _refuse(path, f"does not end in {SUFFIX}")
    return components


def check_prefix(path: str) -> list[str]:
    """The components of a search prefix: a directory or one document; empty is all.

    Raises `invalid_path`, naming the rule.
    """
    if path == "":
        return []
    components = _check(path)
    _check_components(path, components, document=False)
    return components


def _check_components(path: str, components: list[str], *, document: bool) -> None:
    if len(components) > limits.PATH_DEPTH:
        raise _refuse(path, f"{len(components)} levels; the limit is {limits.PATH_DEPTH}")
    for component in components[:-1]:
        if fault := _component_fault(component, last=False):
            raise _refuse(path, fault)
    if fault := _component_fault(components[-1], last=True):
        if not document and components[-1] == "":
            fault = "ends in a slash; name the directory without it"
        raise _refuse(path, fault)


def entry_fault(components: list[str], *, directory: bool) -> str | None:
    """Why a name found on disk, the last of `components`, makes no path of a document or of a directory with some."""
    name = components[-1]
    if fault := _name_fault(name, last=not directory):
        return fault
    if len(components) == 1 and name.startswith("~"):
        return _TILDE
    if len(components) >= limits.PATH_DEPTH + (not directory):
        return f"deeper than {limits.PATH_DEPTH} levels"
    # Four of the longest names fit: most paths need not be measured.
    if len(components) > 4 and len("/".join(components).encode()) > limits.PATH_BYTES:
        return f"its path is longer than {limits.PATH_BYTES} bytes"
    return None


@lru_cache(maxsize=16384)
def _name_fault(name: str, *, last: bool) -> str | None:
    try:
        name.encode()
    except UnicodeEncodeError:
        return "not valid UTF-8"
    return _character_fault(name) or _component_fault(name, last=last)
