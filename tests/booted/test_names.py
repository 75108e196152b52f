"""Accounts as a directory service names them (SSSD, winbind) and useradd(8) refuses: by name through every part."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.booted.system import BASE, HOME, QUICK, System, digest

PLAIN = ("user@corp.example", "CORP\\user", "J.R.Smith", "Given.Name@CORP.EXAMPLE", "domain users$", "Ärztin", "%n")
UNFIT = ("corp/user", "esc\x1b[31mname", "line\u2028end", b"l\xe4tin-1")
FIRST = 21000

Names = Callable[..., list[int]]


@pytest.fixture
def names(system: System) -> Iterator[Names]:
    """`names(*names, first=UID)`: accounts with these names and no others; their UIDs. As they were after the test."""
    files = {path: system.machine.get(path) for path in ("/etc/passwd", "/etc/shadow")}

    def make(*given: str | bytes, first: int = FIRST) -> list[int]:
        users, shadows = [], []
        for uid, name in enumerate(given, first):
            raw = name if isinstance(name, bytes) else name.encode()
            users.append(raw + b":x:%d:100:Corp:/nonexistent:/bin/sh\n" % uid)
            shadows.append(raw + b":*:19000:0:99999:7:::\n")
        system.machine.put(files["/etc/passwd"] + b"".join(users), "/etc/passwd")
        system.machine.put(files["/etc/shadow"] + b"".join(shadows), "/etc/shadow", 0o640, "root:shadow")
        return list(range(first, first + len(given)))

    yield make
    system.machine.put(files["/etc/passwd"], "/etc/passwd")
    system.machine.put(files["/etc/shadow"], "/etc/shadow", 0o640, "root:shadow")


def test_names_of_a_directory_service_are_principals_as_they_are(system: System, names: Names) -> None:
    uids = dict(zip(PLAIN, names(*PLAIN), strict=True))
    for name, uid in uids.items():
        system.write(uid, "a.md", f"of {name}\n")
        who = system.who(uid)
        assert (who["account"], who["principal"], who["scope"]) == (name, name, f"principal:{name}")
    for name, uid in uids.items():
        bound = system.call(uid, "Get", path="a.md", session="s1", binding=f"principal:{name}")
        assert bound["content"] == f"of {name}\n"
    assert set(system.tree()) == {f"./users/{digest(name)}/a.md" for name in PLAIN}
    assert sorted(system.principals()) == sorted(PLAIN)
    assert {one["principal"] for one in system.admin("usage")["usage"]} == {"global", *PLAIN}
    shown = system.admin("principals", "show", "CORP\\user")["accounts"]
    assert shown == [{"name": "CORP\\user", "uid": uids["CORP\\user"], "by": "self"}]
    report = json.loads(system.machine.run("amux", "doctor", "--json", check=False).stdout)
    assert [one["findings"] for one in report["checks"] if one["outcome"] in ("problem", "warning")] == []
    # In both audits each name stands whole in its field, and a record is one line.
    for name, uid in uids.items():
        record = system.audited("upsert", uid=str(uid))
        assert (record["AMUX_ACCOUNT"], record["AMUX_PRINCIPAL"]) == (name, name)
        (verdict, *_) = system.machine.journal("-u", "amux-pam", f"AMUX_UID={uid}")
        assert verdict["AMUX_CLASS"] == "allow" and "\n" not in verdict["MESSAGE"]


def test_an_administrator_decides_about_such_names(system: System, names: Names) -> None:
    corp, user = "CORP\\user", "user@corp.example"
    old, other = names(corp, user)
    system.write(old, "a.md", "hers\n")
    new, other = names(corp, user, first=FIRST + 10)
    system.reload()
    told = system.refusal(new)
    assert told.code == "IdentityRefused" and corp in told.parameters["message"]
    assert system.admin("principals", "rebind", corp, str(old), str(new))["accounts"][0]["uid"] == new
    assert system.read(new, "a.md") == "hers\n"
    assert system.audited("rebind", principal=corp)["AMUX_ACCOUNT"] == corp
    system.configure(BASE + QUICK + "  aliases:\n    user@corp.example: 'CORP\\user'\n")
    assert system.read(other, "a.md") == "hers\n"
    assert system.who(other)["principal"] == corp
    system.admin("principals", "retire", corp)
    assert system.admin("principals", "purge", "--yes", corp)["memory_removed"] is True
    assert system.principals() == [] and system.tree() == {}


def test_names_that_can_be_no_principal_are_refused_and_leave_nothing(system: System, names: Names) -> None:
    uids = names(*UNFIT)
    for told in map(system.refusal, uids):
        assert told.code == "IdentityRefused", told
        assert told.parameters["message"].isprintable()
    for uid in uids:
        record = system.audited("identify", uid=str(uid), outcome="identity_refused")
        assert str(record["MESSAGE"]).isprintable()
    assert system.principals() == []
    assert system.machine.run("find", f"{HOME}/registry", "-type", "f").stdout == ""
