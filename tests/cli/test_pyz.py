"""amux.pyz, what a start imports, and that the working directory has no part in it."""

from __future__ import annotations

import _imp
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.tool import PYTHON, Tool
from tests.harness import Hub

OURS = {"__future__", "amux", "amux.__main__", "amux.errors", "amux.endpoint", "amux.output"}
MEMORY = OURS | {"amux.memory", "amux.client", "amux.limits"}
RELAY = OURS | {"amux.relay", "amux.relay_call", "amux.relay_ends", "amux.limits", "amux.tools"}
OF_ALL = "os socket struct time"
HOT = {
    "memory search x": (MEMORY, f"{OF_ALL} json"),
    "memory show x.md": (MEMORY, f"{OF_ALL} json"),
    "memory upsert x.md --expected-revision absent": (MEMORY, f"{OF_ALL} json"),
    "memory forget x.md --expected-revision absent": (MEMORY, f"{OF_ALL} json"),
    "dial-stdio": (OURS | {"amux.dial"}, f"{OF_ALL} select"),
    "dial-stdio --mcp": (OURS | {"amux.dial"}, f"{OF_ALL} select"),
    "mcp": (RELAY, f"{OF_ALL} select json signal collections"),
}
"""What a hot command imports: our modules, and the standard library's (with what those import themselves)."""

SLOW = {
    "click",
    "asyncio",
    "argparse",
    "subprocess",
    "logging",
    "typing",
    "dataclasses",
    "inspect",
    "pathlib",
    "tempfile",
    "shutil",
    "shlex",
    "contextlib",
    "hashlib",
    "zlib",
    "urllib",
    "email",
    "threading",
}
"""Each costs milliseconds; `re` and `enum` do too, but come with `json` and `socket`."""

# Says at the moment of ending, however that happens, what was imported since the bare interpreter began.
PROBE = """
import sys
before = set(sys.modules)
sys.path.insert(0, {pyz!r})
import amux.__main__
import os
names = lambda: ' '.join(sorted(set(sys.modules) - before))
def end(status):
    os.write(3, names().encode())
    os.kill(os.getpid(), 9)
os._exit = end
sys.argv = ['amux', *{words!r}]
end(amux.__main__.main())
"""


