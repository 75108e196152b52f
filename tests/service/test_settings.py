"""Settings over admin.sock: saved, running, pinned, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amux import limits
from amux_hub.config import KEYS
from tests.harness import Hub
from tests.service.conftest import MakeHub

GET = "io.amux.Memory.Get"


def _call(hub: Hub, method: str, **parameters: Any) -> dict[str, Any]:
    answer = hub.call(method, "admin", **parameters)
    assert "error" not in answer, answer
    result: dict[str, Any] = answer["parameters"]
    return result


def test_a_saved_setting_is_in_force_after_a_restart(make_hub: MakeHub) -> None:
    hub = make_hub(enabled=False).start()
    assert hub.call(GET, path="a.md")["error"] == "io.amux.Hub.MemoryDisabled"
    setting = _call(hub, "io.amux.Admin.SetSetting", key="memory.enabled", value="true")
    assert (setting["value"], setting["running"], setting["restart_needed"]) == ("true", "false", True)
    assert setting["source"] == str(hub.home / "settings.yaml")
    assert hub.call(GET, path="a.md")["error"] == "io.amux.Hub.MemoryDisabled"
    hub.restart()
    setting = _call(hub, "io.amux.Admin.GetSetting", key="memory.enabled")
    assert (setting["value"], setting["running"], setting["restart_needed"]) == ("true", "true", False)
    assert "error" not in hub.call(GET, path="a.md")
    assert (hub.home / "settings.yaml").stat().st_mode & 0o777 == 0o600
    keys = [setting["key"] for setting in _call(hub, "io.amux.Admin.ListSettings")["settings"]]
    assert "memory.enabled" in keys and len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("memory.enabled", "maybe", "InvalidArgument"),
        ("memory.enabled", "True", "InvalidArgument"),
        ("isolation", "true", "Forbidden"),
        ("limits.connections", "7", "Forbidden"),
        ("nothing", "1", "InvalidArgument"),
    ],
)
def test_what_may_not_be_saved_is_refused(make_hub: MakeHub, key: str, value: str, error: str) -> None:
    hub = make_hub(enabled=False).start()
    answer = hub.call("io.amux.Admin.SetSetting", "admin", key=key, value=value)
    assert answer["error"] == f"io.amux.Hub.{error}"
    assert not (hub.home / "settings.yaml").exists()


def test_a_pinned_setting_is_refused_naming_the_file(make_hub: MakeHub) -> None:
    hub = make_hub(config={"memory": {"enabled": False}}).start()  # over the saved true
    assert hub.call(GET, path="a.md")["error"] == "io.amux.Hub.MemoryDisabled"
    answer = hub.call("io.amux.Admin.SetSetting", "admin", key="memory.enabled", value="true")
    assert answer["error"] == "io.amux.Hub.Forbidden"
    assert str(hub.config_file) in answer["parameters"]["message"]
    setting = _call(hub, "io.amux.Admin.GetSetting", key="memory.enabled")
    assert setting["pinned"] and setting["saved"] == "true" and setting["value"] == "false"


def test_c18_settings_that_are_long_are_cut(make_hub: MakeHub, tmp_path: Path) -> None:
    """A list of accounts has no limit, and a path names the file of each setting."""
    long = tmp_path / ("d" * 200)
    aliases = {f"admin-{number}": "部" * 20 for number in range(300)}
    hub = make_hub(
        long,
        config={
            "identity": {"aliases": aliases},
            "limits": {"connections": 4096, "requests_per_uid": 16, "rate_per_uid": 0, "cache_bytes": 1 << 20},
            "timeouts": dict.fromkeys(("first_frame", "frame", "idle", "write", "request_wait", "drain"), 10),
        },
    ).start()
    listed = {setting["key"]: setting for setting in _call(hub, "io.amux.Admin.ListSettings")["settings"]}
    assert list(listed) == list(KEYS)
    one = _call(hub, "io.amux.Admin.GetSetting", key="identity.aliases")
    assert one["value"].startswith("{admin-0: 部部") and one["value"].endswith("…") and not one["restart_needed"]
    assert listed["timeouts.drain"]["value"] == "10"
    for reply in (list(listed.values()), one):
        assert len(json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode()) < limits.REPLY_BYTES
