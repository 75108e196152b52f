"""A scope as a dictionary from path to bytes, and every operation in the plainest words: what the store must equal."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def key(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def terms_of(query: str) -> list[str]:
    spaced = "".join(" " if c in WHITE else c for c in query)
    return list(dict.fromkeys(key(word) for word in spaced.split(" ") if word))


def title_of(text: str) -> str:
    """Front matter, else the first heading outside fences (of three signs, which is all that these tests write)."""
    lines = text.removeprefix("\ufeff").encode().splitlines()
    if lines and lines[0].rstrip() == b"---":
        ends = [n for n, line in enumerate(lines) if n and line.rstrip() in (b"---", b"...")]
        if ends:
            found = [line[6:].decode().strip().strip("\"'") for line in lines[1 : ends[0]] if line[:6] == b"title:"]
            if any(found):
                return next(title for title in found if title)
            lines = lines[ends[0] + 1 :]
    inside = False
    for line in lines:
        if inside:
            inside = not re.fullmatch(rb"\s*`{3,}\s*", line)
        elif re.match(rb" {0,3}```[^`]*$", line):
            inside = True
        elif line.startswith(b"# "):
            return line[2:].decode().strip()
    return ""


@dataclass
class Scope:
    """What lies on the disk, written by us or by anybody."""

    files: dict[str, bytes] = field(default_factory=dict)

    def revision(self, path: str) -> str:
        return sha(self.files[path]) if path in self.files else "absent"

    def names(self, directory: str) -> set[str]:
        """What is directly below a directory."""
        below = [path[len(directory) :] for path in self.files if path.startswith(directory)]
        return {path.split("/")[0] for path in below}

    def new_name_fault(self, path: str) -> str | None:
        """The code with which the path's new names are refused."""
        parts = path.split("/")
        for depth, part in enumerate(parts):
            names = self.names("".join(f"{parent}/" for parent in parts[:depth]))
            if part in names:
                continue
            if any(key(name) == key(part) for name in names):
                return "name_twin"
            if depth == 0 and key(part) == "memory.md" and path != "MEMORY.md":
                return "name_twin"
            if unicodedata.normalize("NFC", part) != part:
                return "invalid_path"
        return None

    def upsert(self, path: str, text: str, expected: str, documents: int, size: int) -> str | None:
        """The code of the refusal, or None and it is written."""
        data = text.encode()
        if b"\0" in data:
            return "invalid_content"
        entry = path == "MEMORY.md"
        lines = len(data.splitlines())
        if len(data) > (2048 if entry else 65536) or (entry and lines > 64):
            return "limit_exceeded"
        old = self.files.get(path)
        if old is None and (code := self.new_name_fault(path)):
            return code
        if self.revision(path) != expected:
            return "conflict"
        total = sum(map(len, self.files.values())) - len(old or b"") + len(data)
        if old is None and len(self.files) + 1 > documents:
            return "limit_exceeded"
        if total > size and len(data) > len(old or b""):
            return "limit_exceeded"
        self.files[path] = data
        return None

    def forget(self, path: str, expected: str) -> str | None:
        """The code of the refusal, or None and it is gone."""
        if path in self.files:
            if self.revision(path) != expected:
                return "conflict"
            del self.files[path]
        return None

    def readable(self, prefix: str) -> dict[str, str]:
        """What a search reads, in its order."""
        found = {}
        for path in sorted(self.files, key=str.encode):
            if prefix in ("", path) or path.startswith(prefix + "/"):
                try:
                    text = self.files[path].decode()
                except UnicodeDecodeError:
                    continue
                if len(self.files[path]) <= 65536:
                    found[path] = text
        return found

    def skipped(self, prefix: str) -> int:
        below = [path for path in self.files if prefix in ("", path) or path.startswith(prefix + "/")]
        return len(below) - len(self.readable(prefix))

    def search(self, query: str, prefix: str) -> list[dict[str, Any]]:
        """All matches in order, each with the keys that an answer has, but for the snippet's place in a long line."""
        terms = terms_of(query)
        ranked = []
        for path, text in self.readable(prefix).items():
            count = sum(term in key(text) or term in key(path) for term in terms)
            named = sum(term in key(path) or term in key(title_of(text)) for term in terms)
            if count:
                ranked.append((-count, -named, path.encode(), path, text))
        return [self._match(path, text, terms, -count) for count, _, _, path, text in sorted(ranked)]

    def _match(self, path: str, text: str, terms: list[str], count: int) -> dict[str, Any]:
        lines = [line.decode() for line in text.encode().splitlines()] or [""]
        counts = [sum(term in key(line) for term in terms) for line in lines]
        best = counts.index(max(counts))
        return {
            "path": path,
            "line": best + 1,
            "snippet": lines[best],
            "truncated": len(lines[best].encode()) > 240,
            "revision": sha(text.encode()),
            "keywords": count,
        }
