"""What the checks look at: the Hub that is meant, its places, its account, and what several checks need alike."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from amux_hub import config as configuration
from amux_hub.config import Config, ConfigError, Problem
from amux_hub.doctor import registered, survey, systemd, talk
from amux_hub.doctor.finding import SkippedError
from amux_hub.registry import record as records

ACCOUNT = "amux"


@dataclass(frozen=True)
class Places:
    """Where a system Hub has what; tests have theirs elsewhere."""

    runtime: str = "/run/amux"
    etc: str = "/etc/amux"
    library: str = "/usr/lib/amux"
    program: str = "/usr/bin/amux"
    pam_file: str = "/etc/pam.d/amux"
    pam_socket: str = "/run/amux/pam.sock"
    launch_socket: str = "/run/amux/launch.sock"
    launch_bin: str = "/usr/lib/amux/launch-bin"
    launches: str = "/run/amux-launches"
    proc: str = "/proc"
    booted: str = "/run/systemd/system"
    """Exists where systemd runs, sd_booted(3)."""
    systemctl: str | None = field(default_factory=lambda: shutil.which("systemctl"))


@dataclass
class Host:
    """`config` holds what is right in the configuration, `problems` what is not; `unseen` is a file not readable."""

    config: Config
    problems: list[Problem] = field(default_factory=list)
    unseen: str = ""
    account: str = ACCOUNT
    places: Places = field(default_factory=Places)
    euid: int = field(default_factory=os.geteuid)
    root: int = 0
    _known: dict[str, Any] = field(default_factory=dict)

    def _once(self, what: str, find: Callable[[], Any]) -> Any:
        """What `find` answered or raised the first time. While that does not end, other checks do not wait for it."""
        if what not in self._known:
            self._known[what] = SkippedError(f"{what}: no answer yet")
            try:
                self._known[what] = find()
            except Exception as error:  # noqa: BLE001 - kept, and raised below
                self._known[what] = error
        found = self._known[what]
        if isinstance(found, Exception):
            raise found
        return found

    @property
    def system(self) -> bool:
        return self.config.system

    @property
    def home(self) -> str:
        return str(self.config["home"])

    @cached_property
    def owner(self) -> int | None:
        """The UID that a Hub of this home runs as, None if the account is missing."""
        if not self.system:
            return self.euid
        try:
            return pwd.getpwnam(self.account).pw_uid
        except KeyError:
            return None

    @property
    def owner_name(self) -> str:
        if self.system:
            return self.account
        try:
            return pwd.getpwuid(self.euid).pw_name
        except KeyError:
            return str(self.euid)

    def need_owner(self) -> int:
        """The Hub's UID. Raises SkippedError without the account."""
        if self.owner is None:
            raise SkippedError(f"there is no account {self.account} to compare with")
        return self.owner

    def need_home(self) -> str:
        """The home, for a check that looks into it. Raises SkippedError if that is not ours to see, or not there."""
        self.need_owner()
        self.need_privilege("look into " + self.home)
        if not os.path.isdir(self.home):
            raise SkippedError(f"{self.home} does not exist yet: the first start makes it")
        return self.home

    def need_privilege(self, what: str) -> None:
        if self.euid not in (self.root, self.owner):
            raise SkippedError(f"only root and {self.owner_name} may {what}")

    def need_system(self) -> None:
        if not self.system:
            raise SkippedError("a private Hub has none")

    @property
    def sudo(self) -> str:
        """What a command of root begins with."""
        return "" if self.euid == 0 else "sudo "

    @property
    def own_sudo(self) -> str:
        """The same for the Hub's own files, which its account may change itself."""
        return "" if self.euid == self.owner else self.sudo

    @property
    def restart(self) -> str:
        return f"{self.sudo}systemctl restart amux-hub" if self.system else "stop amux-hub with Ctrl-C and run it again"

    @property
    def units(self) -> dict[str, systemd.Unit]:
        """The units by name. Raises SkippedError where systemd does not run."""
        self.need_system()
        systemctl = self.places.systemctl if os.path.isdir(self.places.booted) else None
        found: dict[str, systemd.Unit] = self._once("systemctl", lambda: systemd.units(systemctl))
        return found

    @property
    def running(self) -> talk.Running:
        """What the Hub says of itself, asked once, never waking it up.

        Raises SkippedError if there is none to ask, OSError or ValueError if it does not answer.
        """
        found: talk.Running = self._once("the running Hub", self._running)
        return found

    def _running(self) -> talk.Running:
        path = str(self.config["sockets.hub"])
        if not present(path):
            raise SkippedError(f"no Hub runs: nothing is at {path}")
        self.need_awake()
        # The Hub's own account is not served by it.
        return talk.running(path, served=not self.system or self.euid == self.root or self.euid != self.owner)

    def need_awake(self) -> None:
        """Raises SkippedError if systemd holds the sockets of a Hub that does not run: connecting would start it."""
        try:
            unit = self.units.get("amux-hub.service")
        except SkippedError:
            return
        if unit is not None and unit.active in ("inactive", "failed", "deactivating"):
            raise SkippedError(f"amux-hub.service is {unit.active}: connecting would start it")
        if unit is not None and unit.restarting:
            raise SkippedError("amux-hub.service does not start")

    @property
    def registry(self) -> registered.Registered:
        """The registry as it lies on disk."""
        home, owner = self.need_home(), self.need_owner()
        found: registered.Registered = self._once(
            "the registry", lambda: registered.read(home, owner, self.own_sudo, self.account)
        )
        return found

    @property
    def walked(self) -> survey.Survey:
        """One walk over the memory, for all checks of it."""
        found: survey.Survey = self._once("the walk over the memory", self._walk)
        return found

    def _walk(self) -> survey.Survey:
        home = self.need_home()
        if self.system:
            principals = self.registry.by_directory()
        else:
            principals = {records.file_name(self.owner_name).removesuffix(".json"): self.owner_name}
        serving = bool(survey.lock_holders(self.places.proc, os.path.join(home, "memory", survey.LOCK)))
        owner = self.need_owner()
        subject = survey.Subject(home, owner, self.owner_name, self.own_sudo, self.sudo, principals, serving)
        try:
            return survey.take(subject)
        except FileNotFoundError:
            return survey.Survey()


def present(path: str) -> bool:
    """Whether something has this name. Raises PermissionError where that may not be known, unlike `os.path`."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def load(file: str | None, env: dict[str, str], *, system: bool) -> Host:
    """The host with the configuration that a Hub would use, as far as it is right and may be read."""
    try:
        return Host(configuration.load(file, env, system=system))
    except ConfigError as error:
        problems = list(error.problems)
    env = {} if system else env
    name = file or (configuration.SYSTEM_FILE if system else configuration.default_file(env))
    pinned = configuration.read(name, [], missing_ok=True)
    config = Config(name, pinned, {}, env, file is not None, system)
    settings = os.path.join(str(config["home"]), configuration.SETTINGS_NAME)
    saved = configuration.read(settings, [], missing_ok=True, savable_only=True)
    host = Host(Config(name, pinned, saved, env, file is not None, system), problems)
    if system and host.euid not in (0, host.owner) and not _readable(settings):
        host.problems = [problem for problem in problems if problem.file != settings]
        host.unseen = settings
    return host


def _readable(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:
        return True
    return True
