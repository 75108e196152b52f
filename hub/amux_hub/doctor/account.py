"""The account that a system Hub runs as."""

from __future__ import annotations

import grp
import os
import pwd

from amux_hub import accounts
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, shell
from amux_hub.doctor.host import Host

_CLOSED = ("nologin", "false")


def _account(host: Host, findings: Findings) -> str:
    host.need_system()
    name = host.account
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        fix = f"{host.sudo}systemd-sysusers"
        findings.problem("missing", name, "no such account, or the name service failed", "a system account", fix)
        return "missing"
    if not accounts.is_system(entry.pw_uid, accounts.uid_min()):
        findings.warning("person", name, f"UID {entry.pw_uid}", "a UID of the system", "make it anew below UID_MIN")
    if os.path.basename(entry.pw_shell) not in _CLOSED:
        fix = f"{host.sudo}usermod -s /usr/sbin/nologin {shell(name)}"
        findings.warning("shell", name, f"shell {entry.pw_shell}", "/usr/sbin/nologin", fix)
    for group in os.getgrouplist(name, entry.pw_gid):
        if group == entry.pw_gid:
            continue
        try:
            called = grp.getgrgid(group).gr_name
        except KeyError:
            called = str(group)
        fix = f"{host.sudo}gpasswd -d {shell(name)} {shell(called)}"
        findings.warning("group", name, f"member of the group {called}", "no group but its own", fix)
    return f"{name}, UID {entry.pw_uid}"


CHECKS = (Check("account", _account),)
