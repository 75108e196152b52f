"""Which Hub, why, and who listens there."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amux import dial, endpoint
from amux.errors import AmuxError

NOBODY = 65534


@pytest.fixture
def system(short: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for /run/amux."""
    directory = short / "run-amux"
    directory.mkdir()
    monkeypatch.setattr(endpoint, "SYSTEM_DIRECTORY", str(directory))
    return directory


@pytest.fixture
def listen(short: Path) -> Iterator[Callable[[Path], socket.socket]]:
    opened = []

    def at(path: Path) -> socket.socket:
        path.parent.mkdir(parents=True, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        opened.append(listener)
        return listener

    yield at
    for listener in opened:
        listener.close()


def refused(environ: dict[str, str]) -> AmuxError:
    with pytest.raises(AmuxError) as caught:
        endpoint.choose(environ)
    return caught.value


def not_connected(where: endpoint.Endpoint, wait: float = 0.05, service: str = "hub") -> AmuxError:
    with pytest.raises(AmuxError) as caught:
        where.connect(service, wait)
    return caught.value


def test_amux_hub_decides_first(system: Path, listen: Callable[[Path], socket.socket]) -> None:
    listen(system / "hub.sock")
    where = endpoint.choose({"AMUX_HUB": "/somewhere/hub.sock", "XDG_RUNTIME_DIR": "/run/user/1"})
    assert (where.kind, where.path, where.named) == ("private", "/somewhere/hub.sock", True)
    assert "AMUX_HUB" in where.why


def test_then_the_systems_if_its_socket_exists(system: Path, listen: Callable[[Path], socket.socket]) -> None:
    listen(system / "hub.sock")
    where = endpoint.choose({"XDG_RUNTIME_DIR": "/run/user/1"})
    assert (where.kind, where.path) == ("system", str(system / "hub.sock"))
    assert "exists" in where.why


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/1", "AMUX_HOME": "/a", "HOME": "/h"}, "/run/user/1/amux/hub.sock"),
        ({"AMUX_HOME": "/a", "HOME": "/h"}, "/a/run/hub.sock"),
        ({"HOME": "/h"}, "/h/.local/state/amux/run/hub.sock"),
        # A relative XDG_RUNTIME_DIR is ignored, as its specification says; an empty variable is an unset one.
        ({"XDG_RUNTIME_DIR": "run", "HOME": "/h"}, "/h/.local/state/amux/run/hub.sock"),
        ({"XDG_RUNTIME_DIR": "", "AMUX_HOME": "", "AMUX_HUB": "", "HOME": "/h"}, "/h/.local/state/amux/run/hub.sock"),
    ],
)
def test_else_the_private_one(system: Path, environ: dict[str, str], path: str) -> None:
    where = endpoint.choose(environ)
    assert (where.kind, where.path) == ("private", path)
    assert where.start == "amux-hub"


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_home_the_account_says(system: Path, environ: dict[str, str]) -> None:
    import pwd

    home = pwd.getpwuid(os.geteuid()).pw_dir
    assert endpoint.choose(environ).path == f"{home}/.local/state/amux/run/hub.sock"


def test_without_home_and_account_it_says_what_to_set(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_001)
    error = refused({})
    assert error.code == "hub_unavailable"
    assert "set AMUX_HUB" in error.message


@pytest.mark.parametrize(
    "value", ["hub.sock", "./hub.sock", "~/hub.sock", "@abstract", "http://host", "SSH://host", "ssh:host"]
)
def test_n4_amux_hub_is_never_relative(system: Path, value: str) -> None:
    error = refused({"AMUX_HUB": value, "HOME": "/h"})
    assert error.code == "invalid_argument"
    assert repr(value) in error.message


def test_n4_amux_home_is_never_relative(system: Path) -> None:
    assert refused({"AMUX_HOME": "state"}).code == "invalid_argument"


def test_a_dead_system_hub_is_never_replaced(
    system: Path, short: Path, listen: Callable[[Path], socket.socket]
) -> None:
    listen(system / "hub.sock").close()
    listen(short / "amux" / "hub.sock")
    environ = {"XDG_RUNTIME_DIR": str(short)}
    where = endpoint.choose(environ)
    assert where.kind == "system"
    error = not_connected(where)
    assert error.code == "hub_unavailable"
    assert "sudo systemctl start amux-hub" in error.message
    assert endpoint.private_beside(where, environ) == f"export AMUX_HUB={short}/amux/hub.sock"


