"""The checks of the host: account, units, sockets, directories, PAM, disk, inotify."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from amux_hub.doctor import kernel
from amux_hub.doctor.pam import FIRST, account_rules
from tests.doctor.kit import Made, a_hub, answering, needs_an_ordinary_account, told

SHIPPED = f"# amux\n{FIRST}\n@include common-account\n"


def test_account(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made.run("account", account="lp").outcome == "ok"
    assert told(made.run("account", account="amux-none")) == {("problem", "missing")}
    assert ("warning", "shell") in told(made.run("account", account="root"))
    assert ("warning", "person") in told(made.run("account", account="nobody"))
    monkeypatch.setattr(os, "getgrouplist", lambda name, gid: [gid, 0])
    found = made.run("account", account="lp")
    assert found.findings[0].found == "member of the group root"
    assert "gpasswd -d lp root" in found.findings[0].fix


def test_without_systemd_the_units_are_skipped(made: Made) -> None:
    assert made.run("units").outcome == "skipped"


def test_units_as_they_should_be(made: Made) -> None:
    made.systemd()
    assert made.run("units").outcome == "ok"


@pytest.mark.parametrize(
    ("state", "wanted", "command"),
    [
        ({"LoadState": "not-found", "ActiveState": "inactive"}, ("problem", "missing"), "daemon-reload"),
        ({"LoadState": "masked"}, ("problem", "masked"), "unmask amux-hub.socket"),
        ({"LoadState": "bad-setting"}, ("problem", "load"), "status amux-hub.socket"),
        ({"ActiveState": "inactive"}, ("problem", "inactive"), "enable --now amux-hub.socket"),
        ({"UnitFileState": "disabled"}, ("warning", "disabled"), "enable amux-hub.socket"),
        ({"NeedDaemonReload": "yes"}, ("warning", "stale"), "daemon-reload"),
        ({"ActiveState": "failed", "Result": "resources"}, ("problem", "failed"), "reset-failed amux-hub.service"),
    ],
)
def test_a_socket_unit_that_is_not_as_it_should_be(
    made: Made, state: Mapping[str, str], wanted: tuple[str, str], command: str
) -> None:
    made.systemd(amux_hub_socket=state)
    found = made.run("units")
    assert told(found) == {wanted}
    assert command in found.findings[0].fix


@pytest.mark.parametrize("result", ["start-limit-hit", "service-start-limit-hit", "trigger-limit-hit"])
def test_c38_what_started_too_often_names_the_command(made: Made, result: str) -> None:
    made.systemd(amux_mcp_socket={"ActiveState": "failed", "Result": result})
    found = made.run("units")
    assert told(found) == {("problem", "limit")}
    units = "amux-hub.service amux-mcp.socket"
    prefix = "" if os.geteuid() == 0 else "sudo "
    assert found.findings[0].fix == f"{prefix}systemctl reset-failed {units} && {prefix}systemctl start {units}"


def test_a_service_that_waits_for_a_connection_is_a_note(made: Made) -> None:
    made.systemd(amux_pam_service={"ActiveState": "inactive"})
    assert told(made.run("units")) == {("note", "inactive")}


def test_c38_a_service_that_never_starts(made: Made) -> None:
    made.systemd(amux_hub_service={"ActiveState": "activating", "Result": "exit-code"})
    found = made.run("units")
    assert told(found) == {("problem", "restarting")}
    assert "journalctl -u amux-hub -n 20" in found.findings[0].fix
    with answering(made.runtime / "hub.sock", a_hub()) as seen:
        made.run("versions")
    assert seen == []
    made.systemd(amux_hub_service={"ActiveState": "activating", "NRestarts": "3"})
    assert told(made.run("units")) == {("problem", "restarting")}
    made.systemd(amux_hub_service={"ActiveState": "activating", "Result": "success", "NRestarts": "0"})
    assert made.run("units").outcome == "ok"


def test_systemctl_that_fails_is_no_fault(made: Made) -> None:
    made.systemd()
    Path(str(made.places.systemctl)).write_text("#!/bin/sh\necho no bus >&2\nexit 1\n")
    found = made.run("units")
    assert (found.outcome, "no bus" in found.summary) == ("skipped", True)


def test_sockets_that_answer(made: Made) -> None:
    run = made.runtime
    with (
        answering(run / "hub.sock", a_hub()),
        answering(run / "mcp.sock", a_hub()) as seen,
        answering(run / "admin.sock", a_hub(), 0o600),
    ):
        found = made.run("sockets")
    assert seen == [b""], "nothing is asked there that a Hub could refuse"
    assert (found.outcome, found.summary) == ("ok", "hub, mcp, admin answers")


def test_sockets_of_another_kind_mode_or_owner(made: Made) -> None:
    run = made.runtime
    (run / "mcp.sock").touch()
    with answering(run / "hub.sock", a_hub(), 0o600):
        found = made.run("sockets")
        assert told(found) == {("problem", "mode"), ("problem", "type"), ("problem", "missing")}
        stranger = made.run("sockets", root=os.geteuid() + 1)
    assert ("problem", "owner") in told(stranger)


def test_sockets_that_do_not_answer(made: Made) -> None:
    made.pinned |= {"sockets.mcp": "", "sockets.admin": ""}
    with answering(made.runtime / "hub.sock", lambda request: b"hello\0"):
        assert told(made.run("sockets")) == {("problem", "answer")}
    gone = socket.socket(socket.AF_UNIX)
    gone.bind(str(made.runtime / "hub.sock"))
    os.chmod(made.runtime / "hub.sock", 0o666)
    gone.close()
    found = made.run("sockets")
    assert (told(found), found.findings[0].found) == ({("problem", "answer")}, "nobody listens")


def test_sockets_of_a_private_hub_that_does_not_run(private: Made) -> None:
    assert told(private.run("sockets")) == {("note", "missing")}
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(private.runtime / "hub.sock"))
    os.chmod(private.runtime / "hub.sock", 0o600)
    left.close()
    assert told(private.run("sockets")) == {("note", "stopped")}


@pytest.mark.root
def test_s1_somebody_else_listens_behind_the_right_name(made: Made) -> None:
    made.pinned |= {"sockets.mcp": "", "sockets.admin": ""}
    with answering(made.runtime / "hub.sock", a_hub()):
        os.chown(made.runtime / "hub.sock", 4321, 4321)  # the file is theirs, who listens is not
        assert told(made.run("sockets", root=4321)) == {("problem", "listener")}


@needs_an_ordinary_account
def test_sockets_that_this_account_may_not_reach(made: Made) -> None:
    made.pinned["sockets.admin"] = ""
    with answering(made.runtime / "hub.sock", a_hub(), 0), answering(made.runtime / "mcp.sock", a_hub(), 0):
        assert ("skipped", "unseen") in told(made.run("sockets"))
        made.runtime.chmod(0)
        found = made.run("sockets")
        made.runtime.chmod(0o755)
    assert (told(found), len(found.findings)) == ({("skipped", "unseen")}, 2)


@needs_an_ordinary_account
def test_directories_that_this_account_may_not_look_at(made: Made) -> None:
    made.library.chmod(0)
    found = made.run("directories")
    made.library.chmod(0o755)
    assert ("skipped", "unseen") in told(found)


@needs_an_ordinary_account
def test_the_admin_socket_is_skipped_by_name_for_an_ordinary_user(made: Made) -> None:
    made.pinned["sockets.mcp"] = ""
    with answering(made.runtime / "hub.sock", a_hub()), answering(made.runtime / "admin.sock", a_hub(), 0o600):
        host = made.host()
        found = made.run("sockets", euid=host.euid + 1)
    assert told(found) == {("skipped", "unseen")}
    assert found.findings[0].what.endswith("admin.sock")


def test_directories_as_they_should_be(made: Made) -> None:
    assert made.run("directories").outcome == "ok"


def test_directories_of_a_private_hub(private: Made) -> None:
    assert private.run("directories").outcome == "ok"
    private.runtime.chmod(0o750)
    assert told(private.run("directories")) == {("problem", "mode")}
    private.runtime.chmod(0o700)
    private.directory.chmod(0o775)
    assert told(private.run("directories")) == {("warning", "writable")}
    private.directory.chmod(0o757)
    assert told(private.run("directories")) == {("problem", "writable")}


@pytest.mark.parametrize(
    ("name", "mode", "kind", "fix"),
    [
        ("home", 0o750, "mode", "chmod 0700 -- {}"),
        ("run", 0o775, "writable", "chmod go-w -- {}"),
        ("etc", 0o757, "writable", "chmod go-w -- {}"),
        ("lib/bin", 0o775, "writable", "chmod go-w -- {}"),
        ("lib/bin/amux-hub", 0o757, "writable", "chmod go-w -- {}"),
        ("", 0o775, "writable", "chmod go-w -- {}"),
    ],
)
def test_directories_that_others_may_change(made: Made, name: str, mode: int, kind: str, fix: str) -> None:
    path = made.directory / name
    path.chmod(mode)
    found = made.run("directories")
    assert told(found) == {("problem", kind)}
    assert (found.findings[0].what, found.findings[0].fix.endswith(fix.format(path))) == (str(path), True)


def test_directories_behind_a_link_are_looked_at_too(made: Made) -> None:
    real = made.directory / "real"
    made.library.rename(real)
    made.library.symlink_to(real)
    assert made.run("directories").outcome == "ok"
    real.chmod(0o775)
    assert [finding.what for finding in made.run("directories").findings] == [str(real)]


def test_directories_that_are_missing(made: Made) -> None:
    shutil.rmtree(made.library)
    made.runtime.rmdir()
    assert told(made.run("directories")) == {("problem", "missing")}
    shutil.rmtree(made.home)  # the first start makes it
    made.runtime.mkdir()
    assert not [one for one in made.run("directories").findings if one.what == str(made.home)]


@needs_an_ordinary_account
def test_directories_of_another_owner(made: Made) -> None:
    found = made.run("directories", root=0)
    assert ("problem", "owner") in told(found)
    assert str(made.directory) in [finding.what for finding in found.findings]


def test_a_home_of_another_owner_or_kind(made: Made) -> None:
    found = made.run("directories", account="lp")
    assert [finding.what for finding in found.findings] == [str(made.home)]
    assert told(found) == {("problem", "owner")}
    shutil.rmtree(made.home)
    made.home.touch()
    assert told(made.run("directories")) == {("problem", "kind")}


def test_p6_the_service_file_as_shipped(made: Made) -> None:
    made.pam_file.write_text(SHIPPED)
    made.pam_file.chmod(0o644)
    assert made.run("pam-file").outcome == "ok"


def test_p6_no_service_file_is_a_problem(made: Made) -> None:
    found = made.run("pam-file")
    assert told(found) == {("problem", "missing")}
    assert "`other`" in found.findings[0].found


@pytest.mark.parametrize(
    ("rules", "kinds"),
    [
        ("@include common-account\n" + FIRST, {"first"}),
        (FIRST, {"alone"}),
        ("", {"first", "alone"}),
        ("account required pam_permit.so\n" + SHIPPED, {"first"}),
        ("-" + SHIPPED.partition("\n")[2], {"first"}),
        (SHIPPED.replace("acct_expired=bad ", ""), {"first"}),
        (SHIPPED.replace("default=ignore", "default=bad"), {"first"}),
        (SHIPPED.replace("pam_unix.so", "pam_permit.so"), {"first"}),
    ],
)
def test_p6_another_first_account_rule(made: Made, rules: str, kinds: set[str]) -> None:
    made.pam_file.write_text(rules)
    made.pam_file.chmod(0o644)
    assert told(made.run("pam-file")) == {("problem", kind) for kind in kinds}


def test_rules_are_read_as_pam_reads_them() -> None:
    text = "#account a b\nauth required x.so\n account\trequired \\\n  y.so # why\n@include common-account\n"
    assert account_rules(text) == ("account required y.so", 1)


def test_p6_a_service_file_that_others_may_write(made: Made) -> None:
    made.pam_file.write_text(SHIPPED)
    made.pam_file.chmod(0o664)
    assert told(made.run("pam-file")) == {("problem", "mode")}
    made.pam_file.chmod(0o644)
    assert told(made.run("pam-file", root=os.geteuid() + 1)) == {("problem", "owner")}
    made.pam_file.rename(made.etc / "elsewhere")
    made.pam_file.symlink_to(made.etc / "elsewhere")
    assert told(made.run("pam-file")) == {("problem", "kind")}


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (b"allow\n", set()),
        (b"expired\n", set()),
        (b"unavailable\n", {("problem", "unavailable")}),
        (b"yes\n", {("problem", "word")}),
        (b"", {("problem", "word")}),
    ],
)
def test_c32_the_helper_is_asked(made: Made, answer: bytes, found: set[tuple[str, str]]) -> None:
    with answering(made.places.pam_socket, lambda request: answer) as seen:
        assert told(made.run("pam-helper")) == found
        assert seen == [b"%d\n" % os.geteuid()]


@pytest.mark.root
def test_c32_somebody_else_is_the_helper(made: Made) -> None:
    with answering(made.places.pam_socket, lambda request: b"allow\n"):
        assert told(made.run("pam-helper", root=4321)) == {("problem", "listener")}


def test_c32_the_helper_that_is_not_there(made: Made) -> None:
    assert told(made.run("pam-helper")) == {("problem", "missing")}
    made.systemd(amux_pam_service={"ActiveState": "failed", "Result": "exit-code"})
    assert told(made.run("pam-helper")) == {("problem", "failed")}
    Path(made.places.pam_socket).touch()
    made.systemd()
    assert told(made.run("pam-helper")) == {("problem", "answer")}
    assert made.run("pam-helper", euid=os.geteuid() + 1).outcome == "skipped"


def test_disk(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    made.pinned["limits.free_bytes"] = 0
    assert made.run("disk").outcome == "ok"
    free = shutil.disk_usage(made.home).free
    made.pinned["limits.free_bytes"] = free * 2
    assert told(made.run("disk")) == {("problem", "space")}
    made.pinned["limits.free_bytes"] = free * 3 // 4
    assert told(made.run("disk")) == {("warning", "space")}
    made.pinned["limits.free_bytes"] = 0
    monkeypatch.setattr(kernel, "_FEW_INODES", 1 << 62)
    status = os.statvfs(made.home)
    assert told(made.run("disk")) == ({("warning", "inodes")} if status.f_files else set())


def test_inotify(made: Made) -> None:
    assert made.run("inotify").outcome == "ok"
    limits = made.directory / "proc/sys/fs/inotify"
    limits.mkdir(parents=True)
    (made.directory / "proc/locks").touch()
    (limits / "max_user_watches").write_text("1\n")
    (limits / "max_user_instances").write_text("0\n")
    made.put(made.scope() / "a" / "b.md")
    places = type(made.places)(**{**vars(made.places), "proc": str(made.directory / "proc")})
    assert told(made.run("inotify", places=places)) == {("warning", "watches"), ("warning", "instances")}
    (limits / "max_user_watches").write_text("9999\n")
    (limits / "max_user_instances").write_text("128\n")
    assert made.run("inotify", places=places).outcome == "ok"


