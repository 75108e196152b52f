"""The numbers of a Hub in the text form that Prometheus reads, for `amux status --metrics`.

Promises: totals alone, nothing of any one person. https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from amux import __version__
from amux_hub import logs
from amux_hub.admission import Admission

Labels = tuple[tuple[str, str], ...]
COUNTER, GAUGE = "counter", "gauge"


class Metric(NamedTuple):
    """One family. `samples` maps a set of labels to a value."""

    name: str
    kind: str
    help: str
    samples: Mapping[Labels, float]


def one(name: str, kind: str, text: str, value: float) -> Metric:
    return Metric(name, kind, text, {(): value})


def render(metrics: Iterable[Metric]) -> str:
    """The exposition, ending with a line feed."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples.items():
            inner = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
            lines.append(f"{metric.name}{{{inner}}} {value:.17g}" if inner else f"{metric.name} {value:.17g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def of_hub(running: Mapping[str, object], admission: Admission, refusals: Mapping[str, int]) -> list[Metric]:
    """Everything that a Hub counts. `refusals` are the audit's, by reason."""
    counters = admission.counters
    labels = (("version", __version__),)
    reasons: dict[Labels, float] = {(("reason", reason),): count for reason, count in sorted(refusals.items())}
    return [
        Metric("amux_info", GAUGE, "The version of the Hub, as a label.", {labels: 1}),
        one("amux_memory_enabled", GAUGE, "Whether the memory is switched on.", bool(running["memory.enabled"])),
        one("amux_isolation", GAUGE, "Whether everybody has a memory of their own.", bool(running["isolation"])),
        one("amux_draining", GAUGE, "Whether the Hub is stopping.", admission.draining),
        one("amux_connections", GAUGE, "Open connections.", admission.connections),
        one("amux_connections_accepted_total", COUNTER, "Connections accepted.", counters.connections_accepted),
        one("amux_connections_refused_total", COUNTER, "Connections over a limit.", counters.connections_refused),
        one("amux_connections_dropped_total", COUNTER, "Connections given up on.", counters.connections_dropped),
        one("amux_requests_running", GAUGE, "Requests that run now.", admission.requests),
        one("amux_requests_total", COUNTER, "Requests that ran.", counters.requests_served),
        one("amux_requests_refused_total", COUNTER, "Requests refused as busy.", counters.requests_refused),
        one("amux_violations_total", COUNTER, "Violations of the wire's rules.", counters.violations),
        Metric("amux_refusals_total", COUNTER, "Refusals by reason, as in the audit.", reasons),
        one("amux_log_records_lost_total", COUNTER, "Log records that the journal did not take.", logs.lost()),
        *_process(),
    ]


def _process() -> list[Metric]:
    """The process, under the names that every Prometheus client uses; proc_pid_stat(5)."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    ticks = os.sysconf("SC_CLK_TCK")
    # Not from /proc/stat, which ProcSubset=pid of systemd.exec(5) hides.
    boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    times = os.times()
    return [
        one("process_cpu_seconds_total", COUNTER, "CPU time of the Hub.", times.user + times.system),
        one(
            "process_resident_memory_bytes",
            GAUGE,
            "Resident memory of the Hub.",
            int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        ),
        one("process_open_fds", GAUGE, "Open descriptors of the Hub.", len(os.listdir("/proc/self/fd")) - 1),
        one("process_start_time_seconds", GAUGE, "When the Hub started.", boot + int(fields[19]) / ticks),
        one("amux_time_seconds", GAUGE, "When these numbers were taken.", time.time()),
    ]
