"""Real accounts of this machine, real PAM, the service as it is started: as root, and all of it removed afterwards."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import amux_pam
from amux_pam.service_file import PATH
from tests.lint.sources import ROOT
from tests.pam.kit import PATIENCE, Helper, rest, stub, wait_for

pytestmark = pytest.mark.root

SHIPPED = ROOT / "packaging" / "pam.d" / "amux"
SHELL = ("--shell", "/bin/sh")
PASSWORD = "$6$amuxtests$" + "x" * 86
"""No password has this hash; the account counts as one that has a password."""

# Name → how useradd(8) makes it, what is done to it afterwards, the verdict.
ACCOUNTS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str]] = {
    "amuxt-good": (SHELL, (), "allow"),
    "amuxt-other": (SHELL, (), "allow"),
    "amuxt-nologin": (("--shell", "/usr/sbin/nologin"), (), "allow"),
    "AmuxT-Good": ((*SHELL, "--badname"), (), "allow"),
    "amuxt-large": ((*SHELL, "--uid", "4000000000"), (), "allow"),
    "amuxt-locked": (SHELL, (("usermod", "-L"),), "allow"),
    "amuxt-expired": (SHELL, (("chage", "-E", "0"),), "expired"),
    "amuxt-shut": (SHELL, (("usermod", "-L", "-e", "1"),), "expired"),
    "AmuxT-Expired": ((*SHELL, "--badname"), (("chage", "-E", "0"),), "expired"),
    "amuxt-change": (SHELL, (("chage", "-d", "0"),), "must_change"),
    "amuxt-old": (SHELL, (("chage", "-d", "2000-01-01", "-M", "30", "-I", "5"),), "password_expired"),
    "amuxt-aged": (SHELL, (("chage", "-d", "2000-01-01", "-M", "30"),), "must_change"),
}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def accounts() -> Iterator[dict[str, int]]:
    """Name → UID. The account of the service too, where this machine has none."""
    made = []
    try:
        if not _exists("amux"):
            _run("useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", "amux")
            made.append("amux")
        for name, (options, changes, _) in ACCOUNTS.items():
            _run("useradd", "--no-create-home", "--no-log-init", "--password", PASSWORD, *options, name)
            made.append(name)
            for change in changes:
                _run(*change, name)
        yield {name: pwd.getpwnam(name).pw_uid for name in made if name in ACCOUNTS}
    finally:
        for name in reversed(made):
            subprocess.run(["userdel", name], capture_output=True, check=False)


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


@pytest.fixture
def service_file() -> Iterator[Path]:
    """The shipped file in its place, for one test. What this machine has there comes back."""
    path = Path(PATH)
    kept = path.read_bytes() if path.exists() else None
    try:
        shutil.copyfile(SHIPPED, path)
        path.chmod(0o644)
        yield path
    finally:
        path.unlink(missing_ok=True)
        if kept is not None:
            path.write_bytes(kept)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every account can enter."""
    with tempfile.TemporaryDirectory(prefix="amux-pam-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


START = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="pam")
os.execv(sys.executable, [sys.executable, "-m", "amux_pam"])
"""


BARE = ("setpriv", "--bounding-set=-all", "--no-new-privs")
"""Root without a capability, as in the unit, setpriv(1)."""


class Manager:
    """Starts the service as the service manager does."""

    def __init__(self, directory: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(directory / "notify"))
        self._socket.settimeout(0.05)
        command = [*BARE, sys.executable, "-c", START, "FD"]
        self.helper = Helper(directory, command, NOTIFY_SOCKET=str(directory / "notify"))
        os.chmod(self.helper.path, 0o666)
        self.ready = False

    def wait(self) -> bool:
        """Whether it came to READY; if not, it ended."""
        wait_for(lambda: self._heard() or self.helper.process.poll() is not None, "READY or the end")
        return self.ready

    def _heard(self) -> bool:
        with contextlib.suppress(TimeoutError):
            self.ready = self.ready or self._socket.recv(100) == b"READY=1"
        return self.ready

    def close(self) -> int:
        self._socket.close()
        return self.helper.close()


@pytest.fixture
def running(accounts: dict[str, int], service_file: Path, place: Path) -> Iterator[Helper]:
    manager = Manager(place)
    assert manager.wait(), manager.helper.log()
    yield manager.helper
    assert manager.close() == 0


@pytest.mark.parametrize("name", ACCOUNTS)
def test_c31_c35_c47_every_account_gets_its_class(running: Helper, accounts: dict[str, int], name: str) -> None:
    wanted = ACCOUNTS[name][2]
    assert running.ask(accounts[name]) == wanted
    assert f"verdict: uid={accounts[name]} name='{name}' class={wanted} (PAM answered" in running.log()


@pytest.mark.parametrize("uid", [4000000001, 4294967294, 2147483648])
def test_c47_a_uid_without_an_account_is_unknown(running: Helper, uid: int) -> None:
    assert running.ask(uid) == "unknown_account"


def test_c31_a_change_counts_at_once(running: Helper, accounts: dict[str, int]) -> None:
    uid = accounts["amuxt-other"]
    assert running.ask(uid) == "allow"
    _run("usermod", "-L", "-e", "1", "amuxt-other")
    assert running.ask(uid) == "expired"
    _run("usermod", "-U", "-e", "", "amuxt-other")
    assert running.ask(uid) == "allow"


def test_c30_parallel_verdicts_are_never_mixed_up(running: Helper, accounts: dict[str, int]) -> None:
    names = [name for name in ACCOUNTS if name != "amuxt-other"]

    def asks(start: int) -> list[tuple[str, str]]:
        found = []
        for index in range(200):
            name = names[(start + index) % len(names)]
            found.append((name, running.ask(accounts[name])))
        return found

    with ThreadPoolExecutor(8) as pool:
        answers = [answer for found in pool.map(asks, range(8)) for answer in found]
    assert len(answers) == 1600
    assert not [(name, word) for name, word in answers if word != ACCOUNTS[name][2]]
    assert not running.children()


ASK = """
import socket, sys
s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1])
try:
    s.sendall(b"0\\n")
    print(s.recv(100))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""


