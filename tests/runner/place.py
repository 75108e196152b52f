"""Where the tests run and as whom.

Root may read and write everything, so most tests of refusals would say nothing: as root they run as an
existing system account of the host, from a copy of the sources that this account can read. An ordinary user
runs them in the checkout. Either way the product is installed from a wheel built for this run.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.runner import env
from tests.runner.env import CHECKOUT, TroubleError, say

# Present on every Debian, own no files and run nothing. Never nobody: its UID is the one that stands for
# "unknown" and that the product refuses.
_ACCOUNTS = ("games", "news", "uucp", "list", "irc", "lp")
_SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNWANTED = ("AMUX_", "LISTEN_", "NOTIFY_", "XDG_", "PYTHON", "PYTEST_", "MAKE", "MFLAGS", "VIRTUAL_ENV")


@dataclass
class Place:
    """One arrangement to run tests in: sources, interpreter, account, directories."""

    source: Path
    python: Path
    tmp: Path
    cache: Path
    environment: dict[str, str]
    account: pwd.struct_passwd | None = None
    interpreter: str = sys.executable
    prefix: list[str] = field(default_factory=list)

    @property
    def who(self) -> str:
        if self.account:
            return self.account.pw_name
        try:
            return pwd.getpwuid(os.geteuid()).pw_name
        except KeyError:
            return f"UID {os.geteuid()}"


class Run:
    """The directories of one run; `close` removes them, and a later run removes those of a killed one."""

    def __init__(self) -> None:
        self.base = env.base_directory()
        _sweep(self.base)
        self.directory = Path(tempfile.mkdtemp(prefix="run-", dir=self.base))
        self.directory.chmod(0o755)
        self._lock = (self.directory / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def close(self) -> None:
        _remove(self.directory)
        self._lock.close()

    def temporary(self, account: pwd.struct_passwd | None) -> Path:
        """A home and temporary directory, mode 0700, of `account`; removed with the run."""
        # Short, because the path of a Unix socket has 107 bytes.
        path = Path(tempfile.mkdtemp(prefix="amux-", dir="/tmp"))
        with (self.directory / "temporary").open("a") as names:
            names.write(f"{path}\n")
        if account:
            os.chown(path, account.pw_uid, account.pw_gid)
        return path

    def place(self) -> Place:
        """The main place, with the interpreter that runs this."""
        root = os.geteuid() == 0
        account = _account() if root else None
        source = _stage(self.directory / "src") if root else CHECKOUT
        interpreter = sys.executable
        dependencies = env.locked(self.base / env.shared_name(interpreter)) if root else env.development()
        python = env.overlay(dependencies, source, self.directory / "env")
        tmp = self.temporary(account)
        cache = self.base / (f"tests-{account.pw_name}" if account else "tests")
        cache.mkdir(exist_ok=True)
        if account:
            os.chown(cache, account.pw_uid, account.pw_gid)
        environment = _environment(python, dependencies, tmp, cache, root)
        place = Place(source, python, tmp, cache, environment, account, interpreter)
        place.prefix = _reach(interpreter, account)
        return place

    def as_root(self, place: Place) -> Place:
        """The same sources and product, without giving up root; a home and temporary directory of its own."""
        tmp = self.temporary(None)
        tmp.chmod(0o711)  # other accounts reach the sockets in it that a test opens to them
        environment = {**place.environment, **_homes(tmp)}
        return replace(place, account=None, tmp=tmp, prefix=[], environment=environment)

    def second(self, place: Place, interpreter: str) -> Place:
        """The same with another interpreter: its own locked packages, its own installation of the product."""
        dependencies = env.locked(self.base / env.shared_name(interpreter), interpreter)
        directory = self.directory / f"env-{Path(interpreter).name}"
        python = env.overlay(dependencies, place.source, directory, interpreter)
        environment = dict(place.environment)
        environment["PATH"] = f"{python.parent}:{dependencies.parent}:{environment['PATH']}"
        reach = _reach(interpreter, place.account)
        return replace(place, python=python, interpreter=interpreter, prefix=reach, environment=environment)


def newer_interpreter() -> str | None:
    """The newest Python of this machine if it is newer than the running one: on PATH, of pyenv or of uv."""
    patterns = ("~/.pyenv/versions/*/bin/python3", "~/.local/share/uv/python/*/bin/python3")
    candidates = [str(path) for pattern in patterns for path in _glob(pattern)]
    candidates += [found for minor in range(12, 20) if (found := shutil.which(f"python3.{minor}"))]
    best: tuple[tuple[int, ...], str] | None = None
    code = "import ensurepip, sys; print(*sys.version_info[:3], sys.executable)"
    for candidate in candidates:
        done = subprocess.run([candidate, "-I", "-c", code], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            continue
        major, minor, micro, path = done.stdout.strip().split(" ", 3)
        version = (int(major), int(minor), int(micro))
        if version[:2] > sys.version_info[:2] and (best is None or version > best[0]):
            best = (version, path)
    return best[1] if best else None


def _glob(pattern: str) -> list[Path]:
    path = Path(pattern).expanduser()
    return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))


def _account() -> pwd.struct_passwd:
    for name in _ACCOUNTS:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        if found.pw_uid not in (0, 65534) and not _has_processes(found.pw_uid):
            return found
    names = ", ".join(_ACCOUNTS)
    raise TroubleError(f"as root most tests run as a system account, and none of {names} is there and idle")


def _has_processes(uid: int) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if entry.stat().st_uid == uid:
                    return True
            except FileNotFoundError:
                continue
    return False


def _stage(target: Path) -> Path:
    """A copy of the files that git knows or would add; the account may be unable to enter the checkout."""
    git = ["git", "-c", "safe.directory=*", "-C", str(CHECKOUT), "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(git, capture_output=True, check=False) if shutil.which("git") else None
    if listed is None or listed.returncode != 0:
        # No git, or an unpacked archive: everything but what our own commands leave behind.
        shutil.copytree(CHECKOUT, target, symlinks=True, ignore=shutil.ignore_patterns(*_left_behind()))
    else:
        for name in sorted(filter(None, os.fsdecode(listed.stdout).split("\0"))):
            if (CHECKOUT / name).is_file():
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(CHECKOUT / name, target / name)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or _executable(path) else 0o644)
    return target


def _executable(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o100)


def _left_behind() -> list[str]:
    lines = (CHECKOUT / ".gitignore").read_text(encoding="utf-8").split()
    return [".git", *(line.strip("/") for line in lines if not line.startswith("#"))]


def _homes(tmp: Path) -> dict[str, str]:
    return {
        "HOME": str(tmp),
        "TMPDIR": str(tmp),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(tmp / "hypothesis"),
    }


def _environment(python: Path, dependencies: Path, tmp: Path, cache: Path, root: bool) -> dict[str, str]:
    """The caller's environment (pip's and npm's settings stand there), less what would mislead."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_UNWANTED)}
    path = _SYSTEM_PATH if root else os.environ.get("PATH", _SYSTEM_PATH)
    kept.update(_homes(tmp))
    kept["PATH"] = f"{python.parent}:{dependencies.parent}:{path}"
    kept["AMUX_TESTS_CACHE"] = str(cache)
    kept["MYPY_CACHE_DIR"] = str(cache / "mypy")
    kept["RUFF_CACHE_DIR"] = str(cache / "ruff")
    if images := os.environ.get("AMUX_TESTS_IMAGES"):
        kept["AMUX_TESTS_IMAGES"] = images
    kept["npm_config_cache"] = str(cache / "npm-cache")
    if root:
        kept["AMUX_TESTS_REQUIRE_ALL"] = "1"
        kept.update(_npm_settings())
    if os.environ.get("AMUX_TESTS_REQUIRE_ALL") == "1":
        kept["AMUX_TESTS_REQUIRE_ALL"] = "1"
    return kept