def imported(pyz: Path, words: list[str], hub: Path) -> set[str]:
    read, write = os.pipe()
    process = subprocess.Popen(
        [PYTHON, "-IS", "-c", f"import os\nos.dup2({write}, 3)\n{PROBE.format(pyz=str(pyz), words=words)}"],
        env={"AMUX_HUB": str(hub)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=[write],
    )
    os.close(write)
    with os.fdopen(read) as answer:
        names = answer.read().split()
    process.wait()
    assert names
    return set(names)


def brings(modules: str) -> set[str]:
    """These modules of the standard library and all that the bare interpreter loads for them."""
    script = f"import sys, {', '.join(modules.split())}; print(*sys.modules)"
    done = subprocess.run([PYTHON, "-IS", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("line", HOT)
def test_hot_commands_import_this_and_nothing_else(pyz: Path, shared_hub: Hub, line: str) -> None:
    ours, standard = HOT[line]
    found = imported(pyz, line.split(), shared_hub.sockets["hub"])
    assert {name for name in found if name.startswith("amux")} | {"__future__"} == ours
    assert found - ours <= brings(standard)
    assert found & SLOW == set()


def test_the_probe_sees_click(pyz: Path, shared_hub: Hub) -> None:
    assert {"click", "typing"} <= imported(pyz, ["memory", "list"], shared_hub.sockets["hub"])


HOSTILE = "import os\nos.write(2, b'HOSTILE ' + __name__.encode())\nos._exit(66)\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository that ships everything that Python might pick up, and settings of all kinds."""
    root = tmp_path / "checkout"
    names = [*sorted(sys.stdlib_module_names), "click", "amux", "sitecustomize", "usercustomize"]
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text(HOSTILE)
        (root / name / "__main__.py").write_text(HOSTILE)
    for name in ("json.py", "click.py", "amux.py", "__main__.py", "socket.py", "hub.sock", "python3"):
        (root / name).write_text(HOSTILE)
    (root / ".env").write_text("AMUX_HUB=/tmp/attacker/hub.sock\nEDITOR=./python3\n")
    (root / "hub.yaml").write_text("sockets: {hub: /tmp/attacker/hub.sock}\n")
    (root / "pyvenv.cfg").write_text("home = .\n")
    (root / "ssh").write_text("#!/bin/sh\necho HOSTILE ssh >&2\n")
    (root / "ssh").chmod(0o755)
    return root


def test_n4_a_hostile_checkout_is_only_a_directory(amux: Tool, checkout: Path, hub: Hub) -> None:
    where: dict[str, Any] = {"hub": hub.sockets["hub"], "cwd": checkout}
    saved = amux.run("memory", "upsert", "a.md", "--expected-revision", "absent", input=b"mine", **where)
    assert saved.status == 0, saved
    for words in (
        ("memory", "show", "a.md"),
        ("memory", "search", "mine"),
        ("memory", "list"),
        ("memory", "export", "a.md"),
        ("status",),
        ("whoami",),
        ("system", "config", "list"),
        ("--help",),
        ("completion", "bash"),
    ):
        result = amux.run(*words, **where)
        assert (result.status, result.err) == (0, b""), words
    edited = amux.run("memory", "edit", "a.md", env={"EDITOR": "sed -i s/mine/ours/"}, **where)
    assert (edited.status, edited.err) == (0, b"")
    assert [path.name for path in checkout.glob("**/*.pyc")] == []


def test_n4_the_checkout_chooses_no_hub(amux: Tool, checkout: Path, short: Path) -> None:
    """Nothing is set: neither hub.sock nor .env of the working directory counts."""
    result = amux.run("status", hub=None, env={"XDG_RUNTIME_DIR": str(short)}, cwd=checkout)
    assert result.status == 8
    assert str(short / "amux" / "hub.sock").encode() in result.out
    for relative in ("hub.sock", "./hub.sock"):
        assert amux.run("memory", "show", "a.md", hub=relative, cwd=checkout).status == 2


def test_n4_python_variables_do_not_reach_the_pyz(pyz: Path, checkout: Path, hub: Hub) -> None:
    """-I: a PYTHONPATH or PYTHONSTARTUP that a project's tooling set has no effect."""
    env = {"PYTHONPATH": str(checkout)}
    taken = Tool([PYTHON, "-S", str(pyz)]).run("memory", "list", hub=hub.sockets["hub"], env=env)
    assert (taken.status, taken.err[:7]) == (66, b"HOSTILE")  # so the checkout is a real trap
    env |= {"PYTHONHOME": str(checkout), "PYTHONUSERBASE": str(checkout), "PYTHONSTARTUP": str(checkout)}
    result = Tool([PYTHON, "-IS", str(pyz)]).run("memory", "list", hub=hub.sockets["hub"], env=env, cwd=checkout)
    assert (result.status, result.err) == (0, b"")


def build(source_root: Path, out: Path, *words: str) -> bytes:
    script = str(source_root / "packaging" / "build_pyz.py")
    subprocess.run([sys.executable, script, str(out), *words], check=True, cwd=out.parent)
    return out.read_bytes()


def test_the_build_is_reproducible(source_root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    one = build(source_root, tmp_path / "one.pyz")
    assert build(source_root, tmp_path / "elsewhere" / "other.pyz") == one
    assert os.listdir(tmp_path / "elsewhere") == ["other.pyz"]


def test_the_pyz_holds_sources_beside_compiled_modules(pyz: Path) -> None:
    with zipfile.ZipFile(pyz) as archive:
        members = archive.infolist()
        names = {member.filename for member in members}
        sources = {name for name in names if name.endswith(".py")}
        assert {"__main__.py", "amux/__init__.py", "amux/cli/edit.py", "click/core.py"} <= sources
        assert {name + "c" for name in sources} == {name for name in names if name.endswith(".pyc")}
        assert {"LICENSE", "click/LICENSE.txt"} <= names
        assert not [name for name in names if name.startswith("amux_hub") or "__pycache__" in name]
        assert all(member.compress_type == zipfile.ZIP_STORED for member in members)
        assert [member.filename for member in members] == sorted(names)
        for name in sources:
            compiled = archive.read(name + "c")
            assert compiled[4:8] == b"\1\0\0\0"  # PEP 552: by hash, unchecked
            # Keyed by the magic number of the interpreter that compiled it, which may not be this one.
            magic = int.from_bytes(compiled[:4], "little")
            assert compiled[8:16] == _imp.source_hash(magic, archive.read(name))
            assert str(Path(__file__).parent.parent.parent).encode() not in compiled


def rewritten(pyz: Path, out: Path, keep: str, change: bytes | None) -> Path:
    """A copy with the members that end in `keep`; those of .pyc get another magic number if `change`."""
    with zipfile.ZipFile(pyz) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.infolist():
            data = old.read(member)
            if not member.filename.endswith(tuple(keep.split())):
                continue
            if change is not None and member.filename.endswith(".pyc"):
                data = change + data[4:]
            new.writestr(member, data)
    return out


def test_a_foreign_minor_version_runs_the_sources(pyz: Path, tmp_path: Path, shared_hub: Hub) -> None:
    """To another minor version the compiled modules bear a magic number that it does not know."""
    foreign = rewritten(pyz, tmp_path / "foreign.pyz", ".py .pyc", b"\x00\x0b\r\n")
    tool = Tool([PYTHON, "-IS", str(foreign)])
    for words in (("memory", "show", "a.md"), ("memory", "list"), ("--help",)):
        result = tool.run(*words, hub=shared_hub.sockets["hub"])
        assert (result.status, result.err) == (0, b"")


def test_the_compiled_modules_are_what_runs(pyz: Path, tmp_path: Path, shared_hub: Hub) -> None:
    """Else the start would pay for compiling: without any source the same interpreter runs it."""
    compiled = rewritten(pyz, tmp_path / "compiled.pyz", ".pyc", None)
    result = Tool([PYTHON, "-IS", str(compiled)]).run("memory", "list", hub=shared_hub.sockets["hub"])
    assert (result.status, result.err) == (0, b"")


def test_it_runs_from_a_place_without_execution_and_writing(pyz: Path, tmp_path: Path, shared_hub: Hub) -> None:
    """As from a root-owned directory: read alone, no execute bit (C41), nothing written beside it."""
    (tmp_path / "run").mkdir()
    copy = tmp_path / "run" / "amux.pyz"
    copy.write_bytes(pyz.read_bytes())
    copy.chmod(0o400)
    (tmp_path / "run").chmod(0o500)
    result = Tool([PYTHON, "-IS", str(copy)]).run("memory", "list", hub=shared_hub.sockets["hub"])
    assert result.status == 0
    assert os.listdir(tmp_path / "run") == ["amux.pyz"]
    (tmp_path / "run").chmod(0o700)
