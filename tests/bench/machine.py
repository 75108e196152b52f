"""Where the numbers come from: hardware, kernel, versions, locale, file system."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

from amux import __version__
from tests.bench.ours import SYSTEM_PYTHON
from tests.bench.processes import LOCALE


def facts(directory: Path) -> dict[str, str]:
    """In the order in which a reader wants them. `directory` is on the disk that was written to."""
    return {
        "product": f"amux-hub {__version__}",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gib():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "distribution": platform.freedesktop_os_release().get("PRETTY_NAME", "unknown"),
        "file system": _output("stat", "-f", "-c", "%T", str(directory)),
        "Python of the Hub": platform.python_version(),
        "Python of amux.pyz": _output(SYSTEM_PYTHON, "-IS", "-c", "import platform; print(platform.python_version())"),
        "locale": LOCALE,
        "load before": " ".join(f"{one:.2f}" for one in os.getloadavg()),
        "command": " ".join(["python", "tests/bench/run.py", *sys.argv[1:]]),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("model name", "Model")):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"