@pytest.mark.parametrize("account", ["amux", "root", "amuxt-good"])
def test_s2_root_and_the_hub_are_answered_and_nobody_else(running: Helper, account: str) -> None:
    wanted = "b''" if account == "amuxt-good" else "b'allow\\n'"
    entry = pwd.getpwnam(account)
    done = subprocess.run(
        ["/usr/bin/python3", "-IS", "-c", ASK, running.path],
        user=entry.pw_uid,
        group=entry.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (wanted, "")
    assert (f"refused: peer uid={entry.pw_uid}" in running.log()) == (account == "amuxt-good")


@pytest.mark.parametrize("dumpable", [False, True])
def test_its_memory_is_closed_to_others_of_its_uid(running: Helper, dumpable: bool) -> None:
    """Root without CAP_SYS_PTRACE reads the map of a process like itself, ptrace(2), but not of one undumpable."""
    bare = subprocess.Popen([*BARE, "sleep", "600"])
    try:
        pid = bare.pid if dumpable else running.process.pid
        wait_for(lambda: b"sleep" in Path(f"/proc/{bare.pid}/cmdline").read_bytes()[:6], "sleep to run")
        done = subprocess.run([*BARE, "cat", f"/proc/{pid}/maps"], capture_output=True, check=False)
        assert (done.returncode == 0) == dumpable
    finally:
        bare.kill()
        bare.wait()


def test_p6_a_file_that_vanishes_stops_verdicts_until_it_is_back(running: Helper, service_file: Path) -> None:
    text = service_file.read_bytes()
    service_file.unlink()
    assert running.ask(0) == "unavailable"
    assert "would ask the stack `other`" in running.log()
    service_file.write_bytes(b"# nothing\n")
    assert running.ask(0) == "unavailable"
    service_file.write_bytes(text)
    service_file.chmod(0o666)
    assert running.ask(0) == "unavailable"
    service_file.chmod(0o644)
    assert running.ask(0) == "allow"


def _link_to_other(path: Path) -> str:
    link = f"{path}.link"
    os.symlink("other", link)
    return link


SPOILT: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "owner": lambda path: os.chown(path, 65534, 65534),
    "group-writable": lambda path: path.chmod(0o664),
    "writable": lambda path: path.chmod(0o646),
    "no rule": lambda path: path.write_text("auth required pam_permit.so\n"),
    "link": lambda path: os.replace(_link_to_other(path), path),
}


