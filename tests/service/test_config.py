"""hub.yaml: every mistake is found and named, precedence, and `amux-hub check-config`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amux_hub import config, settings
from amux_hub.config import ConfigError, Problem

# The text of the file, then for each problem its line, key, and what the message must contain.
_WRONG: dict[str, tuple[str, list[tuple[int | None, str, list[str]]]]] = {
    "unknown key": ("isolaton: true\n", [(1, "isolaton", ["unknown", "isolation"])]),
    "unknown key in a section": (
        "limits:\n  conections: 5\n",
        [(2, "limits.conections", ["unknown", "limits.connections"])],
    ),
    "a dotted key": ("limits.connections: 5\n", [(1, "limits.connections", ["connections indented below limits:"])]),
    "text for a boolean": ("isolation: 'yes'\n", [(1, "isolation", ["'yes'", "true or false"])]),
    "a number for a boolean": ("isolation: 1\n", [(1, "isolation", ["found 1", "true or false"])]),
    "a boolean for a number": (
        "limits:\n  connections: true\n",
        [(2, "limits.connections", ["found true", "whole number"])],
    ),
    "a fraction for a whole number": ("limits: {connections: 1.5}\n", [(1, "limits.connections", ["found 1.5"])]),
    "text for a number": ("limits: {connections: many}\n", [(1, "limits.connections", ["'many'"])]),
    "too small": (
        "limits:\n  connections_per_uid: 0\n",
        [(2, "limits.connections_per_uid", ["found 0", "from 1 to 65536"])],
    ),
    "too large": ("timeouts: {drain: 99999}\n", [(1, "timeouts.drain", ["99999", "3600"])]),
    "not a number": ("timeouts: {drain: .nan}\n", [(1, "timeouts.drain", ["nan"])]),
    "infinite": ("timeouts: {drain: .inf}\n", [(1, "timeouts.drain", ["inf"])]),
    "nothing": ("isolation:\n", [(1, "isolation", ["found nothing"])]),
    "a list": ("home: [a]\n", [(1, "home", ["a list", "absolute path"])]),
    "a relative path": ("home: data\n", [(1, "home", ["'data'", "absolute path"])]),
    "an empty path": ("home: ''\n", [(1, "home", ["''"])]),
    "a path with a control character": ('home: "/a\\nb"\n', [(1, "home", ["/a?b"])]),
    "not one of the choices": ("log: {level: loud}\n", [(1, "log.level", ["'loud'", "debug, info, warning, error"])]),
    "a section that is none": ("limits: 5\n", [(1, "limits", ["'5'", "a mapping"])]),
    "a key twice": ("isolation: true\nisolation: false\n", [(2, "isolation", ["second time"])]),
    "a section twice": ("log: {level: info}\nlog: {level: debug}\n", [(2, "log", ["second time"])]),
    "a key that is a list": ("? [a]\n: 1\n", [(1, "a list or mapping as a key", ["unknown"])]),
    "a merge key": ("<<: {isolation: true}\n", [(1, "<<", ["unknown"])]),
    "a Python object": ("home: !!python/object/apply:os.system [x]\n", [(1, "home", ["a list"])]),
    "no mapping": ("- a\n", [(1, "", ["a mapping of keys"])]),
    "a text": ("hello\n", [(1, "", ["'hello'", "a mapping of keys"])]),
    "no YAML": ("a: [1\nb: 2\n", [(2, "", ["valid YAML"])]),
    "a tab": ("log:\n\tlevel: info\n", [(2, "", ["valid YAML"])]),
    "two documents": ("isolation: true\n---\nisolation: true\n", [(2, "", ["valid YAML"])]),
    "nested without an end": ("[" * 5000, [(None, "", ["nested too deeply", "a mapping"])]),
    "a value nested without an end": ("home: " + "{a: " * 5000, [(None, "", ["nested too deeply"])]),
    "an escape beyond Unicode": ('home: "/\\U00110000"\n', [(None, "", ["valid YAML"])]),
    "an escape beyond numbers": ('home: "/\\Uffffffff"\n', [(None, "", ["valid YAML"])]),
    "half a character in a name": (
        'identity: {services: ["\\ud800"], aliases: {"\\ud800": a}}\n"\\ud800": 1\n',
        [(1, "identity.services", []), (1, "identity.aliases", []), (2, "?", ["unknown"])],
    ),
    "half a character": ('home: "/\\ud800"\n', [(1, "home", ["absolute path"])]),
    "several at once": (
        "isolation: 7\nlog: {level: 8}\nhome: /x\nfoo: 1\n",
        [(1, "isolation", []), (2, "log.level", []), (4, "foo", [])],
    ),
}


@pytest.mark.parametrize(("text", "wanted"), _WRONG.values(), ids=_WRONG)
def test_every_mistake_is_named_with_line_key_found_and_wanted(
    text: str, wanted: list[tuple[int | None, str, list[str]]]
) -> None:
    problems: list[Problem] = []
    config.parse("/etc/hub.yaml", text.encode(), problems)
    assert [(problem.line, problem.key) for problem in problems] == [(line, key) for line, key, _ in wanted]
    for problem, (_, _, parts) in zip(problems, wanted, strict=True):
        shown = str(problem)
        assert shown.startswith("/etc/hub.yaml") and "found" in shown and "wanted" in shown and "\n" not in shown
        for part in parts:
            assert part in shown
        shown.encode()  # half a character would be an error of its own


def test_a_right_file_with_every_key_is_taken_whole() -> None:
    tree: dict[str, Any] = {}
    for key in config.KEYS.values():
        value: object = key.default
        if value is None:
            value = "/x/y"
        section, _, rest = key.name.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[rest] = value
    problems: list[Problem] = []
    values = config.parse("f", json.dumps(tree).encode(), problems)
    assert not problems and set(values) == set(config.KEYS)
    assert config.parse("f", b"", problems) == {} == config.parse("f", b"# nothing\n", problems)
    assert not problems


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_give_values_or_problems(data: bytes) -> None:
    problems: list[Problem] = []
    values = config.parse("f", data, problems)
    assert all(config.KEYS[name].accepts(value) for name, value in values.items())
    assert all("\n" not in str(problem) for problem in problems)


def _load(tmp_path: Path, hub: str = "", saved: str = "") -> config.Config:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "hub.yaml").write_text(hub)
    (home / "settings.yaml").write_text(saved)
    return config.load(str(tmp_path / "hub.yaml"), {"AMUX_HOME": str(home)})


def test_hub_yaml_over_settings_over_default(tmp_path: Path) -> None:
    loaded = _load(tmp_path, "memory: {enabled: false}\n", "memory: {enabled: true}\n")
    assert loaded["memory.enabled"] is False
    assert loaded.source("memory.enabled") == str(tmp_path / "hub.yaml")
    assert loaded.source("isolation") == "default"


def test_settings_yaml_holds_savable_keys_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, saved="isolation: true\nmemory: {enabled: 1}\n")
    shown = [str(problem) for problem in caught.value.problems]
    assert "settings.yaml:1: isolation" in shown[0] and "memory.enabled" in shown[0]
    assert "settings.yaml:2: memory.enabled" in shown[1]


def test_places_follow_the_environment(tmp_path: Path) -> None:
    env = {"AMUX_HOME": "/h", "XDG_RUNTIME_DIR": "/r", "XDG_CONFIG_HOME": str(tmp_path)}
    loaded = config.load(None, env)
    assert loaded.file == str(tmp_path / "amux" / "hub.yaml")
    assert loaded["sockets.hub"] == "/r/amux/hub.sock"
    assert loaded["sockets.mcp"] == "/r/amux/mcp.sock"
    env.pop("XDG_RUNTIME_DIR")
    assert config.load(None, env)["sockets.admin"] == "/h/run/admin.sock"
    assert config.load(None, {**env, "XDG_RUNTIME_DIR": "relative"})["sockets.hub"] == "/h/run/hub.sock"
    with pytest.raises(ConfigError, match="AMUX_HOME"):
        config.load(None, {**env, "AMUX_HOME": "relative"})
    with pytest.raises(ConfigError, match="no such file"):
        config.load(str(tmp_path / "missing.yaml"), env)


@pytest.mark.parametrize("name", config.KEYS)
def test_values_survive_being_shown_and_typed(name: str) -> None:
    key = config.KEYS[name]
    if isinstance(key.default, bool | int | float | str):
        assert settings.parse_value(key, settings.shown(key.default)) == key.default


def _check(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMUX_HOME": str(tmp_path / "home")}
    return subprocess.run(
        [sys.executable, "-m", "amux_hub", *arguments], env=env, capture_output=True, text=True, check=False
    )


def test_check_config_lists_all_problems_and_exits_2(tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text("isolation: 7\nfoo: 1\n")
    for arguments in (("check-config", str(file)), ("--config", str(file), "check-config"), ("--config", str(file))):
        done = _check(tmp_path, *arguments)
        assert done.returncode == 2 and not done.stdout
        assert len(done.stderr.splitlines()) == 2
        assert f"{file}:1: isolation: found 7, wanted true or false" in done.stderr
    done = _check(tmp_path, "check-config", "--json", str(file))
    assert done.returncode == 2
    assert [problem["key"] for problem in json.loads(done.stdout)["problems"]] == ["isolation", "foo"]
    assert _check(tmp_path, "no-such-command").returncode == 2


def test_check_config_shows_the_values_in_force(tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text("limits: {connections: 7}\n")
    done = _check(tmp_path, "check-config", str(file))
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"ok: {tmp_path / 'hub.yaml'}"
    assert f"limits.connections = 7  [{file}]" in lines
    assert "memory.enabled = false  [default]" in lines
    shown = json.loads(_check(tmp_path, "check-config", "--json", str(file)).stdout)
    assert shown["ok"] is True and shown["settings"]["limits.connections"] == {"value": 7, "source": str(file)}
    assert _check(tmp_path, "check-config").returncode == 0
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_check_config_prints_any_name_in_any_locale(tmp_path: Path, locale: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMUX_HOME": str(tmp_path / "home")}
    env |= {"LC_ALL": locale, "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    file = os.fsencode(tmp_path / "\u00e9") + b"\xff.yaml"
    Path(os.fsdecode(file)).write_bytes(b"")

    def run(*words: str | bytes) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "amux_hub", "check-config", *words]
        return subprocess.run(command, env=env, capture_output=True, check=False)

    done = run(file)
    assert (done.returncode, done.stderr) == (0, b"") and done.stdout.startswith(b"ok: ")
    done = run("--json", file)
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["file"].endswith("\udcff.yaml")


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_check_config_whose_answer_nobody_takes(tmp_path: Path, words: tuple[str, ...]) -> None:
    """As amux does it: silence for a reader that left, one line for a full disk; closed is no trouble."""
    command = [sys.executable, "-m", "amux_hub", "check-config", *words]
    read, write = os.pipe()
    os.close(read)
    with open("/dev/full", "wb") as full:
        for sink, status, said in ((write, 141, b""), (full, 1, b"amux-hub: cannot write the answer: No space left")):
            done = subprocess.run(command, env={"HOME": str(tmp_path)}, stdout=sink, stderr=subprocess.PIPE)
            assert (done.returncode, done.stderr[: len(said)], done.stderr.count(b"\n")) == (status, said, bool(said))
    os.close(write)
    done = subprocess.run(
        command, env={"HOME": str(tmp_path)}, stdout=None, preexec_fn=lambda: os.close(1), stderr=subprocess.PIPE
    )
    assert (done.returncode, done.stderr) == (0, b"")
