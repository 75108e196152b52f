"""The account stack that decides about people: its service file (P6), and the helper that asks it."""

from __future__ import annotations

import os
import re
import stat

from amux_hub.doctor import talk
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, SkippedError, shell
from amux_hub.doctor.host import Host, present
from amux_hub.verdicts import ALLOW, ANSWER_SECONDS, REFUSALS, UNAVAILABLE

FIRST = "account [acct_expired=bad new_authtok_reqd=bad authtok_expired=bad default=ignore] pam_unix.so"
"""Asked first, so that "expired" keeps its class: common-account alone makes a plain denial of it."""

_CONTROLS = {"acct_expired=bad", "new_authtok_reqd=bad", "authtok_expired=bad", "default=ignore"}
_RULE = re.compile(r"-?(?P<type>\w+)\s+(?P<control>\[[^\]]*\]|\S+)\s+(?P<module>\S+)")
_FILE_BYTES = 64 * 1024


def _service_file(host: Host, findings: Findings) -> str:
    host.need_system()
    path = host.places.pam_file
    again = f"{host.sudo}apt-get install --reinstall -o Dpkg::Options::=--force-confmiss amux-hub"
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        findings.problem("missing", path, "no such file: PAM would ask the stack `other`", "the shipped file", again)
        return "missing"
    if not stat.S_ISREG(status.st_mode):
        findings.problem("kind", path, "no regular file", "a regular file", again)
        return "unfit"
    if status.st_uid != host.root:
        fix = f"{host.sudo}chown root:root -- {shell(path)}"
        findings.problem("owner", path, f"owner UID {status.st_uid}", "root", fix)
    if (mode := stat.S_IMODE(status.st_mode)) & 0o022:
        findings.problem("mode", path, f"mode {mode:04o}", "0644", f"{host.sudo}chmod 0644 -- {shell(path)}")
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        text = os.read(fd, _FILE_BYTES).decode(errors="replace")
    finally:
        os.close(fd)
    first, further = account_rules(text)
    if not _is_first(first):
        findings.problem("first", f"{path}, first account rule", first or "none", FIRST, f"{host.sudo}editor {path}")
    if not further:
        wanted = "@include common-account, or the like"
        findings.problem("alone", path, "no account rule after the first", wanted, f"{host.sudo}editor {path}")
    return path


def account_rules(text: str) -> tuple[str, int]:
    """The first rule about accounts, an include counting as one, and how many follow; pam.conf(5) has the syntax."""
    rules = []
    for line in text.replace("\\\n", " ").splitlines():
        rule = " ".join(line.partition("#")[0].split())
        if rule.startswith("@include ") or rule.lstrip("-").lower().startswith("account "):
            rules.append(rule)
    return (rules[0], len(rules) - 1) if rules else ("", 0)


def _is_first(rule: str) -> bool:
    found = _RULE.match(rule)
    if found is None or found["type"].lower() != "account" or rule.startswith("-"):
        return False
    controls = set(found["control"].strip("[]").split())
    return controls == _CONTROLS and os.path.basename(found["module"]) == "pam_unix.so"


def _helper(host: Host, findings: Findings) -> str:
    host.need_system()
    owner = host.need_owner()
    host.need_privilege("ask amux-pam")
    path = host.places.pam_socket
    restart = f"{host.sudo}systemctl restart amux-pam.socket amux-pam"
    try:
        failed = host.units.get("amux-pam.service")
    except SkippedError:
        failed = None
    if failed is not None and failed.active == "failed":
        findings.problem("failed", path, f"amux-pam.service failed ({failed.result})", "running", restart)
        return "not asked"
    if not present(path):
        findings.problem("missing", path, "no such file", "a socket of systemd's", restart)
        return "missing"
    try:
        listener, answer = talk.exchange(path, b"%d\n" % owner, b"\n", ANSWER_SECONDS)
    except OSError as error:
        found = f"no answer ({error.strerror or type(error).__name__})"
        findings.problem("answer", path, found, f"a verdict within {ANSWER_SECONDS:g} s", restart)
        return "no answer"
    word = answer.decode("ascii", "replace")
    if listener != host.root:
        findings.problem("listener", path, f"UID {listener} listens", f"UID {host.root}", restart)
    if word == UNAVAILABLE:
        findings.problem("unavailable", path, "it could not ask PAM", "a verdict", "journalctl -u amux-pam -n 20")
    elif word != ALLOW and word not in REFUSALS:
        findings.problem("word", path, f"the answer {word[:32]!r}", "a verdict", restart)
    return f"it says of {host.account} (UID {owner}): {word[:32]}"


CHECKS = (Check("pam-file", _service_file), Check("pam-helper", _helper, 2 * ANSWER_SECONDS))
