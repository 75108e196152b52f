"""Directories, sockets and their modes; sockets that the service manager passes."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux_hub import home, sockets
from tests.harness import HubFailedError
from tests.service.conftest import MakeHub


def _modes(top: Path) -> dict[str, int]:
    found = {}
    for directory, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = os.path.join(directory, name)
            found[os.path.relpath(path, top)] = stat.S_IMODE(os.lstat(path).st_mode)
    return found


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_c23_modes_do_not_follow_the_umask(make_hub: MakeHub, umask: int, tmp_path: Path) -> None:
    hub = make_hub(umask=umask, enabled=False, env={"AMUX_HOME": str(tmp_path / "a" / "b" / "home")})
    hub.start()
    answer = hub.call("io.amux.Admin.SetSetting", "admin", key="memory.enabled", value="true")
    assert "error" not in answer
    hub.restart()
    answer = hub.call("io.amux.Memory.Upsert", path="d/a.md", content="x", expected_revision="absent")
    assert "error" not in answer
    assert stat.S_IMODE(hub.runtime.stat().st_mode) == 0o700
    assert set(_modes(hub.runtime).values()) == {0o600}
    modes = _modes(tmp_path / "a")
    assert modes["b/home/memory/global/d/a.md"] == 0o600
    assert modes["b/home/settings.yaml"] == 0o600
    for path, mode in modes.items():
        assert mode == (0o700 if (tmp_path / "a" / path).is_dir() else 0o600), path


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o701, 0o770])
def test_c23_a_home_that_others_may_enter_is_refused(make_hub: MakeHub, mode: int) -> None:
    hub = make_hub()
    hub.home.chmod(mode)
    with pytest.raises(HubFailedError) as caught:
        hub.start()
    assert caught.value.status == 1
    lines = caught.value.stderr.splitlines()
    assert len(lines) == 1
    for part in (str(hub.home), f"{mode:04o}", "0700", f"chmod 700 {hub.home}"):
        assert part in lines[0]
    assert stat.S_IMODE(hub.home.stat().st_mode) == mode


def test_c23_the_directory_of_the_sockets_is_checked_too(make_hub: MakeHub) -> None:
    hub = make_hub()
    hub.runtime.mkdir()
    hub.runtime.chmod(0o755)
    with pytest.raises(HubFailedError) as caught:
        hub.start()
    assert f"chmod 700 {hub.runtime}" in caught.value.stderr


@pytest.mark.root
def test_c23_a_home_of_somebody_else_is_refused(make_hub: MakeHub) -> None:
    hub = make_hub()
    os.chown(hub.home, 12345, 12345)
    with pytest.raises(HubFailedError) as caught:
        hub.start()
    assert "UID 12345" in caught.value.stderr and f"chown 0 {hub.home}" in caught.value.stderr


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(AmuxError, match="is no directory"):
        home.private_directory(str(tmp_path / "home"), "home")
    with pytest.raises(AmuxError, match="cannot be made"):
        home.private_directory(str(tmp_path / "home" / "below"), "home")


def test_a_socket_path_that_is_too_long_is_refused_with_the_numbers(make_hub: MakeHub, tmp_path: Path) -> None:
    path = tmp_path / ("x" * 90) / "hub.sock"
    hub = make_hub(config={"sockets": {"hub": str(path)}})
    with pytest.raises(HubFailedError) as caught:
        hub.start()
    assert str(len(str(path))) in caught.value.stderr and "107" in caught.value.stderr
    exact = tmp_path / ("x" * (107 - len(str(tmp_path)) - len("//s"))) / "s"
    listening = sockets.listen("hub", str(exact))
    assert len(listening.path) == 107
    listening.close()
    assert not exact.exists()


# Sockets that were given


def test_given_sockets_are_used_by_name_and_not_inherited(make_hub: MakeHub) -> None:
    hub = make_hub(held=True)
    hub.hold()
    names = list(hub.holding)
    hub.start(LISTEN_FDNAMES=":".join(names))
    with hub.connect("admin") as channel:
        assert "error" not in channel.call("io.amux.Admin.ListSettings")
    assert hub.call("io.amux.Admin.ListSettings")["error"] == "org.varlink.service.InterfaceNotFound"
    for index in range(len(names)):
        flags = Path(f"/proc/{hub.pid}/fdinfo/{3 + index}").read_text().split("flags:")[1].split()[0]
        assert int(flags, 8) & os.O_CLOEXEC


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        ("hub:hub", ["'hub'", "twice", "one socket unit"]),
        ("hub:unknown", ["'unknown'", "hub, mcp, admin", "FileDescriptorName="]),
        ("hub", ["descriptor 4", "''"]),
        ("", ["descriptor 3"]),
    ],
)
def test_given_sockets_without_a_right_name_are_refused(make_hub: MakeHub, names: str, parts: list[str]) -> None:
    hub = make_hub(held=True)
    with pytest.raises(HubFailedError) as caught:
        hub.start(LISTEN_FDNAMES=names)
    assert caught.value.status == 1
    for part in parts:
        assert part in caught.value.stderr


def _passed(kind: str) -> socket.socket:
    if kind == "datagram":
        return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made = socket.socket(socket.AF_INET if kind == "internet" else socket.AF_UNIX)
    if kind == "internet":
        made.listen()
    return made


@pytest.fixture
def descriptor_3() -> Iterator[None]:
    """Keeps whatever the test runner has at descriptor 3."""
    try:
        kept = os.dup(3)
    except OSError:
        kept = -1
    yield
    if kept >= 0:
        os.dup2(kept, 3)
        os.close(kept)


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("datagram", "Unix stream"),
        ("internet", "Unix stream"),
        ("not listening", "does not listen"),
        ("file", "no socket"),
    ],
)
@pytest.mark.usefixtures("descriptor_3")
def test_given_descriptors_of_another_kind_are_refused(kind: str, part: str) -> None:
    env = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "hub"}
    source = os.open("/dev/null", os.O_RDONLY) if kind == "file" else _passed(kind).detach()
    os.dup2(source, 3)
    if source != 3:
        os.close(source)
    with pytest.raises(AmuxError, match=part):
        sockets.given(env)
    assert not env


@pytest.mark.parametrize("count", ["4", "99999999999999999999"])
def test_more_descriptors_announced_than_given_are_refused_in_one_line(make_hub: MakeHub, count: str) -> None:
    hub = make_hub()
    hub.env |= {"LISTEN_FDS": count, "LISTEN_FDNAMES": "hub:mcp:admin"}
    start = "import os, sys; os.environ['LISTEN_PID'] = str(os.getpid()); os.execv(sys.argv[1], sys.argv[1:])"
    run = subprocess.run([sys.executable, "-c", start, *hub.command()], env=hub.env, capture_output=True, text=True)
    assert run.returncode == 1
    assert run.stderr.count("\n") == 1
    assert "descriptor 3 named 'hub' of LISTEN_FDS cannot be used: it is not open" in run.stderr


def test_variables_meant_for_another_process_are_ignored_and_removed() -> None:
    env = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "3", "LISTEN_FDNAMES": "hub:mcp:admin", "OTHER": "1"}
    assert sockets.given(env) == {}
    assert env == {"OTHER": "1"}
    assert sockets.given({}) == {}
