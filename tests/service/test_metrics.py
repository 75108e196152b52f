"""`amux status --metrics`: what a Prometheus reads, and who may."""

from __future__ import annotations

import re
from pathlib import Path

from amux_hub import metrics
from amux_hub.metrics import GAUGE, Metric
from tests.harness import Hub

_SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\[\\"n])*",?)+\})? -?[0-9.e+-]+')


def test_the_numbers_of_a_running_hub(tmp_path: Path) -> None:
    with Hub(tmp_path) as hub, hub.connect("hub") as channel:
        channel.call("io.amux.Hub.WhoAmI")
        text = channel.call("io.amux.Hub.GetMetrics")["parameters"]["text"]
    lines = text.splitlines()
    assert text.endswith("\n")
    families = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
    assert len(families) == len(set(families)) > 15
    values = {}
    for line in lines:
        if not line.startswith("#"):
            assert _SAMPLE.fullmatch(line), line
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    assert values["amux_requests_total"] == 1
    assert values["amux_connections"] == 1
    assert values["process_resident_memory_bytes"] > 1 << 20
    assert values["process_start_time_seconds"] <= values["amux_time_seconds"]
    assert any(name.startswith("amux_info{version=") for name in values)


def test_labels_are_escaped() -> None:
    text = metrics.render([Metric("x", GAUGE, "h", {(("reason", 'a"b\\c\nd'),): 1.5})])
    assert text == '# HELP x h\n# TYPE x gauge\nx{reason="a\\"b\\\\c\\nd"} 1.5\n'