def test_a_system_socket_that_may_not_be_looked_at_exists(system: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "lstat", denied)
    assert endpoint.choose({"HOME": "/h"}).kind == "system"


def test_no_line_to_export_without_a_private_hub(
    system: Path, short: Path, listen: Callable[[Path], socket.socket]
) -> None:
    listen(system / "hub.sock")
    environ = {"XDG_RUNTIME_DIR": str(short)}
    assert endpoint.private_beside(endpoint.choose(environ), environ) is None


def test_a_missing_socket_fails_at_once(system: Path, short: Path) -> None:
    """However long refusals would be retried."""
    before = time.monotonic()
    error = not_connected(endpoint.choose({"XDG_RUNTIME_DIR": str(short)}), wait=3600)
    assert time.monotonic() - before < 60
    assert error.code == "hub_unavailable"
    assert "start it with: amux-hub" in error.message
    assert "\n" not in error.message


def test_a_missing_socket_of_a_system_hub(system: Path) -> None:
    (system / "hub.sock").touch()
    where = endpoint.choose({})
    (system / "hub.sock").unlink()
    assert not_connected(where).message.endswith("start it with: sudo systemctl start amux-hub")


def test_a_refused_connection_is_retried(short: Path, listen: Callable[[Path], socket.socket]) -> None:
    """As long as a restart takes: the socket is refused, then gone, then served."""
    path = short / "hub.sock"
    listen(path).close()
    where = endpoint.choose({"AMUX_HUB": str(path)})
    connected: list[endpoint.Connection] = []
    waiting = threading.Thread(target=lambda: connected.append(where.connect("hub", 60)))
    waiting.start()
    while not waiting.is_alive():
        pass
    time.sleep(0.05)
    path.unlink()
    time.sleep(0.05)
    listen(path)
    waiting.join()
    connected[0].close()


def test_refusals_end_and_say_for_how_long(short: Path, listen: Callable[[Path], socket.socket]) -> None:
    listen(short / "hub.sock").close()
    error = not_connected(endpoint.choose({"AMUX_HUB": str(short / "hub.sock")}), wait=0.2)
    assert error.code == "hub_unavailable"
    assert "0.2 s" in error.message
    assert "start it with: amux-hub" in error.message


def test_a_full_backlog_is_waited_for(short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short / "hub.sock"))
        listener.listen(0)
        where = endpoint.choose({"AMUX_HUB": str(short / "hub.sock")})
        first = where.connect("hub", 0.1)
        assert "refused the connection" in not_connected(where, wait=0.1).message
        first.close()


def test_sockets_stand_side_by_side(short: Path, listen: Callable[[Path], socket.socket]) -> None:
    where = endpoint.choose({"AMUX_HUB": str(short / "other-name")})
    assert where.socket_path("hub") == str(short / "other-name")
    assert where.socket_path("mcp") == str(short / "mcp.sock")
    assert where.socket_path("admin") == str(short / "admin.sock")
    listen(short / "mcp.sock")
    where.connect("mcp").close()


def test_a_path_no_socket_can_have() -> None:
    error = not_connected(endpoint.choose({"AMUX_HUB": "/" + "a" * 107}))
    assert error.code == "invalid_argument"
    assert "108 bytes" in error.message


def test_the_systems_by_another_name(system: Path, short: Path) -> None:
    """/var/run/amux is /run/amux: the listener must be root's there too."""
    (short / "alias").symlink_to(system)
    assert endpoint.choose({"AMUX_HUB": str(short / "alias" / "hub.sock")}).kind == "system"
    assert endpoint.choose({"AMUX_HUB": f"{system}/../{system.name}/hub.sock"}).kind == "system"


