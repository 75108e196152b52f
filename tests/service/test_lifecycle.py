"""A Hub's life: ready, reloaded, drained, killed, started beside another."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.harness import WAIT_SECONDS, Channel, HubFailedError, until
from tests.service.conftest import MakeHub

UPSERT = "io.amux.Memory.Upsert"
GET = "io.amux.Memory.Get"


def test_ready_is_sent_alone_and_only_when_every_socket_serves(make_hub: MakeHub) -> None:
    hub = make_hub(mcp=True)
    hub.start()
    assert hub.notifications[0] == "READY=1"
    for name in ("hub", "admin"):
        with hub.connect(name) as channel:
            assert "error" not in channel.call("io.amux.Hub.WhoAmI")
    with hub.connect("mcp") as channel:
        channel.send(b'{"amux":1}\n')
        assert b'"amux"' in channel.socket.recv(65536)
    hub.signal(signal.SIGTERM)
    assert hub.wait_notification("STOPPING=1")
    for message in hub.notifications:
        assert message.isascii()
    assert hub.wait() == 0


def test_a_watchdog_time_beyond_all_bounds_is_a_long_one(make_hub: MakeHub) -> None:
    hub = make_hub().start(WATCHDOG_USEC="9" * 400)
    assert hub.stop() == 0


def test_the_watchdog_is_fed_by_the_loop_that_serves(make_hub: MakeHub) -> None:
    hub = make_hub().start(WATCHDOG_USEC="100000")
    hub.wait_notification("WATCHDOG=1", times=5)
    assert "error" not in hub.call("io.amux.Hub.WhoAmI")
    hub.stop()
    hub.start(WATCHDOG_USEC="100000", WATCHDOG_PID="1")  # meant for somebody else
    hub.stop()
    while hub._notify.recv(65536) != b"STOPPING=1":
        pass
    assert "WATCHDOG=1" not in hub.notifications


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_term_and_int_end_with_status_0_and_remove_our_sockets_alone(make_hub: MakeHub, number: int) -> None:
    hub = make_hub().start()
    (hub.runtime / "hub.sock.other").write_text("")
    hub.signal(number)
    assert hub.wait() == 0
    assert os.listdir(hub.runtime) == ["hub.sock.other"]


def test_held_sockets_stay_and_queue_for_the_next_hub(make_hub: MakeHub) -> None:
    hub = make_hub(held=True).start()
    hub.stop()
    assert sorted(os.listdir(hub.runtime)) == ["admin.sock", "hub.sock"]
    with hub.connect() as channel:
        channel.send(b'{"method":"io.amux.Hub.WhoAmI"}\0')
        hub.start()
        answer = channel.receive()
    assert answer is not None and answer["parameters"]["uid"] == os.getuid()


def test_restarts_under_load_lose_no_call_when_the_sockets_are_held(make_hub: MakeHub) -> None:
    """Each call is answered, or told that it did not run and sent again; nothing is uncertain."""
    hub = make_hub(held=True).start()
    acknowledged: list[set[str]] = [set() for _ in range(6)]
    failures: list[object] = []
    done = threading.Event()

    def client(number: int) -> None:
        channel: Channel | None = None
        index = 0
        while not done.is_set():
            path = f"c{number}/{index % 40}-{index}.md"
            channel = channel or hub.connect()
            try:
                answer = channel.call(UPSERT, path=path, content="x" * (index % 3) * 30000, expected_revision="absent")
            except (BrokenPipeError, ConnectionResetError):
                channel = None  # no byte was taken: the drain shut the receiving side first
                continue
            except Exception as error:
                failures.append(error)
                return
            if "error" not in answer:
                acknowledged[number].add(path)
                index += 1
            elif answer["error"] == "io.amux.Hub.ShuttingDown":
                channel = None
            else:
                failures.append(answer)
                return

    threads = [threading.Thread(target=client, args=(number,)) for number in range(len(acknowledged))]
    for thread in threads:
        thread.start()
    for round_number in range(4):
        until(lambda n=round_number: sum(map(len, acknowledged)) > 20 * (n + 1) or failures, "writes go on")
        hub.restart()
    done.set()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert not failures
    for paths in acknowledged:
        for path in paths:
            assert hub.call(GET, path=path)["parameters"]["exists"], path


def test_hup_puts_limits_in_force_and_leaves_the_switch(make_hub: MakeHub) -> None:
    hub = make_hub(enabled=False).start()
    hub.write_config({"limits": {"connections_per_uid": 1}, "memory": {"enabled": True}, "isolation": True})
    hub.signal(signal.SIGHUP)
    hub.wait_notification("READY=1", times=2)
    reloading = [message for message in hub.notifications if message.startswith("RELOADING=1")]
    assert len(reloading) == 1 and re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloading[0])
    with hub.connect() as channel:
        status = channel.call("io.amux.Hub.GetStatus")["parameters"]
        assert status["memory_enabled_saved"] is True
        assert status["memory_enabled_running"] is False
        assert status["isolation"] is False
        with hub.connect() as second:
            answer = second.receive()
            assert answer is not None and answer["error"] == "io.amux.Hub.LimitExceeded"
            assert answer["parameters"]["details"]["value"] == 1
        assert channel.call(GET, path="a.md")["error"] == "io.amux.Hub.MemoryDisabled"
    hub.restart()
    with hub.connect() as channel:  # one connection: the limit of 1 is in force
        assert "error" not in channel.call(GET, path="a.md")
        assert channel.call("io.amux.Hub.WhoAmI")["parameters"]["scope"].startswith("principal:")


def test_hup_puts_the_log_level_the_timeouts_and_the_reserve_in_force(make_hub: MakeHub) -> None:
    hub = make_hub().start()
    assert "error" not in hub.call(UPSERT, path="a.md", content="", expected_revision="absent")
    assert "call io.amux.Memory" not in hub.stderr
    hub.write_config({"log": {"level": "debug"}, "limits": {"free_bytes": 1 << 50}, "timeouts": {"idle": 0.1}})
    hub.signal(signal.SIGHUP)
    hub.wait_notification("READY=1", times=2)
    answer = hub.call(UPSERT, path="b.md", content="", expected_revision="absent")
    assert answer["error"] == "io.amux.Hub.StorageFull"
    assert answer["parameters"]["details"]["value"] == 1 << 50
    with hub.connect() as channel:
        assert "error" not in channel.call(GET, path="a.md")
        assert channel.receive() is None  # it was idle
    until(lambda: "call io.amux.Memory.Upsert" in hub.stderr, "each call is logged")


def test_hup_with_a_bad_file_leaves_the_old_one_in_force(make_hub: MakeHub) -> None:
    hub = make_hub(config={"limits": {"connections_per_uid": 2}}).start()
    hub.config_file.write_text("limits: {connections_per_uid: none}\nnonsense: 1\n")
    hub.signal(signal.SIGHUP)
    hub.wait_notification("READY=1", times=2)
    with hub.connect(), hub.connect(), hub.connect() as third:
        answer = third.receive()
        assert answer is not None and answer["parameters"]["details"]["value"] == 2
    for part in (f"{hub.config_file}:1: limits.connections_per_uid", f"{hub.config_file}:2: nonsense"):
        assert part in hub.stderr


def test_a_second_hub_on_the_same_home_says_who_holds_it(make_hub: MakeHub, tmp_path: Path) -> None:
    first = make_hub().start()
    second = make_hub(tmp_path / "second", env={"AMUX_HOME": str(first.home)})
    with pytest.raises(HubFailedError) as caught:
        second.start()
    assert caught.value.status == 1
    lines = caught.value.stderr.splitlines()
    assert len(lines) == 1 and f"pid {first.pid}" in lines[0] and str(first.home) in lines[0]
    assert "error" not in first.call("io.amux.Hub.WhoAmI")


def test_a_second_hub_does_not_take_the_sockets_of_a_living_one(make_hub: MakeHub) -> None:
    first = make_hub().start()
    second = make_hub(config={"sockets": {"hub": str(first.sockets["hub"])}})
    with pytest.raises(HubFailedError) as caught:
        second.start()
    assert caught.value.status == 1
    assert f"another Hub listens at {first.sockets['hub']}" in caught.value.stderr
    assert first.call("io.amux.Hub.GetStatus")["parameters"]["pid"] == first.pid
    first.stop()
    second.start()
    assert second.process is not None


@pytest.mark.parametrize("name", ["hub", "admin"])
def test_a_second_hub_that_is_refused_makes_no_home(make_hub: MakeHub, name: str) -> None:
    first = make_hub().start()
    second = make_hub(enabled=False, config={"sockets": {name: str(first.sockets[name])}})
    with pytest.raises(HubFailedError) as caught:
        second.start()
    assert caught.value.status == 1
    assert f"another Hub listens at {first.sockets[name]}" in caught.value.stderr
    assert not second.home.exists() and not second.runtime.exists()
    first.kill()  # its sockets stay, and nobody listens
    second.start()
    assert second.home.exists()


def test_c49_a_killed_hub_holds_nobody_up(make_hub: MakeHub) -> None:
    hub = make_hub().start()
    hub.kill()
    assert hub.sockets["hub"].exists()
    hub.start()
    assert hub.call("io.amux.Hub.GetStatus")["parameters"]["pid"] == hub.pid


def test_what_is_no_socket_is_not_replaced(make_hub: MakeHub) -> None:
    hub = make_hub()
    hub.runtime.mkdir(mode=0o700)
    hub.sockets["admin"].write_text("mine")
    with pytest.raises(HubFailedError) as caught:
        hub.start()
    assert str(hub.sockets["admin"]) in caught.value.stderr
    assert hub.sockets["admin"].read_text() == "mine"
    assert not hub.sockets["hub"].exists()


def test_c45_running_out_of_descriptors_pauses_and_recovers(make_hub: MakeHub) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    hub = make_hub(preexec=few, config={"limits": {"connections_per_uid": 1000}}).start()
    with hub.connect() as early:
        assert "error" not in early.call("io.amux.Hub.WhoAmI")
        channels = [hub.connect() for _ in range(200)]
        until(lambda: "accepting pauses" in hub.stderr, "the Hub says that it pauses")
        assert "error" not in early.call("io.amux.Hub.WhoAmI")
        for channel in channels:
            channel.close()
        assert "error" not in hub.call("io.amux.Hub.WhoAmI")
        assert "error" not in hub.call(UPSERT, path="a.md", content="", expected_revision="absent")
    assert hub.stop() == 0


def test_c48_n3_the_hub_makes_no_socket_of_the_internet(make_hub: MakeHub) -> None:
    """It cannot miss IPv6: every socket that it has is a Unix one."""
    hub = make_hub(mcp=True).start()
    unix = {line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines()[1:]}
    found = 0
    for fd in os.listdir(f"/proc/{hub.pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            target = os.readlink(f"/proc/{hub.pid}/fd/{fd}")
            if target.startswith("socket:["):
                found += 1
                assert target[8:-1] in unix
    assert found >= 3


@pytest.mark.root
def test_c48_starts_where_there_is_no_ipv6(make_hub: MakeHub) -> None:
    hub = make_hub(mcp=True, python=("unshare", "--net", "--", sys.executable))
    hub.start()
    assert "error" not in hub.call("io.amux.Hub.WhoAmI")


@pytest.mark.root
@pytest.mark.parametrize("uid", [12345, 65534, 4_000_000_000])
def test_s8_c47_other_uids_are_refused_by_a_real_hub(make_hub: MakeHub, uid: int) -> None:
    hub = make_hub(held=True)
    hub.hold()
    hub._short.chmod(0o755)
    hub.runtime.chmod(0o755)
    hub.sockets["hub"].chmod(0o666)
    hub.start()
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        's.sendall(b\'{"method":"io.amux.Hub.WhoAmI"}\\0\'); print(s.recv(65536)[:-1].decode(), s.recv(1))'
    )
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program, str(hub.sockets["hub"])],
        user=uid,
        group=uid,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "io.amux.Hub.IdentityRefused" in done.stdout and str(uid) in done.stdout
    assert done.stdout.rstrip().endswith("b''")
    assert "error" not in hub.call("io.amux.Hub.WhoAmI")


def test_s1_the_greeting_says_where_it_serves_and_what_to_type(make_hub: MakeHub) -> None:
    for enabled in (False, True):
        hub = make_hub(enabled=enabled)
        env = dict(hub.env)
        process = subprocess.Popen(hub.command(), env=env, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while "amux " not in lines[-1].removeprefix("amux-hub"):
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_SECONDS) == 0
        process.stderr.close()
        assert str(hub.home) in lines[0] and str(hub.sockets["hub"]) in lines[0]
        assert ("amux system config set memory.enabled true" in lines[-1]) is not enabled


@pytest.mark.parametrize("beside", [True, False])
def test_a_private_hub_beside_a_system_one_prints_the_line_to_export(
    make_hub: MakeHub, tmp_path: Path, beside: bool
) -> None:
    """Else `amux` would go to the system's."""
    system = tmp_path / "system.sock"
    if beside:
        system.touch()
    program = (
        "import sys; from amux_hub import __main__, service; service.SYSTEM_SOCKET = sys.argv[1]; "
        "sys.exit(__main__.main(sys.argv[2:]))"
    )
    hub = make_hub()
    command = [sys.executable, "-c", program, str(system), "--config", str(hub.config_file)]
    with subprocess.Popen(command, env=hub.env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline()]
        while "try: " not in lines[-1]:
            lines.append(process.stderr.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_SECONDS) == 0
    assert (f"to use this Hub: export AMUX_HUB={hub.sockets['hub']}\n" in lines) is beside


