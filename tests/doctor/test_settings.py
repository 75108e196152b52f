"""The checks of configuration, isolation, switch and versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amux_hub.doctor import host as hosts
from amux_hub.doctor import versions
from amux_hub.doctor.check import results
from amux_hub.doctor.configuration import CHECKS
from tests.doctor.kit import Made, a_hub, answering, needs_an_ordinary_account, text, told


def test_configuration_names_each_problem_and_judges_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text(f"home: {tmp_path}/home\nlog:\n  level: loud\n")
    host = hosts.load(str(file), {"HOME": str(tmp_path)}, system=False)
    assert host.home == f"{tmp_path}/home"
    found = next(results(CHECKS[:1], host))
    assert (found.outcome, len(found.findings)) == ("problem", 1)
    assert found.findings[0].what == f"{file}:3, log.level"
    assert (found.findings[0].found, "debug" in found.findings[0].wanted) == ("'loud'", True)
    file.write_text("log:\n  level: debug\n")
    assert next(results(CHECKS[:1], hosts.load(str(file), {}, system=False))).outcome == "ok"


@needs_an_ordinary_account
def test_settings_that_only_the_hub_may_read_are_skipped_by_name(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "settings.yaml").touch()
    file = tmp_path / "hub.yaml"
    file.write_text(f"home: {home}\n")
    home.chmod(0)
    try:
        host = hosts.load(str(file), {}, system=True)
        found = next(results(CHECKS[:1], host))
    finally:
        home.chmod(0o700)
    assert ("skipped", "unseen") in told(found)
    assert "settings.yaml" in text(found)
    problems = [finding.what for finding in found.findings if finding.level == "problem"]
    assert f"{home}/settings.yaml" not in problems


def test_isolation_off_is_a_warning_at_a_system_hub_alone(made: Made) -> None:
    assert made.run("isolation").outcome == "ok"
    made.pinned["isolation"] = False
    found = made.run("isolation")
    assert (found.outcome, told(found)) == ("warning", {("warning", "off")})
    made.system = False
    assert made.run("isolation").outcome == "ok"


def test_isolation_that_runs_otherwise_than_configured(made: Made) -> None:
    with answering(made.runtime / "hub.sock", a_hub(isolation=False)):
        assert told(made.run("isolation")) == {("warning", "differs")}
    with answering(made.runtime / "hub.sock", a_hub(isolation=True)):
        assert made.run("isolation").outcome == "ok"


def test_switch_saved_and_running(made: Made) -> None:
    found = made.run("switch")
    assert told(found) == {("note", "off")}
    assert "no Hub runs" in found.summary
    made.pinned["memory.enabled"] = True
    with answering(made.runtime / "hub.sock", a_hub(memory_enabled_running=False)):
        assert told(made.run("switch")) == {("note", "differs")}
    with answering(made.runtime / "hub.sock", a_hub()):
        assert made.run("switch").summary == "saved: on, running: on"
    with answering(made.runtime / "hub.sock", a_hub(error="who are you")):
        assert told(made.run("switch")) == {("skipped", "unseen")}


def test_a_switch_that_cannot_be_read_is_asked_of_the_hub(made: Made) -> None:
    unseen = f"{made.home}/settings.yaml"
    assert told(made.run("switch", unseen=unseen)) == {("skipped", "unseen")}
    with answering(made.runtime / "hub.sock", a_hub(memory_enabled_running=False)):
        assert made.run("switch", unseen=unseen).summary == "saved: on, running: off"


def test_versions_of_package_and_running_hub(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(made.runtime / "hub.sock", a_hub(version="0.0.9")):
        assert told(made.run("versions")) == {("warning", "running")}
    with answering(made.runtime / "hub.sock", a_hub(error="who are you")):  # the version is told to everybody
        assert made.run("versions").outcome == "ok"
    monkeypatch.setattr(versions, "_PYTHON", (9, 9))
    assert told(made.run("versions")) == {("problem", "python")}


def test_the_hubs_own_account_asks_for_nothing_that_it_is_refused(made: Made) -> None:
    with answering(made.runtime / "hub.sock", a_hub()) as seen:
        found = made.run("switch", root=os.geteuid() + 1)
    assert ("skipped", "unseen") in told(found)
    assert len(seen) == 1 and b"GetInfo" in seen[0]


def test_dependencies(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made.run("dependencies").outcome == "ok"
    monkeypatch.setitem(versions.DEPENDENCIES, "nothing", "amux_no_such_module")
    found = made.run("dependencies")
    assert (found.outcome, [finding.what for finding in found.findings]) == ("problem", ["nothing"])


def test_a_stopped_hub_is_not_woken_up(made: Made) -> None:
    made.systemd(amux_hub_service={"ActiveState": "inactive"})
    with answering(made.runtime / "hub.sock", a_hub()) as seen:
        for name in ("versions", "isolation", "switch", "store-lock", "sockets"):
            made.run(name)
        assert seen == []
    made.systemd()
    with answering(made.runtime / "hub.sock", a_hub()) as seen:
        made.run("versions")
        assert len(seen) == 2
    assert os.path.isdir(made.home)
