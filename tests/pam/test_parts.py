"""The parts by themselves: names, the service file, what a child says, how it is started, what libpam calls back."""

from __future__ import annotations

import errno
import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amux_pam import child, judge, libpam, manager, names, service_file
from amux_pam.audit import escape
from amux_pam.judge import Verdict
from tests.lint.sources import ROOT
from tests.pam.kit import PATIENCE, rest

SHIPPED = ROOT / "packaging" / "pam.d" / "amux"


def test_a_uid_has_the_name_that_the_name_service_gives() -> None:
    for entry in pwd.getpwall()[:20]:
        if pwd.getpwuid(entry.pw_uid).pw_name == entry.pw_name:
            assert names.name_of(entry.pw_uid) == entry.pw_name.encode()


def test_c47_a_uid_without_an_account_has_none() -> None:
    used = {entry.pw_uid for entry in pwd.getpwall()}
    for uid in {4000000001, 4294967294, 1 << 31} - used:
        assert names.name_of(uid) is None


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOENT])
def test_s8_a_name_service_that_fails_is_not_taken_for_none(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names._libc, "getpwuid_r", lambda *_: number)
    with pytest.raises(names.LookupFailedError):
        names.name_of(0)
    monkeypatch.setattr(service_file, "check", lambda: None)
    assert judge.judge(0).word == "unavailable"


def test_s2_a_name_that_leads_to_another_uid_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """PAM judges names: it would judge root here, who is good."""
    found = iter([(b"root", 2000), (b"root", 0)])
    monkeypatch.setattr(names, "_look_up", lambda *_: next(found))
    monkeypatch.setattr(service_file, "check", lambda: None)
    verdict = judge.judge(2000)
    assert (verdict.word, verdict.name) == ("denied", "")


def _numbers() -> dict[int, str]:
    wanted = dict.fromkeys(range(33), "denied") | dict.fromkeys(judge.NO_ANSWER, "unavailable")
    return wanted | {0: "allow", 12: "must_change", 13: "expired", 27: "password_expired", 7: "denied", 6: "denied"}


@pytest.mark.parametrize(("number", "word"), _numbers().items())
def test_every_number_of_pam_has_its_class(number: int, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stack:
        def __init__(self, service: bytes, name: bytes) -> None:
            assert (service, name) == (b"amux", b"root")

        def account(self) -> int:
            return number

        def end(self, status: int) -> None:
            assert status == number

    monkeypatch.setattr(service_file, "check", lambda: None)
    monkeypatch.setattr(libpam, "Conversation", Stack)
    assert judge.judge(0) == (word, f"PAM answered {number}", "root")
    assert (word == "allow") == (number == 0)


def _file(directory: Path, text: str = "account required pam_unix.so\n") -> str:
    path = directory / "amux"
    path.write_text(text)
    path.chmod(0o644)
    directory.chmod(0o755)
    return str(path)


def test_p6_the_shipped_file_is_fit(tmp_path: Path) -> None:
    service_file.check(_file(tmp_path, SHIPPED.read_text(encoding="utf-8")), os.getuid())


def test_p6_a_missing_file_is_not(tmp_path: Path) -> None:
    with pytest.raises(service_file.UnfitError, match="is missing"):
        service_file.check(str(tmp_path / "amux"), os.getuid())


def test_p6_nor_one_of_somebody_else(tmp_path: Path) -> None:
    with pytest.raises(service_file.UnfitError, match=f"belongs to UID {os.getuid()}"):
        service_file.check(_file(tmp_path), os.getuid() + 1)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666, 0o777])
@pytest.mark.parametrize("which", ["file", "directory"])
def test_p6_nor_one_that_others_can_write_or_replace(tmp_path: Path, mode: int, which: str) -> None:
    path = _file(tmp_path)
    if which == "file":
        os.chmod(path, mode)
    else:
        tmp_path.chmod(mode | 0o111)
    blamed = path if which == "file" else str(tmp_path)
    with pytest.raises(service_file.UnfitError, match=f"written by others .* chmod go-w {blamed}$"):
        service_file.check(path, os.getuid())


@pytest.mark.parametrize(
    "text",
    ["", "# account required pam_unix.so\n", "auth required pam_unix.so\n", "@include common-account\n", "account\n"],
)
def test_p6_nor_one_without_a_rule_for_accounts(tmp_path: Path, text: str) -> None:
    """libpam asks `other` then, as it does without a file."""
    with pytest.raises(service_file.UnfitError, match="no account rule"):
        service_file.check(_file(tmp_path, text), os.getuid())


def test_p6_nor_what_is_no_file(tmp_path: Path) -> None:
    path = Path(_file(tmp_path))
    path.rename(tmp_path / "real")
    path.symlink_to("real")
    with pytest.raises(service_file.UnfitError, match="cannot be opened"):
        service_file.check(str(path), os.getuid())
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(service_file.UnfitError, match="no regular file"):
        service_file.check(str(path), os.getuid())