def _npm_settings() -> dict[str, str]:
    """Where npm fetches from and whom it trusts, as root's settings say: the account has another home."""
    if shutil.which("npm") is None:
        return {}
    found = {}
    for key in ("registry", "cafile"):
        done = subprocess.run(["npm", "config", "get", key], capture_output=True, text=True, check=False)
        value = done.stdout.strip()
        if done.returncode == 0 and value not in ("", "null", "undefined"):
            found[f"npm_config_{key}"] = value
    return found


def _reach(interpreter: str, account: pwd.struct_passwd | None) -> list[str]:
    """A command prefix under which `account` reaches an interpreter inside a directory that is closed to it.

    A pyenv of root stands under /root, mode 0700, and cannot be moved. In a mount namespace of its own the
    closed directory is an empty one that everybody may enter, with nothing but that interpreter in it.
    """
    if account is None:
        return []
    probe = [interpreter, "-I", "-c", "import sys; print(sys.base_prefix)"]
    home = Path(subprocess.run(probe, capture_output=True, text=True, check=True).stdout.strip())
    closed = [p for p in reversed([home, *home.parents]) if not p.stat().st_mode & 0o001]
    if not closed:
        return []
    script = (
        'set -e; exec 9<"$1"; mount -t tmpfs -o mode=0755 tmpfs "$2"; mkdir -p "$1"; '
        'mount --no-canonicalize --bind /proc/self/fd/9 "$1"; exec 9<&-; shift 2; exec "$@"'
    )
    arguments = [script, "sh", str(home), str(closed[0])]
    unshare = ["unshare", "--mount", "--propagation", "private", "sh", "-c", *arguments]
    drop = ["setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", "--"]
    command = [*unshare, *drop, interpreter, "-I", "-c", "pass"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise TroubleError(f"{account.pw_name} cannot run {interpreter}: {done.stderr.strip()}")
    say(f"{interpreter} is closed to {account.pw_name}: mounted for it in a namespace of its own")
    return [*unshare, *drop]


def _sweep(base: Path) -> None:
    """Remove the directories of runs that were killed: those whose lock nobody holds."""
    for directory in base.glob("run-*"):
        try:
            with (directory / "lock").open("r+") as handle:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(directory)
        except (FileNotFoundError, BlockingIOError):
            continue


def _remove(directory: Path) -> None:
    """A run's directory, and the temporary ones that it names."""
    names = directory / "temporary"
    for name in names.read_text().split() if names.exists() else []:
        shutil.rmtree(name, ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
