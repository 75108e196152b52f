"""`amux memory edit`: saved conditionally, never lost."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.scripted import ScriptedHub
from tests.cli.tool import PYTHON, Tool
from tests.harness import Hub, until

Editor = Callable[[str], dict[str, str]]


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    """Makes an editor of a few Python lines about `file`; answers the environment that names it.

    The directory of the program has a space in its name, and the editor an argument of its own.
    """
    (tmp_path / "with space").mkdir()
    (tmp_path / "scratch").mkdir()

    def make(body: str) -> dict[str, str]:
        program = tmp_path / "with space" / "editor"
        program.write_text(
            f"#!{PYTHON} -IS\nimport os, sys\n_, first, path = sys.argv\nassert first == '--wait'\n"
            f"file = open(path, 'r+b')\n{body}\n"
        )
        program.chmod(0o755)
        return {"EDITOR": f"'{program}' --wait", "TMPDIR": str(tmp_path / "scratch")}

    return make


APPEND = "file.seek(0, 2); file.write(b'added\\n')"


def put(hub: Hub, path: str, content: str) -> str:
    reply = hub.call("io.amux.Memory.Upsert", path=path, content=content, expected_revision="absent")
    revision: str = reply["parameters"]["revision"]
    return revision


def stored(hub: Hub, path: str) -> bytes:
    return (hub.home / "memory" / "global" / path).read_bytes()


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]


def test_edit_saves(amux: Tool, hub: Hub, editor: Editor, tmp_path: Path) -> None:
    """Without a terminal, since the editor needs none; long documents come in whole."""
    text = "行\n" * 5000
    put(hub, "a.md", text)
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor(APPEND))
    wanted = text.encode() + b"added\n"
    assert result.json == {"path": "a.md", "revision": hashlib.sha256(wanted).hexdigest()}
    assert stored(hub, "a.md") == wanted
    assert os.listdir(tmp_path / "scratch") == []


def test_edit_creates(amux: Tool, hub: Hub, editor: Editor) -> None:
    result = amux.run("memory", "edit", "new/a.md", hub=hub.sockets["hub"], env=editor(APPEND))
    assert result.status == 0
    assert stored(hub, "new/a.md") == b"added\n"


def test_visual_comes_before_editor(amux: Tool, hub: Hub, editor: Editor) -> None:
    env = editor(APPEND)
    env = {"VISUAL": env["EDITOR"], "EDITOR": "false", "TMPDIR": env["TMPDIR"]}
    assert amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=env).status == 0
    assert stored(hub, "a.md") == b"added\n"


def test_edit_at_a_terminal(amux: Tool, hub: Hub, editor: Editor) -> None:
    result = amux.at_terminal("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor(APPEND))
    assert result.status == 0
    assert result.out.startswith(b"saved a.md, revision ")


def test_an_editor_that_replaces_its_file(amux: Tool, hub: Hub, editor: Editor) -> None:
    """As vim and sed -i do: another inode under the same name."""
    put(hub, "a.md", "old\n")
    body = "open(path + '.new', 'wb').write(b'new\\n'); os.rename(path + '.new', path)"
    assert amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor(body)).status == 0
    assert stored(hub, "a.md") == b"new\n"


@pytest.mark.parametrize("exists", [True, False])
def test_unchanged_text_saves_nothing(amux: Tool, hub: Hub, editor: Editor, tmp_path: Path, exists: bool) -> None:
    revision = put(hub, "a.md", "same\n") if exists else "absent"
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor("pass"))
    assert result.json == {"path": "a.md", "revision": revision}
    assert b"unchanged" in result.err
    assert (hub.home / "memory" / "global" / "a.md").exists() is exists
    assert os.listdir(tmp_path / "scratch") == []


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_c23_the_text_is_private_while_it_is_edited(
    amux: Tool, hub: Hub, editor: Editor, tmp_path: Path, umask: int
) -> None:
    body = """
