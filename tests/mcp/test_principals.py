"""Two made-up principals on one MCP server: neither can see the other, whatever it says (S2, S9's held connections)."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

from amux.errors import AmuxError
from tests.mcp.peers import HANDSHAKE
from tests.mcp.world import MadeUp, Talk, World, in_world


def test_s2_bob_gets_of_alices_documents_what_he_gets_of_absent_ones(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        alice, bob = MadeUp(4001, "alice", world.admission), MadeUp(4002, "bob", world.admission)
        async with world.connect(alice) as hers, world.connect(bob) as his:
            content = 'alice knows "this"\n' * 400
            hers_path = {"path": "diary.md"}
            written = await hers.tool("memory_upsert", **hers_path, content=content, expected_revision="absent")
            page = await hers.tool("memory_get", **hers_path)
            assert (await his.tool("memory_get", **hers_path))["exists"] is False
            assert (await his.tool("memory_search", query="alice"))["matches"] == []
            offset = await his.tool("memory_get", **hers_path, offset=10)
            assert offset == {**await his.tool("memory_get", path="absent.md", offset=10), **hers_path} or (
                offset["error"]["code"] == (await his.tool("memory_get", path="absent.md", offset=10))["error"]["code"]
            )
            wrong = await his.tool("memory_upsert", **hers_path, content="", expected_revision=written["revision"])
            assert wrong["error"]["details"]["observed_revision"] == "absent"
            gone = await his.tool("memory_forget", **hers_path, expected_revision=written["revision"])
            assert gone["already_absent"] is True
            stolen = await his.tool("result_continue", continuation=page["continuation"])
            assert stolen["error"]["code"] == "continuation_expired"
            forged = await his.tool("memory_get", **hers_path, principal="alice")
            assert forged["error"]["code"] == "invalid_argument"
            forged = await his.tool("memory_get", **hers_path, binding="principal:alice")
            assert forged["error"]["code"] == "invalid_argument"
            assert (await hers.tool("memory_search", query="alice"))["matches"][0]["revision"] == written["revision"]

    in_world(tmp_path, check)


def test_a_binding_refuses_and_never_grants(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        bob = MadeUp(4002, "bob", world.admission)
        codes = []
        for greeting in ({"binding": "principal:alice"}, {"binding": "global"}, {"session": "s1"}):
            try:
                async with world.connect(bob, **greeting):
                    raise AssertionError("served")
            except AmuxError as error:
                codes.append(error.code)
        assert codes == ["binding_mismatch", "binding_mismatch", "binding_required"]
        async with world.connect(bob, session="s1", binding="principal:bob") as his:
            assert (await his.tool("memory_get", path="a.md"))["exists"] is False

    in_world(tmp_path, check)


def test_s9_somebody_refused_meanwhile_is_told_once_and_disconnected(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        bob = MadeUp(4002, "bob", world.admission)
        async with world.connect(bob) as his:
            assert (await his.tool("memory_get", path="a.md"))["exists"] is False
            bob.refused = True
            assert (await his.tool("memory_get", path="a.md"))["error"]["code"] == "identity_refused"
            assert await his.ended()

    in_world(tmp_path, check)


def test_a_drain_answers_what_runs_and_says_goodbye(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        bob = MadeUp(4002, "bob", world.admission)
        ours, theirs = socket.socketpair()
        serving = asyncio.create_task(world.server.serve(theirs, bob))
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        talk = Talk(reader, writer)
        await talk.line({"amux": 1})
        await talk.rpc("initialize", HANDSHAKE)
        for number in range(40):
            arguments = {"path": f"{number}.md", "content": "x", "expected_revision": "absent"}
            call = {"name": "amux.memory_upsert", "arguments": arguments}
            writer.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call}).encode())
            writer.write(b"\n")
        await writer.drain()
        first = json.loads(await reader.readline())
        world.admission.drain()
        await world.server.drain()
        answers = [first, *map(json.loads, (await reader.read()).splitlines())]
        assert answers.pop() == {"amux": 1, "closing": True}
        assert sorted(answer["id"] for answer in answers) == list(range(40))
        run = {answer["id"] for answer in answers if not answer["result"]["isError"]}
        stored = {int(path.stem) for path in (tmp_path / "home/memory").rglob("*.md")}
        assert run == stored
        for answer in answers:
            if answer["id"] not in run:
                text = answer["result"]["content"][0]["text"]
                assert json.loads(text)["error"]["code"] == "shutting_down"
        assert len(run) < 40
        await serving
        writer.close()

    in_world(tmp_path, check)
