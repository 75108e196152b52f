"""A fixed set of inputs against a real Hub and the parsers: what `tests.fuzz.run` does a million times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.fuzz import corpus, generators
from tests.fuzz.grammar import CHECKS, Grammar
from tests.fuzz.mcp import Mcp
from tests.fuzz.run import BATCHES, feed, planted
from tests.fuzz.watch import GROWTH_BYTES, Watch, disconnected, resident
from tests.fuzz.wire import Wire
from tests.harness import Hub

SEED = 20_250_101
WIRE, MCP, GRAMMAR = 4000, 2500, 20_000


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with planted(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


def _silent(name: str, done: int) -> None:
    """Progress that nobody looks at."""


def _nothing_left(hub: Hub, watch: Watch, warm: int) -> None:
    disconnected(hub, watch.sockets)
    assert watch.faults() == []
    assert watch.sample() - warm <= GROWTH_BYTES


def test_s6_c7_frames_of_any_kind_are_answered_or_refused(hub: Hub) -> None:
    watch = Watch(hub)
    wire = Wire(hub.sockets["hub"], hub.sockets["admin"], SEED)
    feed("wire", wire, 0, WIRE // 4, _silent)
    warm = resident(hub.pid)
    feed("wire", wire, WIRE // 4, WIRE - WIRE // 4, _silent)
    assert wire.violations > WIRE // 10
    _nothing_left(hub, watch, warm)


def test_s6_c7_messages_of_any_kind_leave_the_mcp_conversation_alive(hub: Hub) -> None:
    watch = Watch(hub)
    mcp = Mcp(hub.sockets["mcp"], SEED)
    feed("mcp", mcp, 0, MCP // 4, _silent)
    warm = resident(hub.pid)
    feed("mcp", mcp, MCP // 4, MCP - MCP // 4, _silent)
    assert mcp.violations > MCP // 50
    _nothing_left(hub, watch, warm)


@pytest.mark.parametrize("target", ["wire", "mcp"])
def test_s6_the_corpus_is_answered_or_refused(hub: Hub, target: str) -> None:
    watch = Watch(hub)
    inputs = corpus.load()[target]
    varlink = Wire(hub.sockets["hub"], hub.sockets["admin"], SEED)
    fed: Wire | Mcp = varlink if target == "wire" else Mcp(hub.sockets["mcp"], SEED)
    step = BATCHES[target]
    for first in range(0, len(inputs), step):
        some = inputs[first : first + step]
        fed.batch(first, len(some), some)
    fed.close()
    _nothing_left(hub, watch, resident(hub.pid))


@pytest.mark.parametrize("number", range(len(CHECKS)), ids=[check.__name__ for check in CHECKS])
def test_c6_c11_c16_c17_d3_the_grammar_holds_for_any_text(number: int) -> None:
    """Paths, prefixes, queries, twins, bindings, strict JSON, fragments, titles and snippets."""
    grammar = Grammar(SEED)
    for index in range(number, GRAMMAR, len(CHECKS)):
        grammar.batch(index, 1)


def test_an_input_is_a_matter_of_the_seed_alone() -> None:
    for make in (generators.wire, generators.mcp, generators.greeting):
        first, again = ([make(Random(f"{SEED}:{n}")) for n in range(200)] for _ in range(2))
        assert first == again
        assert len(set(first)) > 150


def test_the_corpus_is_what_its_file_says(source_root: Path) -> None:
    inputs = corpus.load()
    assert set(inputs) == {"wire", "mcp"}
    assert b"[" * 524288 + b"\0" in inputs["wire"]
    assert b'{"method":"io.amux.Hub.WhoAmI"}\n\0' in inputs["wire"]
    assert all(data.endswith(b"\n") for data in inputs["mcp"])
