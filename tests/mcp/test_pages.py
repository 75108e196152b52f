"""Pages: the cut, the ids, the limits, on their own and through a Hub (C18)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from amux import limits
from amux.errors import AmuxError
from amux_hub.mcp.pages import Pages, compact, split
from tests.harness import Hub
from tests.mcp.peers import Direct, Relay

# No lone surrogates: no answer of the store holds any.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)
AWKWARD = st.sampled_from(["\n", '"', "\\", "\x01", "部", "👩‍💻", "é", "a", "\u2028", "\ufeff"])
LONG = st.builds(
    lambda unit, times, tail: unit * times + tail,
    st.one_of(AWKWARD, TEXT),
    st.integers(0, 9000),
    TEXT,
).map(lambda text: text[:20000])


def in_loop(test: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await test()

    asyncio.run(run())


@given(LONG, st.integers(6, 6100))
@settings(max_examples=150, deadline=None)
@example("", 6)
@example("\x01" * 100, 6)
def test_slices_join_to_the_text_and_none_is_too_long(text: str, room: int) -> None:
    slices = split(text, room)
    assert "".join(slices) == text
    assert all(slices)
    for part in slices:
        assert len(json.dumps(part, ensure_ascii=False).encode()) - 2 <= room


@given(LONG)
@settings(max_examples=100, deadline=None)
def test_slices_are_as_long_as_fits(text: str) -> None:
    slices = split(text, 600)
    for part, following in itertools.pairwise(slices):
        assert len(json.dumps(part + following[0], ensure_ascii=False).encode()) - 2 > 600


@given(st.recursive(TEXT, lambda inner: st.lists(inner, max_size=40), max_leaves=60), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_c18_every_page_keeps_the_cap_and_all_pages_are_the_answer(value: Any, times: int) -> None:
    async def check() -> None:
        pages = Pages()
        answer = compact({"content": [value] * times})
        block = pages.first(answer)
        assert len(block.encode()) <= limits.PAGE_BYTES
        if block == answer:
            return
        texts, number = [], 0
        while True:
            page = json.loads(block)
            number += 1
            assert page["page"] == number
            texts.append(page["text"])
            if "continuation" not in page:
                break
            assert set(page) == {"text", "continuation", "page", "pages"}
            block = pages.get(page["continuation"])
            assert block == pages.get(page["continuation"])
            assert len(block.encode()) <= limits.PAGE_BYTES
        assert page["pages"] == number
        assert "".join(texts) == answer

    if len(compact(value)) * times < 300_000:
        in_loop(check)


def test_an_answer_of_exactly_one_page_is_not_cut() -> None:
    async def check() -> None:
        pages = Pages()
        fits = "x" * limits.PAGE_BYTES
        assert pages.first(fits) == fits
        wide = "部" * (limits.PAGE_BYTES // 3)
        assert pages.first(wide) == wide
        assert json.loads(pages.first(fits + "x"))["pages"] == 2
        assert json.loads(pages.first(wide + "部"))["pages"] == 2

    in_loop(check)


def test_pages_expire_after_ten_minutes_and_free_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        loop = asyncio.get_running_loop()
        now = [loop.time()]
        monkeypatch.setattr(loop, "time", lambda: now[0])
        pages = Pages()
        first = json.loads(pages.first("x" * 7000))["continuation"]
        now[0] += 599
        second = json.loads(pages.first("y" * 7000))["continuation"]
        assert json.loads(pages.get(first))["text"].strip("x") == ""
        now[0] += 2
        with pytest.raises(AmuxError) as expired:
            pages.get(first)
        assert expired.value.code == "continuation_expired"
        assert json.loads(pages.get(second))["page"] == 2
        now[0] += 600
        pages._expire()  # what the loop's timer calls
        assert not pages._pages

    assert limits.CONTINUATION_SECONDS == 600
    in_loop(check)


def test_a_timer_frees_the_pages_of_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        pages = Pages()
        pages.first("x" * 7000)
        while pages._pages:  # noqa: ASYNC110 - nothing tells but the state itself
            await asyncio.sleep(0.001)

    monkeypatch.setattr(limits, "CONTINUATION_SECONDS", 0.01)
    in_loop(check)


def test_the_oldest_of_more_than_64_pages_goes_first() -> None:
    async def check() -> None:
        pages = Pages()
        ids = [json.loads(pages.first("x" * 7000))["continuation"] for _ in range(limits.CONTINUATIONS + 1)]
        assert len(set(ids)) == len(ids)
        with pytest.raises(AmuxError) as expired:
            pages.get(ids[0])
        assert expired.value.code == "continuation_expired"
        for name in ids[1:]:
            pages.get(name)

    in_loop(check)


CONTENTS = {
    "one line of 64 KiB": "x" * limits.DOCUMENT_BYTES,
    "quotes": '"' * 20000,
    "backslashes and newlines": "\\\n" * 10000,
    "control characters": "\x01" * 10000,
    "chinese": "部署" * 5000,
    "emoji": "👩‍💻" * 2000,
}


@pytest.mark.parametrize("name", CONTENTS)
def test_c18_a_long_document_comes_whole_through_pages(shared_hub: Hub, name: str) -> None:
    """Every block keeps the cap (`text_of` asserts it), and the fragments join to the file."""
    content = CONTENTS[name]
    path = f"long/{name.replace(' ', '-')}.md"
    with Direct(shared_hub.sockets["mcp"]) as peer:
        peer.open()
        peer.tool("memory_upsert", path=path, content=content, expected_revision="absent")
        read, offset = "", 0
        while True:
            part = peer.tool("memory_get", path=path, offset=offset)
            read += part["content"]
            if not part["truncated"]:
                break
            offset = part["next_offset"]
        assert read == content


def test_c18_a_common_word_over_1024_documents(tmp_path: Any) -> None:
    with Hub(tmp_path / "hub") as hub:
        scope = hub.home / "memory" / "global" / "many"
        scope.mkdir(parents=True)
        for number in range(1024):
            (scope / f"{number:04}.md").write_text(f"# Note {number}\n\nthe common word, {'and more ' * 40}\n")
        hub.restart()
        with Direct(hub.sockets["mcp"]) as peer:
            peer.open()
            found = peer.tool("memory_search", query="common", limit=20)
            while found["incomplete"]:  # a slow disk: what was read so far stays in memory
                found = peer.tool("memory_search", query="common", limit=20)
            assert len(found["matches"]) == 20
            assert found["scanned_files"] == 1024


def test_a_continuation_belongs_to_its_connection_and_may_be_repeated(shared_hub: Hub) -> None:
    with Direct(shared_hub.sockets["mcp"]) as first, Direct(shared_hub.sockets["mcp"]) as second:
        first.open()
        second.open()
        first.tool("memory_upsert", path="pages.md", content='"' * 20000, expected_revision="absent")
        page = json.loads(first.block("memory_get", path="pages.md"))
        again = first.block("result_continue", continuation=page["continuation"])
        assert again == first.block("result_continue", continuation=page["continuation"])
        answer = second.rpc(
            "tools/call", {"name": "amux.result_continue", "arguments": {"continuation": page["continuation"]}}
        )
        assert answer["isError"] is True
        assert json.loads(answer["content"][0]["text"])["error"]["code"] == "continuation_expired"


def test_pages_end_with_a_restart(held_hub: Hub) -> None:
    with Relay(held_hub) as relay:
        relay.open()
        relay.tool("memory_upsert", path="p.md", content='"' * 20000, expected_revision="absent")
        page = json.loads(relay.block("memory_get", path="p.md"))
        held_hub.restart()
        answer = relay.rpc(
            "tools/call", {"name": "amux.result_continue", "arguments": {"continuation": page["continuation"]}}
        )
        assert json.loads(answer["content"][0]["text"])["error"]["code"] == "continuation_expired"
