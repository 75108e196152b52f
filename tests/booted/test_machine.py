"""A booted system is one: systemd is up, accounts are real, and commands report what they did."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.booted.lab.machine import Account, CommandError, Machine
from tests.booted.lab.recipe import SUITES

NUMBERS = {"bookworm": "12", "trixie": "13"}


def test_it_boots_its_suite_with_nothing_failed(machine: Machine) -> None:
    assert machine.state == "running"
    assert machine.run("ps", "-o", "comm=", "1").stdout == "systemd\n"
    release = dict(line.split("=", 1) for line in machine.get("/etc/os-release").decode().splitlines())
    assert release["VERSION_ID"].strip('"') == NUMBERS[machine.suite]
    assert machine.run("systemctl", "list-units", "--failed", "--plain", "--no-legend").stdout == ""


def test_both_suites_run_at_once(bookworm: Machine, trixie: Machine) -> None:
    names = {machine.suite: machine.run("hostname").stdout.strip() for machine in (bookworm, trixie)}
    assert set(names) == set(SUITES) and names["bookworm"] == bookworm.name and names["trixie"] == trixie.name
    bookworm.put(b"here\n", "/root/only")
    try:
        assert trixie.run("test", "-e", "/root/only", check=False).returncode == 1
    finally:
        bookworm.run("rm", "/root/only")


def test_status_signal_and_output_come_through(machine: Machine) -> None:
    assert machine.run("sh", "-c", "echo out; echo err >&2; exit 7", check=False).returncode == 7
    done = machine.run("sh", "-c", "cat; echo err >&2", stdin="given")
    assert (done.stdout, done.stderr) == ("given", "err\n")
    assert machine.run("sh", "-c", "kill -TERM $$", check=False).returncode == -15
    with pytest.raises(CommandError, match="status 3"):
        machine.run("sh", "-c", "exit 3")


def test_a_user_has_groups_and_home_and_no_more(machine: Machine, accounts: Callable[..., Account]) -> None:
    machine.run("groupadd", "crew")
    try:
        alice = accounts(machine, "alice", "--groups", "crew")
        assert machine.run("id", "-Gn", user="alice").stdout.split() == ["alice", "crew"]
        assert machine.run("sh", "-c", "echo $HOME $USER", user="alice").stdout == f"{alice.home} alice\n"
        assert machine.run("cat", "/etc/shadow", user="alice", check=False).returncode == 1
        assert machine.run("sh", "-c", "kill -9 $$", user="alice", check=False).returncode == -9
    finally:
        machine.remove_account("alice")
        machine.run("groupdel", "crew")


def test_a_uid_without_an_account(machine: Machine) -> None:
    assert machine.run("id", "-u", user=4_000_000_000).stdout == "4000000000\n"
    assert machine.run("cat", "/etc/shadow", user=4_000_000_000, check=False).returncode == 1


def test_an_expired_account_is_refused_by_pam(machine: Machine, accounts: Callable[..., Account]) -> None:
    accounts(machine, "gone")
    enter = ("runuser", "-l", "gone", "-c", "true")
    machine.run(*enter)
    machine.run("chage", "--expiredate", "2000-01-01", "gone")
    assert "expired" in machine.run("su", "-l", "gone", "-c", "true", check=False).stderr


def test_a_unit_is_confined_and_reports_its_status(machine: Machine, accounts: Callable[..., Account]) -> None:
    accounts(machine, "alice")
    assert machine.unit("id", "-un", user="alice").stdout == "alice\n"
    assert machine.unit("sh", "-c", "exit 9", check=False).returncode == 9
    assert machine.unit("sh", "-c", "kill -9 $$", check=False).returncode == 255
    assert ".service" in machine.unit("cat", "/proc/self/cgroup").stdout
    read_only = machine.unit("touch", "/etc/x", properties=["ProtectSystem=strict"], check=False)
    assert read_only.returncode == 1 and "Read-only" in read_only.stderr


def test_the_journal_can_be_read_as_soon_as_a_unit_ended(machine: Machine) -> None:
    machine.run("systemd-run", "--quiet", "--wait", "--property=SyslogIdentifier=amux-test", "echo", "line of a test")
    machine.wait("the line", lambda: machine.journal("-t", "amux-test"))
    assert machine.journal("-t", "amux-test")[-1]["MESSAGE"] == "line of a test"


def test_files_go_in_with_mode_and_owner_and_come_out(machine: Machine) -> None:
    machine.put(b"\0\xff", "/run/amux-put", 0o640, "root:daemon")
    try:
        assert machine.get("/run/amux-put") == b"\0\xff"
        assert machine.run("stat", "-c", "%a %U:%G", "/run/amux-put").stdout == "640 root:daemon\n"
    finally:
        machine.run("rm", "/run/amux-put")


def test_ssh_answers_at_the_other_end_of_the_wire(machine: Machine) -> None:
    talk = "import socket,sys; print(socket.create_connection((sys.argv[1], 22), 10).makefile().readline())"
    machine.wait("sshd", lambda: machine.run("systemctl", "is-active", "ssh", check=False).returncode == 0)
    assert machine.outside("python3", "-c", talk, machine.address).stdout.startswith("SSH-2.0")
