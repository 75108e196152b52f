"""The corpus: Markdown like that of a memory in use, the same bytes for the same seed, and the queries.

Words come with frequencies after Zipf's law; document lengths are log-normal. Nothing here reads the clock or
the locale. `write` keeps within the limits of one search (docs/reference/limits.md), so that no search of the
bench may end early.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from tests.bench import words

SEED = 20261130


@dataclass(frozen=True)
class Size:
    """A corpus: how many documents, how many bytes at most."""

    documents: int
    total: int


LARGE = Size(1024, 8 * 1024 * 1024)
SMALL = Size(50, 50 * 8 * 1024)

QUERIES: dict[str, str] = {
    "rare": "kestrelwing",
    "rare, other case": "zanzibarite",
    "rare, 40 documents": "quillfeather",
    "common": "deploy",
    "common, in most documents": "service",
    "absent": "xylophonist",
    "2 words, rare": "obsidianflux kestrelwing",
    "2 words, common": "certificate renewal",
    "2 words, absent": "nonesuch whatnot",
    "3 words": "backup restore obsidianflux",
    "3 words, one absent": "postgres vacuum quillfeather",
    "4 words, common": "database migration rollback schema",
    "4 words, absent": "hippogriff basilisk manticore wyvern",
    "Chinese, rare": "青龙偃月",
    "Chinese, common": "数据库",
    "Chinese, absent": "朱雀玄武",
    "2 words, Chinese": "一致性 琥珀色",
    "3 words, Chinese": "云梦泽 故障 复盘",
    "mixed": "kestrelwing 云梦泽",
    "mixed, 4 words": "timeout 超时 retry 重试",
}
"""What stands before the query says why it is there."""


class Weighted:
    """Draws words so that the one of rank r comes about 1 / (r + 2.7) as often as the first (Zipf-Mandelbrot)."""

    def __init__(self, population: list[str], random_: random.Random) -> None:
        self._population = population
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(1, len(population) + 1)))
        self._random = random_

    def some(self, count: int) -> list[str]:
        return self._random.choices(self._population, cum_weights=self._weights, k=count)


class Writer:
    """Makes documents, one after another, from one source of random numbers."""

    def __init__(self, seed: int = SEED) -> None:
        self.random = random.Random(seed)
        # Every text has words that stand nowhere else: names, hosts, numbers of tickets.
        self._english = Weighted([*words.ENGLISH, *self._names(4000)], self.random)
        self._chinese = Weighted(words.CHINESE, self.random)

    def _names(self, count: int) -> list[str]:
        syllables = "ka lo mi ren tor vas el qui bra dun fos gal hex jor nim pel sar tul wex yon".split()
        return [
            "".join(self.random.choices(syllables, k=self.random.randint(2, 4)))
            + self.random.choice(["", "", "-" + str(self.random.randint(1, 99)), "_" + str(self.random.randint(1, 9))])
            for _ in range(count)
        ]

    def sentence(self, chinese: bool) -> str:
        count = self.random.randint(5, 22)
        if chinese:
            drawn = self._chinese.some(count)
            if self.random.random() < 0.2:
                drawn[self.random.randrange(count)] = f" {self._english.some(1)[0]} "
            drawn[count // 2] += "，"
            return "".join(drawn) + "。"
        drawn = self._english.some(count)
        if self.random.random() < 0.3:
            at = self.random.randrange(count)
            drawn[at] = f"`{drawn[at]}`"
        return " ".join(drawn).capitalize() + ". "

    def heading(self, chinese: bool) -> str:
        return "".join(self._chinese.some(3)) if chinese else " ".join(self._english.some(4)).title()

    def document(self, title: str, kind: str, size: int, planted: list[str]) -> bytes:
        """A document of at most `size` bytes, close to it. `kind` is english, chinese or mixed."""
        lines: list[str] = []
        if self.random.random() < 0.35:
            day = f"2026-{self.random.randint(1, 12):02}-{self.random.randint(1, 28):02}"
            lines += ["---", f"title: {title}", f"created: {day}", "tags: [memory, notes]", "---", ""]
        lines += [f"# {title}", ""]
        length = sum(len(line.encode()) + 1 for line in lines)
        room = size - sum(len(word.encode()) + 40 for word in planted)
        while length < room:
            block = self._block(kind)
            lines += block
            length += sum(len(line.encode()) + 1 for line in block)
        # Planted words stand anywhere, so that a search for one reads half of the document on average.
        for word in planted:
            lines.insert(self.random.randrange(len(lines) // 4, len(lines)), f"Remember {word} here.")
        raw = "\n".join(lines).encode()[: size - 1]
        return raw.decode(errors="ignore").encode() + b"\n"

    def _block(self, kind: str) -> list[str]:
        chinese = kind == "chinese" or (kind == "mixed" and self.random.random() < 0.5)
        shape = self.random.random()
        if shape < 0.12:
            return ["", f"## {self.heading(chinese)}", ""]
        if shape < 0.4:
            return [f"- {self.sentence(chinese).strip()}" for _ in range(self.random.randint(2, 6))]
        if shape < 0.46:
            return ["```", *(f"{a} = {b}" for a, b in [self._english.some(2) for _ in range(3)]), "```", ""]
        return ["".join(self.sentence(chinese) for _ in range(self.random.randint(2, 7))).strip(), ""]


def _path(number: int, kind: str, random_: random.Random) -> str:
    if kind == "chinese" and random_.random() < 0.5:
        return f"项目/{random_.choice(words.PLACES_CHINESE)}/{random_.choice(words.PLACES_CHINESE)}-{number:04}.md"
    topic = random_.choice(words.TOPICS)
    if random_.random() < 0.3:
        return f"journal/2026/{random_.randint(1, 12):02}/{number:04}-{topic}.md"
    return f"projects/{random_.choice(words.PROJECTS)}/{topic}-{number:04}.md"


def _sizes(size: Size, random_: random.Random) -> list[int]:
    """Lengths of all documents but MEMORY.md: log-normal, together just under the limit."""
    drawn = [math.exp(random_.gauss(0, 0.7)) for _ in range(size.documents - 1)]
    scale = (size.total - 2048) / sum(drawn)
    capped = [min(max(round(one * scale), 400), 60 * 1024) for one in drawn]
    # Clamping moved the sum a little: take the difference from, or give it to, the middling ones.
    difference = size.total - 2048 - sum(capped)
    middling = [index for index, one in enumerate(capped) if 4096 <= one <= 16384]
    for index in middling:
        capped[index] += difference // len(middling)
    return capped


def make(size: Size) -> dict[str, bytes]:
    """Path → content, the same for the same size always."""
    writer = Writer(SEED + size.documents)
    random_ = writer.random
    chosen: dict[int, list[str]] = {}
    for word, count in words.PLANTED.items():
        for number in random_.sample(range(size.documents - 1), max(1, count * size.documents // LARGE.documents)):
            chosen.setdefault(number, []).append(word)
    documents = {"MEMORY.md": writer.document("Memory", "english", 1900, [])}
    for number, length in enumerate(_sizes(size, random_)):
        kind = random_.choices(("english", "chinese", "mixed"), (55, 30, 15))[0]
        title = writer.heading(kind == "chinese")
        path = _path(number, kind, random_)
        documents[path] = writer.document(title, kind, length, chosen.get(number, []))
    return documents


def digest(documents: Mapping[str, bytes]) -> str:
    """Names a corpus in a report: SHA-256 over paths and contents."""
    whole = hashlib.sha256()
    for path in sorted(documents):
        whole.update(path.encode() + b"\0" + documents[path] + b"\0")
    return whole.hexdigest()


def write(documents: Mapping[str, bytes], directory: Path) -> Path:
    """The documents as files below `directory`, modes as the Hub makes them."""
    for path, content in documents.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(content)
        target.chmod(0o600)
    return directory