@pytest.mark.parametrize("how", SPOILT)
def test_p6_no_start_where_other_would_be_asked_or_others_decide(
    accounts: dict[str, int], service_file: Path, place: Path, how: str
) -> None:
    SPOILT[how](service_file)
    manager = Manager(place)
    try:
        assert not manager.wait()
        assert manager.helper.process.wait(PATIENCE) == 1
        assert manager.helper.log().startswith(f"amux-pam: {PATH} ") and manager.helper.log().count("\n") == 1
    finally:
        manager.close()
    command = [sys.executable, "-m", "amux_pam", "--self-test"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, check=False).returncode == 1


def test_the_self_test_passes_with_the_shipped_file(service_file: Path) -> None:
    command = [sys.executable, "-m", "amux_pam", "--self-test"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_c32_an_account_that_may_not_read_the_shadow_file_is_told(service_file: Path) -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import amux_pam.__main__ as m; sys.exit(m.main(sys.argv[2:]))"
    with _readable_copy() as directory:
        command = ["/usr/bin/python3", "-ISc", code, directory, "--self-test"]
        done = subprocess.run(
            command, user=65534, group=65534, extra_groups=[], cwd="/", capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert "/etc/shadow cannot be opened" in done.stderr and "CAP_DAC_READ_SEARCH" in done.stderr


@contextlib.contextmanager
def _readable_copy() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        shutil.copytree(Path(amux_pam.__file__).parent, f"{directory}/amux_pam")
        Path(directory).chmod(0o755)
        yield directory


def test_p2_a_module_that_sleeps_is_killed_with_what_it_started(service_file: Path, place: Path) -> None:
    mark = f"6{os.getpid():07d}"
    service_file.write_text(f"account required pam_exec.so quiet /bin/sleep {mark}\n")
    with stub(place, seconds=0.5, JUDGE="real") as helper:
        waiting = [helper.send(b"0\n") for _ in range(4)]
        wait_for(lambda: len(_called(mark)) == 4, "the modules to sleep")
        assert [rest(peer) for peer in waiting] == ["unavailable"] * 4
        wait_for(lambda: not _called(mark), "the end of what the modules started")
        service_file.write_text("account required pam_permit.so\n")
        assert helper.ask(0) == "allow"
        for peer in waiting:
            peer.close()


def _called(mark: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes().split(b"\0")[:2] == [b"/bin/sleep", mark.encode()]:
                found.append(int(path.parent.name))
    return found


@pytest.mark.parametrize(
    ("stack", "wanted"),
    [
        ("account required pam_permit.so\n", "allow"),
        ("account required pam_deny.so\n", "denied"),
        ("account required pam_no_such_module.so\n", "unavailable"),
        ("account required pam_exec.so quiet /bin/false\n", "unavailable"),
        ("account [default=die] pam_echo.so\naccount required pam_permit.so\n", "denied"),
        ("account required pam_warn.so\naccount include no-such-file\n", "denied"),
    ],
)
def test_the_stack_decides(service_file: Path, place: Path, stack: str, wanted: str) -> None:
    service_file.write_text(stack)
    with stub(place, JUDGE="real") as helper:
        assert helper.ask(0) == wanted, helper.log()


def test_the_shipped_stack_knows_no_password_and_no_session(service_file: Path) -> None:
    """Whoever asks it for more than an account is refused: pam_deny."""
    lines = [line.split() for line in service_file.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == (
        "account [acct_expired=bad new_authtok_reqd=bad authtok_expired=bad default=ignore] pam_unix.so".split()
    )
    assert [line for line in lines if line[0] in ("auth", "password", "session")] == [
        [kind, "requisite", "pam_deny.so"] for kind in ("auth", "password", "session")
    ]
    assert ["@include", "common-account"] in lines


def test_a_helper_that_is_killed_is_started_again_by_its_socket(
    accounts: dict[str, int], service_file: Path, place: Path
) -> None:
    """Questions wait in the backlog meanwhile: the socket is not the helper's."""
    manager = Manager(place)
    assert manager.wait()
    manager.helper.process.send_signal(signal.SIGKILL)
    manager.helper.process.wait(PATIENCE)
    with manager.helper.send(b"0\n") as waiting:
        again = subprocess.Popen(
            [sys.executable, "-c", START, str(manager.helper.listener.fileno())],
            cwd=ROOT,
            pass_fds=[manager.helper.listener.fileno()],
            stderr=subprocess.DEVNULL,
        )
        try:
            assert rest(waiting) == "allow"
        finally:
            again.terminate()
            assert again.wait(PATIENCE) == 0
            manager.close()
