"""What stands in an image of a suite; its digest names the image, so that a changed recipe makes a new one."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass

SUITES = {"bookworm": "Debian 12", "trixie": "Debian 13"}

_SYSTEM = ("systemd", "systemd-sysv", "dbus", "libpam-systemd", "libnss-systemd", "passwd", "adduser", "login")
_PRODUCT = ("python3", "libpam0g", "init-system-helpers")
"""What a package of the product depends on: a booted system has no network to fetch it from."""
_TOOLS = ("python3-apt", "openssh-server", "sudo", "acl", "procps", "iproute2", "strace", "socat", "uidmap")
"""What tests use inside: Ansible (python3-apt), logins, other users, what may be reached."""

# Nobody reads pages or translations in there; copyright files stay, because dpkg checks belong to them.
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*/*", "/usr/share/info/*")

# Each machine makes a host key of its own before sshd starts, or all would share one.
_SSH_KEY = """[Service]
ExecStartPre=
ExecStartPre=/bin/sh -c 'cd /etc/ssh; test -e ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N "" -f ssh_host_ed25519_key'
ExecStartPre=/usr/sbin/sshd -t
"""  # noqa: E501

# A prompt on a console that nobody sees, and the periodic work of a real host, only add noise to what a test sees.
_MASKED = (
    *("console-getty.service", "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer"),
    *("fstrim.timer", "dpkg-db-backup.timer"),
)

# Hooks of mmdebstrap(1), shell; $1 is the image. apt's lists are of no use without a network.
_FINISH = (
    'cd "$1"; rm -f etc/ssh/ssh_host_* etc/resolv.conf etc/hostname etc/apt/apt.conf.d/99mmdebstrap; : >etc/machine-id',
    'cd "$1"; rm -rf var/lib/apt/lists/* var/cache/apt/*.bin',
    f'cd "$1"/etc/systemd/system; for unit in {" ".join(_MASKED)}; do ln -sf /dev/null $unit; done',
    f'cd "$1"/etc/systemd/system; mkdir -p ssh.service.d; printf %s {shlex.quote(_SSH_KEY)} >ssh.service.d/key.conf',
)


@dataclass(frozen=True)
class Recipe:
    """All that decides what an image holds, but for the archive's state on the day it is built."""

    suite: str
    packages: tuple[str, ...]
    left_out: tuple[str, ...] = _LEFT_OUT
    finish: tuple[str, ...] = _FINISH

    @property
    def name(self) -> str:
        """`bookworm-` and 12 hexadecimal digits."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.suite}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def recipe(suite: str) -> Recipe:
    """The recipe of a suite; `KeyError` for one that is not tested."""
    _ = SUITES[suite]
    return Recipe(suite, (*_SYSTEM, *_PRODUCT, *_TOOLS))
