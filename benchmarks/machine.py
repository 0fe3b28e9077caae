"""Description of the machine, its copy bandwidth, and the peak memory of a process."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

PACKAGES = (
    *("spca-tv", "numpy", "scipy", "scikit-learn", "numba", "threadpoolctl"),
    *("nilearn", "scikit-image", "pylearn-parsimony"),
)
STATUS = Path("/proc/self/status")
# Bytes of the last cache where the system does not list its caches.
USUAL_CACHE = 2**25


def facts() -> dict[str, Any]:
    """Return processor, cache, memory, versions, the commit and the load."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "cache": last_cache(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "commit": commit(),
        "load_average": os.getloadavg(),
    }


def version(package: str) -> str | None:
    """Return the version of a package, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cpu_name() -> str:
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def last_cache() -> int:
    """Return the bytes of the largest cache of the first core."""
    files = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    units = {"K": 2**10, "M": 2**20}
    texts = [file.read_text().strip() for file in files]
    return max((int(text[:-1]) * units[text[-1]] for text in texts), default=USUAL_CACHE)


def commit() -> str | None:
    """Return the commit that is measured, marked if files have changed since."""
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() or None


def copy_bandwidth(total_bytes: int, seconds: float) -> float:
    """Return bytes read plus bytes written per second by copies between two arrays, `total_bytes` in all."""
    source = np.ones(max(total_bytes // 16, 1), dtype=np.float64)
    target = np.zeros_like(source)
    n_copies, best, deadline = 1, np.inf, time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        started = time.perf_counter()
        for _ in range(n_copies):
            np.copyto(target, source)
        passed = time.perf_counter() - started
        best = min(best, passed / n_copies)
        if passed < 1e-3:  # too short for the clock
            n_copies *= 2
    return 2 * source.nbytes / best


def _status_bytes(field: str) -> int | None:
    """Read a field of /proc/self/status; None on other systems."""
    if not STATUS.exists():
        return None
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


class PeakMemory:
    """Peak memory of the process inside a ``with`` block, beyond what it held before.

    Linux keeps the high-water mark of a process in ``VmHWM`` and lets it be reset. ``ru_maxrss`` is
    the same figure, but it includes the process that started this one; it is used on other systems only.
    """

    def __enter__(self) -> PeakMemory:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._before = _status_bytes("VmRSS") or 0
        except OSError:  # another system, or not allowed: start from the mark so far
            self._before = self._mark()
        return self

    def __exit__(self, *_: object) -> None:
        self.mark = self._mark()  # with what it held before
        self.bytes = max(self.mark - self._before, 0)

    @staticmethod
    def _mark() -> int:
        unit = 1 if sys.platform == "darwin" else 1024
        return _status_bytes("VmHWM") or unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