file.write(f'{os.stat(path).st_mode:o} {os.stat(os.path.dirname(path)).st_mode:o}\\n'.encode())
"""
    result = amux.run("memory", "edit", "x/a.md", hub=hub.sockets["hub"], env=editor(body), umask=umask)
    assert result.status == 0
    assert stored(hub, "x/a.md") == b"100600 40700\n"


def test_c3_a_conflict_keeps_both_texts(amux: Tool, hub: Hub, editor: Editor, tmp_path: Path) -> None:
    put(hub, "a.md", "old\n")
    document = hub.home / "memory" / "global" / "a.md"
    body = f"{APPEND}; open({str(document)!r}, 'wb').write(b'by somebody else\\n')"
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor(body))
    assert (result.status, result.error["code"]) == (4, "conflict")
    assert stored(hub, "a.md") == b"by somebody else\n"
    [file] = kept(tmp_path)
    assert file.read_bytes() == b"old\nadded\n"
    assert result.error["details"]["kept"] == str(file)
    assert str(file) in result.error["message"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("file.write(b'\\xff')", 2, "invalid_content"),
        ("file.write(b'a\\0b')", 2, "invalid_content"),
        ("file.write(b'x' * 70000)", 5, "limit_exceeded"),
        (f"{APPEND}; file.close(); sys.exit(3)", 2, "invalid_argument"),
    ],
    ids=["not-utf8", "nul", "too-large", "editor-failed"],
)
def test_what_cannot_be_saved_is_kept(
    amux: Tool, hub: Hub, editor: Editor, tmp_path: Path, body: str, status: int, code: str
) -> None:
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor(body))
    assert (result.status, result.error["code"]) == (status, code)
    [file] = kept(tmp_path)
    assert result.error["details"]["kept"] == str(file)
    assert not (hub.home / "memory" / "global" / "a.md").exists()


def test_c21_an_entry_file_over_its_limit_is_kept(amux: Tool, hub: Hub, editor: Editor, tmp_path: Path) -> None:
    """Refused by the Hub, with the numbers."""
    body = "file.write(b'x' * 2049)"
    result = amux.run("memory", "edit", "MEMORY.md", hub=hub.sockets["hub"], env=editor(body))
    assert (result.status, result.error["code"]) == (5, "limit_exceeded")
    assert {"value": 2048, "found": 2049}.items() <= result.error["details"].items()
    assert len(kept(tmp_path)) == 1


def test_a_hub_that_went_away_loses_no_text(amux: Tool, scripted: ScriptedHub, editor: Editor, tmp_path: Path) -> None:
    absent = {"path": "a.md", "exists": False, "revision": "absent", "content": "", "truncated": False}
    scripted.then(scripted.answers({"parameters": absent}), scripted.sends(b"", wait=False))
    result = amux.run("memory", "edit", "a.md", hub=scripted.path, env=editor(APPEND))
    assert (result.status, result.error["code"]) == (9, "outcome_uncertain")
    assert result.error["details"]["kept"] == str(kept(tmp_path)[0])


def test_an_editor_that_gives_up_untouched_leaves_nothing(amux: Tool, hub: Hub, editor: Editor, tmp_path: Path) -> None:
    put(hub, "a.md", "old\n")
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor("sys.exit(1)"))
    assert (result.status, result.error["code"]) == (2, "invalid_argument")
    assert "kept" not in result.error["details"]
    assert os.listdir(tmp_path / "scratch") == []


def test_an_editor_that_removes_its_file(amux: Tool, hub: Hub, editor: Editor) -> None:
    put(hub, "a.md", "old\n")
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor("os.unlink(path)"))
    assert (result.status, result.error["code"]) == (2, "invalid_argument")
    assert stored(hub, "a.md") == b"old\n"


@pytest.mark.parametrize("value", ["/nonexistent/editor", "'unclosed", "/"])
def test_an_editor_that_cannot_be_run(amux: Tool, hub: Hub, value: str) -> None:
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env={"EDITOR": value})
    assert (result.status, result.error["code"]) == (2, "invalid_argument")


def test_no_editor_at_all(amux: Tool, hub: Hub, tmp_path: Path) -> None:
    """An empty variable is an unset one; the PATH leads nowhere."""
    env = {"EDITOR": " ", "VISUAL": "", "PATH": str(tmp_path)}
    result = amux.run("memory", "edit", "a.md", hub=hub.sockets["hub"], env=env)
    assert (result.status, result.error["code"]) == (2, "invalid_argument")
    assert "set VISUAL or EDITOR" in result.error["message"]


def test_a_document_that_is_not_utf8_is_not_edited(amux: Tool, hub: Hub, editor: Editor) -> None:
    put(hub, "ok.md", "x")
    (hub.home / "memory" / "global" / "bad.md").write_bytes(b"a\xff")
    result = amux.run("memory", "edit", "bad.md", hub=hub.sockets["hub"], env=editor(APPEND))
    assert (result.status, result.error["code"]) == (2, "not_utf8")


def test_ctrl_c_belongs_to_the_editor(amux: Tool, hub: Hub, editor: Editor, tmp_path: Path) -> None:
    """The whole foreground group gets it, as from a terminal; the editor goes on, and so do we."""
    started, go_on = tmp_path / "started", tmp_path / "go-on"
    body = f"""
import signal, time
signal.signal(signal.SIGINT, lambda *_: None)
open({str(started)!r}, 'w').close()
while not os.path.exists({str(go_on)!r}): time.sleep(0.01)
{APPEND}
"""
    with amux.popen(
        "memory", "edit", "a.md", hub=hub.sockets["hub"], env=editor(body), start_new_session=True
    ) as process:
        until(started.exists, "the editor starts")
        os.killpg(process.pid, signal.SIGINT)
        go_on.touch()
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert stored(hub, "a.md") == b"added\n"
