"""The accounts that hub.yaml names: a line about an account that does not exist does nothing, and nobody is told."""

from __future__ import annotations

import time

from amux.errors import AmuxError
from amux_hub import accounts
from amux_hub.doctor.check import Check
from amux_hub.doctor.finding import Findings, count, shell
from amux_hub.doctor.host import Host

_NAMES_SECONDS = 30.0


def _people(host: Host, findings: Findings) -> str:
    host.need_system()
    until = time.monotonic() + _NAMES_SECONDS
    named = [("identity.aliases", name) for name in sorted(host.config["identity.aliases"])]
    named += [("identity.services", name) for name in sorted(set(host.config["identity.services"]))]
    for done, (key, name) in enumerate(named):
        if time.monotonic() > until:
            why = f"the name service is slow: {_NAMES_SECONDS:g} s were over"
            findings.unseen(count(len(named) - done, "account"), why)
            break
        _look(key, name, host, findings)
    return f"{count(len(named), 'account')} named in {host.config.file}"


def _look(key: str, name: str, host: Host, findings: Findings) -> None:
    what = f"{host.config.file}, {key}: {name}"
    reload = f"{host.sudo}systemctl reload amux-hub"
    try:
        account = accounts.account_named(name)
    except AmuxError as error:
        if error.code == "identity_unavailable":
            why = "the name service failed: nothing is known about this account"
            findings.unseen(what, why, f"getent passwd -- {shell(name)}")
        else:
            findings.warning("name", what, error.message, "a name in UTF-8")
        return
    if account is None:
        found = "no such account: the line does nothing"
        fix = f"correct or remove the name in {shell(host.config.file)}, then: {reload}; or make the account"
        findings.warning("missing", what, found, "an account of this host", fix)
    elif account.name != name:  # a directory that does not tell case apart; the Hub does
        fix = f"write {shell(account.name)} in {shell(host.config.file)}, then: {reload}"
        findings.warning("spelled", what, f"the account is called {account.name}: the line does nothing", "", fix)


CHECKS = (Check("people", _people, _NAMES_SECONDS + 30),)