def test_what_a_child_says_arrives() -> None:
    for verdict in (Verdict("allow", "PAM answered 0", "alice"), Verdict("denied", "é" * 500, "C\0D\\x")):
        message = child.encode(verdict)
        assert len(message) <= child.MESSAGE_BYTES
        assert child.decode(message, 0).word == verdict.word


@pytest.mark.parametrize(
    "message", [b"", b"allow", b"allow\0", b"allow\0\0", b"allow\0a\0b\0c\0", b"yes\0\0\0", b"allow \0\0\0", b"\0\0\0"]
)
def test_what_is_not_whole_is_no_verdict(message: bytes) -> None:
    assert child.decode(message, 0).word == "unavailable"


@pytest.mark.parametrize("status", [9, 11, 0x100, 0xFF00, 0x8B])
def test_a_child_that_ended_badly_is_not_believed(status: int) -> None:
    assert child.decode(child.encode(Verdict("allow")), status).word == "unavailable"


def test_escape_leaves_one_line() -> None:
    assert escape("a\nb\x1b[1m\u202ec") == "a\\u000ab\\u001b[1m\\u202ec"


def test_libpam_calls_back() -> None:
    """As `--self-test` does; the service of another name is only asked for its conversation."""
    libpam.self_test(b"other")


@pytest.mark.parametrize("style", [1, 2, 5, 7])
def test_a_question_of_a_module_is_refused(style: int) -> None:
    """PAM_PROMPT_ECHO_OFF, PAM_PROMPT_ECHO_ON and what Linux-PAM adds to them, pam_conv(3)."""
    conversation = libpam.Conversation(b"other", b"root")
    assert conversation.prompt(style) == 19
    assert conversation.prompt(libpam.TEXT_INFO) == conversation.prompt(libpam.ERROR_MSG) == 0
    conversation.end(0)


def test_libpam_that_cannot_call_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libpam.Conversation, "prompt", lambda *_: 19)
    with pytest.raises(libpam.PamError, match="the conversation answered"):
        libpam.self_test(b"other")


def _start(**env: str) -> subprocess.CompletedProcess[str]:
    code = (
        "import os, sys; from amux_pam.__main__ import main;"
        "os.environ['LISTEN_PID'] = os.environ.get('LISTEN_PID') or str(os.getpid()); sys.exit(main([]))"
    )
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"LISTEN_PID": "1", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "pam"}, "no socket was passed"),
        ({"LISTEN_FDS": "1", "LISTEN_FDNAMES": "hub"}, "found 1 (hub)"),
        ({"LISTEN_FDS": "2", "LISTEN_FDNAMES": "pam:pam"}, "found 2 (pam:pam)"),
        ({"LISTEN_FDS": "1"}, "found 1 (None)"),
        ({"LISTEN_FDS": "1", "LISTEN_FDNAMES": "pam"}, "no socket"),
    ],
)
def test_it_starts_with_its_one_socket_alone(env: dict[str, str], says: str) -> None:
    done = _start(**env)
    assert done.returncode == 1
    assert done.stderr.startswith("amux-pam: ") and done.stderr.count("\n") == 1
    assert says in done.stderr


def test_who_waits_for_a_start_that_fails_is_hung_up_on(tmp_path: Path) -> None:
    code = (
        "import os, sys; from amux_pam import __main__ as start, libpam\n"
        "def fail(): raise libpam.PamError('it cannot')\n"
        "start.ACCOUNT, start.self_test = 'root', fail\n"
        "os.dup2(int(sys.argv[1]), 3); os.environ['LISTEN_PID'] = str(os.getpid()); sys.exit(start.main([]))"
    )
    path = str(tmp_path / "pam.sock")
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as waiting:
        listener.bind(path)
        listener.listen()
        waiting.settimeout(PATIENCE)
        waiting.connect(path)
        waiting.sendall(b"0\n")
        done = subprocess.run(
            [sys.executable, "-c", code, str(listener.fileno())],
            env={**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": "pam"},
            pass_fds=[listener.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (1, "amux-pam: it cannot\n")
        assert rest(waiting) == ""


def test_a_wrong_command_line_is_2() -> None:
    command = [sys.executable, "-m", "amux_pam", "--help-me"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "usage: amux-pam [--self-test]\n")


@pytest.mark.parametrize("address", ["path", "@abstract"])
def test_the_service_manager_is_told(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where = f"\0{tmp_path}" if address.startswith("@") else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(where)
        monkeypatch.setenv("NOTIFY_SOCKET", where.replace("\0", "@"))
        manager.notifier().say("READY=1")
        assert receiver.recv(100) == b"READY=1"
    monkeypatch.delenv("NOTIFY_SOCKET")
    manager.notifier().say("READY=1")
