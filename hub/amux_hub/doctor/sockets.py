"""The sockets of the Hub: what they are, whose, who listens, whether it answers."""

from __future__ import annotations

import os
import stat

from amux_hub.doctor import talk
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError, shell
from amux_hub.doctor.host import Host

_NAMES = ("hub", "mcp", "admin")
_MODES = {"hub": 0o666, "mcp": 0o666, "admin": 0o600}


def _sockets(host: Host, findings: Findings) -> str:
    paths = {name: str(host.config[f"sockets.{name}"]) for name in _NAMES}
    there = {name: path for name, path in paths.items() if path and _look(name, path, host, findings)}
    if not there:
        return "no Hub runs"
    asleep = ""
    try:
        host.need_awake()
    except SkippedError as reason:
        asleep = f"not asked: {reason}"
    answers = [] if asleep else [name for name, path in there.items() if _asked(name, path, host, findings)]
    return asleep or f"{', '.join(answers) or 'none'} answers"


def _look(name: str, path: str, host: Host, findings: Findings) -> bool:
    """Whether something listens there that may be asked."""
    unit = f"{host.sudo}systemctl restart amux-{name}.socket"
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        if host.system:
            findings.problem("missing", path, "no such file", "a socket of systemd's", unit)
        elif name == "hub":
            findings.note("missing", path, "no Hub runs", "", "amux-hub")
        return False
    except PermissionError:
        findings.unseen(path, "its directory is closed to this account")
        return False
    if not stat.S_ISSOCK(status.st_mode):
        fix = f"{host.own_sudo}mv -- {shell(path)} {shell(path + '.old')}, then: {unit if host.system else 'amux-hub'}"
        findings.problem("type", path, "no socket", "a socket", fix)
        return False
    owner = host.root if host.system else host.euid
    if status.st_uid != owner:
        fix = f"find out who put it there, then: {unit if host.system else host.restart}"
        findings.problem("owner", path, f"owner UID {status.st_uid}", f"UID {owner}", fix)
        return False
    mode, wanted = stat.S_IMODE(status.st_mode), _MODES[name] if host.system else 0o600
    if mode != wanted:
        fix = unit if host.system else f"chmod {wanted:o} {shell(path)}"
        findings.problem("mode", path, f"mode {mode:04o}", f"{wanted:04o}", fix)
    return True


def _asked(name: str, path: str, host: Host, findings: Findings) -> bool:
    if name == "admin" and host.system and host.euid != host.root:
        findings.unseen(path, "only root may open it")
        return False
    try:
        if name == "mcp":
            listener = talk.leave(path)
        else:
            listener, _ = talk.call(path, "org.varlink.service.GetInfo")
    except PermissionError:
        findings.unseen(path, "this account may not open it")
        return False
    except (OSError, ValueError) as error:
        if isinstance(error, ConnectionRefusedError) and not host.system:
            findings.note("stopped", path, "left by a Hub that is gone", "", "amux-hub")
            return False
        what = "nobody listens" if isinstance(error, ConnectionRefusedError) else f"no answer ({type(error).__name__})"
        wanted = f"an answer within {talk.SECONDS:g} s"
        fix = f"{host.sudo}systemctl restart amux-hub.socket amux-hub" if host.system else "amux-hub"
        findings.problem("answer", path, what, wanted, fix)
        return False
    owner = host.root if host.system else host.euid
    if listener != owner:
        found = f"UID {listener} listens"
        findings.problem("listener", path, found, f"UID {owner}", f"find out who that is: ss -xlp src {shell(path)}")
        return False
    return True


CHECKS = (Check("sockets", _sockets, 30),)
