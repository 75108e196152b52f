"""The protocol and every limit, with judges that misbehave, as an unprivileged account."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub.verdicts import Verdicts
from amux_pam.child import PIPE
from amux_pam.server import AT_ONCE, CONNECTIONS, parse
from tests.pam import stub as uids
from tests.pam.kit import alive, rest, stub, wait_for

GOOD = {b"%d\n" % uid: uid for uid in (0, 1, 1000, 65534, 2147483648, 4000000000, 4294967294)}
BAD = [
    b"", b"\n", b"1000", b"-1\n", b"+1\n", b" 1\n", b"1 \n", b"1\r\n", b"01\n", b"00\n", b"1\n\n", b"1\n2\n", b"0x1\n",
    b"1e3\n", b"4294967295\n", b"9999999999\n", b"99999999999\n", b"alice\n", b"1_0\n", "١\n".encode(), b"\xff\n",
    b"1\0\n",
]  # fmt: skip


@pytest.mark.parametrize(("request_", "uid"), GOOD.items())
def test_c47_a_request_is_a_decimal_uid(request_: bytes, uid: int) -> None:
    assert parse(request_) == uid


@pytest.mark.parametrize("request_", BAD)
def test_anything_else_is_none(request_: bytes) -> None:
    assert parse(request_) is None


def test_one_word_and_the_end(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        assert helper.ask(uids.ALLOWED) == "allow"
        assert helper.ask(uids.EXPIRED) == "expired"
        assert "verdict: uid=1001 name='bob' class=expired (PAM answered 13)\n" in helper.log()


@pytest.mark.parametrize("request_", [one for one in BAD if b"\n" in one or len(one) > 11] + [b"1" * 5000, b"\0" * 12])
def test_a_malformed_request_is_closed_without_an_answer(tmp_path: Path, request_: bytes) -> None:
    with stub(tmp_path) as helper:
        with helper.send(request_) as peer:
            assert rest(peer) == ""
        wait_for(lambda: "refused: peer" in helper.log(), "a record of it")
        assert helper.ask(uids.ALLOWED) == "allow"
        assert "class=allow" in helper.log() and helper.log().count("verdict:") == 1


@pytest.mark.parametrize("start", [b"", b"1", b"1000"])
def test_a_slow_request_is_closed_without_an_answer(tmp_path: Path, start: bytes) -> None:
    with stub(tmp_path) as helper, helper.send(start) as peer:
        assert helper.ask(uids.ALLOWED) == "allow"
        assert rest(peer) == ""
        assert "no request within" in helper.log()


def test_a_request_may_come_in_pieces(tmp_path: Path) -> None:
    with stub(tmp_path) as helper, helper.connect() as peer:
        for byte in b"1000\n":
            peer.send(bytes([byte]))
        assert rest(peer) == "allow"


def test_s2_a_peer_that_is_not_served_hears_nothing(tmp_path: Path) -> None:
    with stub(tmp_path, peer=os.getuid() + 1) as helper:
        with contextlib.suppress(BrokenPipeError):
            assert helper.ask(uids.ALLOWED) == ""
        wait_for(lambda: f"refused: peer uid={os.getuid()} (only" in helper.log(), "a record of it")
        assert "verdict:" not in helper.log()


def test_p2_a_judge_that_sleeps_is_killed_at_the_limit(tmp_path: Path) -> None:
    with stub(tmp_path, seconds=0.3) as helper:
        assert helper.ask(uids.SLEEPS) == "unavailable"
        assert "class=unavailable (no verdict in 0.3 s)" in helper.log()
        sleeper = helper.report()
        wait_for(lambda: not alive(sleeper), "the end of the child")
        assert helper.log().count("uid=1002") == 1
        assert helper.ask(uids.ALLOWED) == "allow"


@pytest.mark.parametrize("uid", [uids.EXITS, uids.DIES, uids.RAISES, uids.HALF, uids.LIES])
def test_p2_a_judge_that_ends_badly_gives_no_verdict(tmp_path: Path, uid: int) -> None:
    with stub(tmp_path) as helper:
        assert helper.ask(uid) == "unavailable"
        assert helper.ask(uids.ALLOWED) == "allow"


def test_p2_what_a_judge_leaves_behind_is_killed(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        assert helper.ask(uids.STRAY) == "allow"
        stray = helper.report()
        wait_for(lambda: not alive(stray), "the end of what was left behind")


def test_p2_at_most_so_many_at_once(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        waiting = [helper.send(b"%d\n" % uids.WAITS) for _ in range(AT_ONCE)]
        wait_for(lambda: len(helper.children()) == AT_ONCE, "all to run")
        assert helper.ask(uids.ALLOWED) == "unavailable"
        (tmp_path / "gate").touch()
        assert [rest(peer) for peer in waiting] == ["allow"] * AT_ONCE
        assert helper.ask(uids.ALLOWED) == "allow"
        for peer in waiting:
            peer.close()


def test_s5_a_flood_of_silent_connections_holds_nobody_up_for_good(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        silent = [helper.connect() for _ in range(3 * CONNECTIONS)]
        descriptors = Path(f"/proc/{helper.process.pid}/fd")
        wait_for(lambda: len(list(descriptors.iterdir())) >= CONNECTIONS, "the first to be taken")
        assert len(list(descriptors.iterdir())) < CONNECTIONS + 16
        assert helper.ask(uids.ALLOWED) == "allow"
        for peer in silent:
            peer.close()


def test_a_peer_that_leaves_stops_nothing(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        helper.send(b"%d\n" % uids.WAITS).close()
        helper.connect().close()
        helper.send(b"10").close()
        (tmp_path / "gate").touch()
        assert helper.ask(uids.ALLOWED) == "allow"
        wait_for(lambda: "uid=1009" in helper.log(), "the verdict that nobody waits for")


def test_term_ends_it_after_the_verdicts_that_run(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        running, unasked = helper.send(b"%d\n" % uids.WAITS), helper.connect()
        wait_for(helper.children, "the verdict to run")
        helper.process.send_signal(signal.SIGTERM)
        assert rest(unasked) == "unavailable"
        with helper.send(b"%d\n" % uids.ALLOWED) as later:  # it waits in the backlog for the next one
            (tmp_path / "gate").touch()
            assert rest(running) == "allow"
            assert helper.process.wait() == 0
            later.setblocking(False)
            with pytest.raises(BlockingIOError):
                later.recv(1)
        running.close()
        unasked.close()


def test_p2_term_waits_for_a_sleeping_judge_no_longer_than_the_limit(tmp_path: Path) -> None:
    with stub(tmp_path, seconds=0.5) as helper, helper.send(b"%d\n" % uids.SLEEPS) as running:
        sleeper = helper.report()
        helper.process.send_signal(signal.SIGTERM)
        assert rest(running) == "unavailable"
        assert helper.process.wait() == 0
        wait_for(lambda: not alive(sleeper), "the end of the child")


def test_the_child_holds_its_pipe_alone_and_its_limits(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        assert helper.ask(uids.SHOWS) == "allow"
        seen = helper.report()
        assert {fd: kind.partition(":")[0] for fd, kind in seen["fds"].items()} == {
            **dict.fromkeys("012", "/dev/null"),
            str(PIPE): "pipe",
        }
        assert seen["limits"]["CORE"] == seen["limits"]["FSIZE"] == [0, 0]
        assert seen["limits"]["NOFILE"] == [64, 64] and seen["limits"]["CPU"] == [10, 10]
        assert seen["default"] == [True, True]
        assert seen["dumpable"] == 0


def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    with stub(tmp_path) as helper, helper.send(b"%d\n" % uids.SLEEPS) as peer:
        pid = helper.report()
        helper.process.kill()
        assert rest(peer) == ""
        wait_for(lambda: not alive(pid), "the end of the child")


def test_c35_a_record_is_one_line_whatever_a_name_holds(tmp_path: Path) -> None:
    with stub(tmp_path) as helper:
        assert helper.ask(uids.ODD) == "denied"
        (line,) = (line for line in helper.log().split("\n") if "uid=1011" in line)
        assert line.isascii() and line.endswith("class=denied (PAM answered 7)")


def test_c31_the_client_of_the_hub_understands_it(tmp_path: Path) -> None:
    async def ask(path: str) -> None:
        client = Verdicts(lambda: 0, path)
        assert (await client.of(uids.ALLOWED)).word == "allow"
        assert (await client.of(uids.EXPIRED)).word == "expired"
        with pytest.raises(AmuxError) as caught:
            await client.of(uids.EXITS)
        assert caught.value.code == "identity_unavailable"
        many = await asyncio.gather(*(client.of(uids.EXPIRED) for _ in range(100)))
        assert {verdict.word for verdict in many} == {"expired"}

    with stub(tmp_path) as helper:
        asyncio.run(ask(helper.path))


def test_s4_a_descriptor_that_is_sent_is_not_taken(tmp_path: Path) -> None:
    with stub(tmp_path) as helper, helper.connect() as peer, open(os.devnull) as null:
        socket.send_fds(peer, [b"1000\n"], [null.fileno()] * 8)
        assert rest(peer) == "allow"
        names = [os.readlink(path) for path in Path(f"/proc/{helper.process.pid}/fd").iterdir()]
        assert names.count(os.devnull) <= 1  # its standard input
