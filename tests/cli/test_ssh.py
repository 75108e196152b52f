"""A Hub over ssh: a stand-in for ssh on the PATH checks its words and runs the remote command here."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest

from amux import dial
from tests.cli.tool import PYTHON, Tool
from tests.harness import Hub


@pytest.fixture
def remote(tmp_path: Path, amux: Tool) -> dict[str, str]:
    """The environment of a machine with an ssh that writes its words down and becomes the command.

    What the "other side" has: its own PATH with `amux`, its own AMUX_HUB, nothing of ours.
    """
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    far = tmp_path / "far" / "amux"
    far.write_text("#!/bin/sh\nexec " + " ".join(amux.command) + ' "$@"\n')
    far.chmod(0o755)
    ssh = tmp_path / "near" / "ssh"
    ssh.write_text(
        f"#!{PYTHON} -IS\n"
        "import json, os, sys\n"
        f"open({str(tmp_path / 'argv')!r}, 'w').write(json.dumps(sys.argv))\n"
        "command = sys.argv[sys.argv.index('--') + 2:]\n"
        f"far = {{'PATH': {str(tmp_path / 'far')!r} + ':/usr/bin:/bin', 'HOME': '/nonexistent'}}\n"
        f"far.update(json.load(open({str(tmp_path / 'far.json')!r})))\n"
        # As sshd does: one string for the login shell.
        "os.execve('/bin/sh', ['sh', '-c', ' '.join(command)], far)\n"
    )
    ssh.chmod(0o755)
    (tmp_path / "far.json").write_text("{}")
    return {"PATH": f"{tmp_path / 'near'}:{os.environ['PATH']}", "AMUX_HUB": "ssh://me@far.example:2222"}


@pytest.fixture
def far_hub(tmp_path: Path, hub: Hub) -> Hub:
    (tmp_path / "far.json").write_text(json.dumps({"AMUX_HUB": str(hub.sockets["hub"])}))
    return hub


def argv(tmp_path: Path) -> list[str]:
    words: list[str] = json.loads((tmp_path / "argv").read_text())
    return words[1:]


WORDS = ["-T", "-o", "BatchMode=yes", "-p", "2222", "-l", "me", "--", "far.example", "amux", "dial-stdio"]


def test_every_memory_command_over_ssh(amux: Tool, tmp_path: Path, remote: dict[str, str], far_hub: Hub) -> None:
    (tmp_path / "far.json").write_text(json.dumps({"AMUX_HUB": str(far_hub.sockets["hub"])}))
    text = ("行 needle\n" * 3000).encode()
    saved = amux.run("memory", "upsert", "a.md", "--expected-revision", "absent", hub=None, env=remote, input=text).json
    assert argv(tmp_path) == WORDS
    assert amux.run("memory", "show", "a.md", hub=None, env=remote).json["revision"] == saved["revision"]
    assert amux.run("memory", "search", "needle", hub=None, env=remote).json["matches"][0]["path"] == "a.md"
    assert amux.run("memory", "list", hub=None, env=remote).json["total_documents"] == 1
    exported = amux.run("memory", "export", "a.md", hub=None, env=remote)  # many calls over one ssh
    assert (exported.status, exported.out, exported.err) == (0, text, b"")
    edited = {**remote, "EDITOR": "sed -i s/needle/thread/"}
    assert amux.run("memory", "edit", "a.md", hub=None, env=edited).status == 0
    revision = amux.run("memory", "show", "a.md", hub=None, env=remote).json["revision"]
    words = ("memory", "forget", "a.md", "--expected-revision", revision)
    assert amux.run(*words, hub=None, env=remote).status == 0
    assert "ssh://me@far.example:2222" in amux.run("status", hub=None, env=remote).json["hub"]
    assert amux.run("whoami", hub=None, env=remote).json["uid"] == os.geteuid()


def test_administration_does_not_go_over_ssh(amux: Tool, tmp_path: Path, remote: dict[str, str], far_hub: Hub) -> None:
    result = amux.run("system", "config", "list", hub=None, env=remote)
    assert (result.status, result.error["code"]) == (6, "forbidden")
    assert not (tmp_path / "argv").exists()


def test_a_hub_that_is_down_over_there(amux: Tool, remote: dict[str, str], short: Path, tmp_path: Path) -> None:
    """The far side says what to start, in its own line; ours says where that was."""
    (tmp_path / "far.json").write_text(json.dumps({"AMUX_HUB": str(short / "hub.sock")}))
    result = amux.run("memory", "show", "a.md", hub=None, env=remote)
    assert result.status == 8
    there, here, nothing = result.err.split(b"\n")
    assert there.startswith(b"amux dial-stdio: no Hub runs at ")
    assert json.loads(here)["error"]["code"] == "hub_unavailable"
    assert b"ssh://me@far.example:2222 ended with 8" in here
    assert nothing == b""


@pytest.mark.parametrize(
    ("body", "said", "write"),
    [
        ("echo 'Permission denied (publickey).' >&2; exit 255", "ssh could not reach", 9),
        ("exit 127", "no amux on the PATH", 8),
        ("exit 8", "ended with 8", 8),
        ("exit 0", "closed the connection", 9),
        ("kill -9 $$", "ended with -9", 9),
    ],
)
@pytest.mark.parametrize("read", ["nothing", "a part", "all"])
def test_ssh_that_fails(
    amux: Tool, tmp_path: Path, remote: dict[str, str], read: str, body: str, said: str, write: int
) -> None:
    """A write is uncertain unless the far side ended before it reached a Hub, or ssh did not take all of the call."""
    # It waits for the call in any case, so that a write has left for certain.
    takes = {"nothing": "", "a part": "os.read(0, 10)", "all": "os.read(0, 65536)"}[read]
    program = f"import os, select; select.select([0], [], []); {takes}"
    (tmp_path / "near" / "ssh").write_text(f"#!/bin/sh\n{PYTHON} -IS -c '{program}'\n{body}\n")
    write = write if read == "all" else 8
    result = amux.run("memory", "show", "a.md", hub=None, env=remote)
    assert result.status == 8
    assert said in json.loads(result.err.splitlines()[-1])["error"]["message"]
    words = ("memory", "forget", "a.md", "--expected-revision", "absent")
    result = amux.run(*words, hub=None, env=remote)
    assert result.status == write
    assert said in json.loads(result.err.splitlines()[-1])["error"]["message"]


def test_no_ssh_at_all(amux: Tool, remote: dict[str, str], tmp_path: Path) -> None:
    result = amux.run("memory", "show", "a.md", hub=None, env={**remote, "PATH": str(tmp_path)})
    assert (result.status, result.error["code"]) == (8, "hub_unavailable")
    assert "ssh cannot be run" in result.error["message"]


@pytest.mark.parametrize("url", ["ssh://-oProxyCommand=touch${IFS}pwned", "ssh://-J@far", "ssh://far/x"])
def test_n3_a_bad_address_runs_no_ssh(amux: Tool, tmp_path: Path, remote: dict[str, str], url: str) -> None:
    for words in (("memory", "show", "a.md"), ("status",), ("mcp",)):
        result = amux.run(*words, hub=None, env={**remote, "AMUX_HUB": url})
        assert result.status == 2
        assert result.out == b""
    assert not (tmp_path / "argv").exists()


def test_dial_stdio_joins_local_hubs_only(amux: Tool, remote: dict[str, str], tmp_path: Path) -> None:
    """Else two machines whose AMUX_HUB name each other would start ssh without end."""
    result = amux.run("dial-stdio", hub=None, env=remote)
    assert result.status == 2
    assert b"its own machine" in result.err
    assert not (tmp_path / "argv").exists()


def test_dial_stdio_carries_calls_both_ways(amux: Tool, hub: Hub) -> None:
    call = b'{"method":"io.amux.Hub.WhoAmI","parameters":{}}\0'
    with amux.popen("dial-stdio", hub=hub.sockets["hub"]) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for _ in range(3):
            process.stdin.write(call)
            process.stdin.flush()
            answer = b""
            while not answer.endswith(b"\0"):
                answer += os.read(process.stdout.fileno(), 65536)
            assert json.loads(answer[:-1])["parameters"]["uid"] == os.geteuid()
        process.stdin.close()
        assert process.wait(60) == 0


def test_dial_stdio_ends_when_nobody_reads(amux: Tool, hub: Hub) -> None:
    """The ssh connection is gone, standard input still open."""
    with amux.popen("dial-stdio", hub=hub.sockets["hub"]) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.close()
        assert process.wait(60) == 0


def test_dial_stdio_mcp_joins_the_other_socket(amux: Tool, short: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short / "mcp.sock"))
        listener.listen()
        with amux.popen("dial-stdio", "--mcp", hub=short / "hub.sock") as process:
            connection, _ = listener.accept()
            connection.sendall(b"from the mcp socket\n")
            connection.close()
            out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, b"from the mcp socket\n", b"")


def test_neither_direction_holds_the_other_up() -> None:
    """Megabytes both ways at once, where each side writes all before it reads: no dead lock, nothing lost."""
    hub_far, hub_near = socket.socketpair()
    source_read, source_write = os.pipe()
    sink_read, sink_write = os.pipe()
    up, down = os.urandom(1_000_000), os.urandom(1_000_000)
    got: dict[str, bytes] = {"up": b"", "down": b""}

    def hub() -> None:
        writer = threading.Thread(target=hub_far.sendall, args=(down,))
        writer.start()
        while part := hub_far.recv(65536):
            got["up"] += part
        writer.join()
        hub_far.shutdown(socket.SHUT_WR)

    def person() -> None:
        def read_all() -> None:
            with os.fdopen(sink_read, "rb") as sink:
                got["down"] = sink.read()

        reader = threading.Thread(target=read_all)
        reader.start()
        with os.fdopen(source_write, "wb") as source:
            source.write(up)
        reader.join()

    threads = [threading.Thread(target=hub), threading.Thread(target=person)]
    for thread in threads:
        thread.start()
    assert dial.splice(hub_near, source_read, sink_write) == 0
    os.close(sink_write)
    for thread in threads:
        thread.join()
    assert got == {"up": up, "down": down}
    os.close(source_read)
    hub_far.close()
    hub_near.close()