def test_standard_descriptors_that_are_closed_or_full_stop_nothing(make_hub: MakeHub) -> None:
    """And no file or socket of the Hub takes the number of a closed one."""

    def close() -> None:
        for fd in (0, 1, 2):
            os.close(fd)

    hub = make_hub()
    for full in (False, True):
        with open("/dev/full", "wb") as sink:
            options: dict[str, Any] = {"stdout": sink, "stderr": sink} if full else {"preexec_fn": close}
            hub.process = subprocess.Popen(hub.command(), env=hub.env, **options)
        until(lambda: hub.sockets["hub"].exists() or hub.process is None or hub.process.poll(), "it listens")
        assert "error" not in hub.call(UPSERT, path=f"{full}.md", content="", expected_revision="absent")
        if not full:
            targets = {os.readlink(f"/proc/{hub.pid}/fd/{fd}") for fd in (0, 1, 2)}
            assert targets == {"/dev/null"}
        assert hub.stop() == 0


def test_two_signals_do_not_wait_for_a_drain(make_hub: MakeHub) -> None:
    hub = make_hub(config={"timeouts": {"drain": 3600, "first_frame": 3600}}).start()
    with hub.connect() as channel:
        channel.send(b'{"method":')
        until(lambda: hub.call("io.amux.Hub.GetStatus")["parameters"]["connections"] >= 1, "the connection counts")
        hub.signal(signal.SIGTERM)
        hub.wait_notification("STOPPING=1")
        hub.signal(signal.SIGTERM)
        assert hub.wait() == 0


def test_a_socket_taken_over_by_others_is_left_alone(make_hub: MakeHub) -> None:
    """Removed and made anew by somebody else while we ran: not ours to remove."""
    hub = make_hub().start()
    path = hub.sockets["hub"]
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        hub.stop()
        assert path.exists()
