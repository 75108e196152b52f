"""What an agent's environment is, against golden lists: docs/reference/launch.md holds the same ones."""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path
from typing import Any

import pytest

from amux.errors import AmuxError
from amux.launch import environment
from tests.harness import WAIT_SECONDS, until
from tests.launch.launching import World

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "launch.md"

SERVICE = {
    "LISTEN_FDS": "3",
    "LISTEN_PID": "1",
    "LISTEN_FDNAMES": "hub",
    "NOTIFY_SOCKET": "/run/systemd/notify",
    "WATCHDOG_USEC": "1",
    "WATCHDOG_PID": "1",
    "MAINPID": "1",
    "MANAGERPID": "1",
    "INVOCATION_ID": "0",
    "JOURNAL_STREAM": "8:1",
    "SYSTEMD_EXEC_PID": "1",
    "CREDENTIALS_DIRECTORY": "/run/credentials/x",
    "RUNTIME_DIRECTORY": "/run/x",
    "STATE_DIRECTORY": "/var/lib/x",
    "CACHE_DIRECTORY": "/var/cache/x",
    "LOGS_DIRECTORY": "/var/log/x",
    "CONFIGURATION_DIRECTORY": "/etc/x",
    "MEMORY_PRESSURE_WATCH": "/sys/fs/cgroup/x",
    "AMUX_HOME": "/somebody/else",
    "AMUX_SESSION": "s-" + "a" * 26,
    "AMUX_MEMORY_BINDING": "principal:eve",
    "AMUX_RUN": "/run/amux-launches/" + "0" * 32,
}
PERSONS = {
    "LANG": "de_DE.UTF-8",
    "EDITOR": "vi",
    "OPENAI_API_KEY": "sk-1",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "XDG_CONFIG_HOME": "/home/ana/.config",
    "TZ": "Asia/Shanghai",
    "ODD": "a=b\n\udcff",
}


def test_what_belongs_to_services_and_other_launches_is_gone() -> None:
    assert environment.own({**SERVICE, **PERSONS}) == PERSONS


def test_the_homes_of_the_agents_are_those_of_the_launch() -> None:
    given = {
        "CODEX_HOME": "/srv/codex",
        "PI_CODING_AGENT_DIR": "/home/ana/.pi/agent/",
        "CLAUDE_CONFIG_DIR": "/srv/claude",
    }
    kept, changed = environment.homes({**PERSONS, **given}, "/home/ana")
    own = {"CODEX_HOME": "/home/ana/.codex", "PI_CODING_AGENT_DIR": "/home/ana/.pi/agent"}
    assert kept == {**PERSONS, **own}
    assert changed == ["CODEX_HOME", "CLAUDE_CONFIG_DIR"]
    assert environment.homes(PERSONS, "/home/ana") == ({**PERSONS, **own}, [])


def test_a_private_home_keeps_what_is_listed_and_nothing_else() -> None:
    given = {**SERVICE, **PERSONS, "PATH": "/usr/bin", "HOME": "/home/ana", "TERM": "xterm"}
    kept = environment.private(given, "/private", [])
    assert kept == {
        "PATH": "/usr/bin",
        "TERM": "xterm",
        "LANG": "de_DE.UTF-8",
        "TZ": "Asia/Shanghai",
        "HOME": "/private",
    }
    kept = environment.private(given, "/private", ["OPENAI_API_KEY"])
    assert kept["OPENAI_API_KEY"] == "sk-1"
    assert "SSH_AUTH_SOCK" not in kept


@pytest.mark.parametrize("name", ["NOT_SET", "AMUX_SESSION", "NOTIFY_SOCKET"])
def test_what_cannot_be_passed_on_cannot_be_listed(name: str) -> None:
    with pytest.raises(AmuxError) as refused:
        environment.private(SERVICE, "/private", [name])
    assert refused.value.code == "invalid_argument"


def test_a_directory_stands_on_path_once() -> None:
    assert environment.first_on_path({"PATH": "/a:/x:/b:/x"}, "/x")["PATH"] == "/x:/a:/b"
    assert environment.last_on_path({"PATH": "/a:/b"}, "/x")["PATH"] == "/a:/b:/x"
    assert environment.last_on_path({"PATH": "/x:/b"}, "/x")["PATH"] == "/x:/b"


def test_m5_a_launch_without_memory_leaves_the_persons_environment_alone(alone: World) -> None:
    given = {**SERVICE, "CODEX_HOME": "/srv/codex", "CLAUDE_CONFIG_DIR": "/srv/claude", "ODD": "a=b\n\udcff"}
    alone.run(env=given)
    named = {name: given[name] for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "ODD", "AMUX_HOME")}
    wanted = {**alone.environment(), **named}
    assert alone.agent_environment == wanted


def _array(items: list[str]) -> Any:
    """Texts as execve(2) takes them."""
    return (ctypes.c_char_p * (len(items) + 1))(*map(os.fsencode, items), None)


def test_m5_a_name_that_is_given_twice_arrives_once(alone: World) -> None:
    """execve(2) takes what it is given; getenv(3) and Python find the first."""
    words = alone.words()
    given = [f"{name}={value}" for name, value in alone.environment().items()]
    given = ["TWICE=first", *given, "TWICE=second", "NOTIFY_SOCKET=/x", "NOTIFY_SOCKET=/y"]
    child = os.fork()
    if child == 0:
        try:
            nothing = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(nothing, fd)
            libc = ctypes.CDLL(None)
            libc.execve(os.fsencode(words[0]), _array(words), _array(given))
        finally:
            os._exit(127)
    until(lambda: os.waitpid(child, os.WNOHANG)[0], f"the launch ends within {WAIT_SECONDS:g} s")
    entries = alone.started["environment"]
    assert [entry for entry in entries if entry.startswith("TWICE=")] == ["TWICE=first"]
    assert not [entry for entry in entries if entry.startswith("NOTIFY_SOCKET=")]


def test_the_reference_lists_every_variable() -> None:
    text = REFERENCE.read_text(encoding="utf-8")
    named = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", text))
    lists = {*environment.SERVICE, *environment.HOMES, *environment.UNSET, *environment.PRIVATE}
    assert lists <= named