def test_s1_a_listener_of_another_uid_is_refused(
    system: Path, short: Path, listen: Callable[[Path], socket.socket]
) -> None:
    """Nothing is sent. As root, nobody (65534) squats; as anyone else, we ourselves squat the system's path."""
    if os.geteuid() == 0:
        os.chmod(short, 0o777)
        os.chmod(system, 0o777)
        child = os.fork()
        if child == 0:
            os.setresuid(NOBODY, NOBODY, NOBODY)
            squatters = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
            for squatter, directory in zip(squatters, (short, system), strict=True):
                squatter.bind(str(directory / "hub.sock"))
                squatter.listen()
            (short / "ready").touch()
            threading.Event().wait()
        cases = [{"AMUX_HUB": str(short / "hub.sock")}, {}]
        while not (short / "ready").exists():
            time.sleep(0.005)
    else:
        child = 0
        listen(system / "hub.sock")
        cases = [{}]
    try:
        for environ in cases:
            error = not_connected(endpoint.choose(environ))
            assert error.code == "identity_refused"
            assert "nothing was sent" in error.message
    finally:
        if child:
            os.kill(child, 9)
            os.waitpid(child, 0)


def test_s1_the_systems_listener_is_root_and_a_private_one_is_oneself(
    system: Path, short: Path, listen: Callable[[Path], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """We listen at both paths, and then take ourselves for another user."""
    listen(system / "hub.sock")
    listen(short / "hub.sock")
    private, systems = endpoint.choose({"AMUX_HUB": str(short / "hub.sock")}), endpoint.choose({})
    private.connect("hub").close()
    real = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: real + 1)
    assert not_connected(private).details == {
        "path": str(short / "hub.sock"),
        "found": real,
        "value": real + 1,
    }
    if real == 0:
        systems.connect("hub").close()
    else:
        assert not_connected(systems).details["value"] == 0


def test_a_socket_that_may_not_be_opened(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(self: socket.socket, path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket.socket, "connect", denied)
    where = endpoint.choose({"AMUX_HUB": str(short / "hub.sock")})
    assert not_connected(where).code == "forbidden"
    assert "sudo" in not_connected(where, service="admin").message


@pytest.mark.parametrize(
    ("url", "argv"),
    [
        ("ssh://h", ["--", "h", "amux", "dial-stdio"]),
        ("ssh://u@h.example.org", ["-l", "u", "--", "h.example.org", "amux", "dial-stdio"]),
        ("ssh://h:2222", ["-p", "2222", "--", "h", "amux", "dial-stdio"]),
        ("ssh://a.b-c_d@h:22", ["-p", "22", "-l", "a.b-c_d", "--", "h", "amux", "dial-stdio"]),
        ("ssh://[2001:db8::1]:22", ["-p", "22", "--", "2001:db8::1", "amux", "dial-stdio"]),
    ],
)
def test_ssh_addresses(url: str, argv: list[str]) -> None:
    where = endpoint.choose({"AMUX_HUB": url})
    assert where.remote is not None
    assert where.kind == "ssh"
    assert str(where.remote) == url
    assert where.remote.argv("hub") == ["ssh", "-T", "-o", "BatchMode=yes", *argv]
    assert where.remote.argv("mcp") == ["ssh", "-T", "-o", "BatchMode=yes", *argv, "--mcp"]
    with pytest.raises(AmuxError, match="administration"):
        where.remote.argv("admin")


@pytest.mark.parametrize(
    "url",
    [
        "ssh://",
        "ssh://-oProxyCommand=touch${IFS}x",
        "ssh://-h",
        "ssh://u@-h",
        "ssh://-u@h",
        "ssh://@h",
        "ssh://u:secret@h",
        "ssh://a@b@h",
        "ssh://h:",
        "ssh://h:0",
        "ssh://h:65536",
        "ssh://h:22x",
        "ssh://h:-1",
        "ssh://h:２２",
        "ssh://h/",
        "ssh://h/path",
        "ssh://h?x",
        "ssh://h#x",
        "ssh://h h",
        "ssh://h\n",
        "ssh://h%20",
        "ssh://$(id)",
        "ssh://h;id",
        "ssh://[::1",
        "ssh://[]",
        "ssh://[::1]x",
        "ssh://[::1%eth0]",
        "ssh://::1",
        "ssh://höst",
    ],
)
def test_n3_anything_else_is_no_ssh_address(url: str) -> None:
    with pytest.raises(AmuxError) as caught:
        dial.parse(url)
    assert caught.value.code == "invalid_argument"
