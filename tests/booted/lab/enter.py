"""Command prefixes that lead into a booted container. All of them are for root.

`nsenter` joins every namespace of the container's PID 1 but not its cgroup, seccomp filter or capability bounds: what
is to be confined as on a real host runs in a unit.
"""

from __future__ import annotations

from collections.abc import Mapping

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The account's own environment and groups, as a login gives them; no PAM, no shell in between: signals come through.
_BECOME = (
    'exec env HOME="$(getent passwd "$0" | cut -d: -f6)" USER="$0" LOGNAME="$0" '
    'setpriv --reuid="$0" --regid="$(id -g "$0")" --init-groups -- "$@"'
)


def inside(leader: int, environment: Mapping[str, str] | None = None, directory: str = "/") -> list[str]:
    """As root; the environment is a clean one and `environment`."""
    variables = {"PATH": _PATH, "LANG": "C.UTF-8", "HOME": "/root", "USER": "root", **(environment or {})}
    enter = ["nsenter", "-t", str(leader), "-m", "-u", "-i", "-n", "-p", "-C", "--root"]
    # Not nsenter --wd: util-linux 2.38 takes the outer directory for it.
    return [*enter, "env", "-C", directory, "-i", *(f"{key}={value}" for key, value in variables.items())]


def become(user: str | int | None) -> list[str]:
    """To an account by name, or to a bare UID (and the same GID, no groups) that need not have one."""
    if user is None:
        return []
    if isinstance(user, int):
        return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]
    return ["sh", "-c", _BECOME, user]


def outside(supervisor: int) -> list[str]:
    """The other end of the wire: the host's files, the network that reaches the container."""
    return ["nsenter", "-t", str(supervisor), "-n", "--"]
