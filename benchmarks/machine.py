"""Description of the machine, its copy bandwidth, and the peak memory of a process."""

from __future__ import annotations

import os
import platform
import re
import resource
import subprocess
import sys
import time
import timeit
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "threadpoolctl", "nilearn")
STATUS = Path("/proc/self/status")


def facts() -> dict[str, Any]:
    """Return processor, memory, versions, the commit (marked if files have changed since) and the load."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "versions": {
            found.name: found.version for found in metadata.distributions() if found.name in PACKAGES
        },
        "commit": described.stdout.strip(),
        "load_average": os.getloadavg(),
    }


def cpu_name() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"model name\s*: (.*)", info.read_text() if info.exists() else "")
    return names[0] if names else platform.processor()


def copy_bandwidth(total_bytes: int, seconds: float) -> float:
    """Return bytes read plus bytes written per second by copies between two arrays, `total_bytes` in all."""
    source = np.ones(max(total_bytes // 16, 1), dtype=np.float64)
    target = np.zeros_like(source)
    timer = timeit.Timer(lambda: np.copyto(target, source))
    first = timer.timeit(1)
    number = max(1, int(1e-3 / first))  # below this time, the clock is too coarse
    best = min(timer.repeat(max(1, int(seconds / (number * first))), number)) / number
    return 2 * source.nbytes / best


def _status_bytes(field: str) -> int | None:
    """Read a field of /proc/self/status; None on other systems."""
    if not STATUS.exists():
        return None
    return 1024 * int(STATUS.read_text().split(f"{field}:")[1].split()[0])


class Meter:
    """Seconds, processor seconds and peak memory in bytes (`mark`; beyond what was held before: `bytes`).

    Linux keeps the high-water mark of a process in ``VmHWM`` and lets it be reset. ``ru_maxrss`` is
    the same figure, but it includes the process that started this one; it is used on other systems only.
    """

    def __enter__(self) -> Meter:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = _status_bytes("VmRSS") or 0
        except OSError:  # another system, or not allowed: start from the mark so far
            self._before = self._mark()
        self._started, self._worked = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started
        self.processor = time.process_time() - self._worked
        self.mark = self._mark()
        self.bytes = max(self.mark - self._before, 0)

    @staticmethod
    def _mark() -> int:
        unit = 1 if sys.platform == "darwin" else 1024
        return _status_bytes("VmHWM") or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
