"""A memory map larger than the memory of the process: a fit beside as many plain passes over the file."""

from __future__ import annotations

import os
import resource
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.data import ellipsoid_mask
from benchmarks.machine import PeakMemory
from benchmarks.options import TOL, Options
from benchmarks.scoring import passes_of
from benchmarks.worker import Worker

TITLE = "A memory map larger than memory: three components, two threads"
N_COLUMNS = 100_000
# Data memory of the process, as a share of the file, and at least: Python and its packages take 0.3 GB.
MEMORY_SHARE, LEAST_MEMORY = 0.15, 10**9
# Passes that all components share: statistics and the sketch.
SHARED_PASSES = 3
CHUNK_BYTES = 8 << 20
# Smooth maps that the samples are made of, and rows that are written at a time.
N_MAPS, N_ROWS = 60, 500
SETTINGS: dict[str, dict[str, Any]] = {
    "90 % zeros, joint": {"sparsity": 0.9, "method": "joint"},
    "90 % zeros, deflation": {"sparsity": 0.9, "method": "deflation"},
    "alpha 0.1": {"alpha": 0.1, "l1_ratio": 0.25, "tv_ratio": 0.5},
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Fit a file under a limit, and read it plainly as often."""
    size = int(1e9 * options.disk)
    memory = max(int(MEMORY_SHARE * size), LEAST_MEMORY)
    mask, path = ellipsoid_mask(N_COLUMNS), options.scratch / "disk.npy"
    write_cohort(path, size, mask)
    try:
        with Worker(make_reader, path, mask, memory, threads=2) as worker:
            for name, setting in SETTINGS.items():
                fit = worker.call(setting, limit=3600.0)
                plain = worker.call(None, fit["passes"], limit=3600.0)
                yield {
                    "fit": name,
                    "file": f"{size / 1e9:g} GB",
                    "memory": f"{memory / 1e9:g} GB",
                    **fit,
                    "as many plain passes": plain["seconds"],
                    "share": plain["seconds"] / fit["seconds"],
                }
    finally:
        path.unlink()


def write_cohort(path: Path, size: int, mask: np.ndarray) -> None:
    """Write about `size` bytes of simulated samples: smooth maps of falling strength, and white noise."""
    rng = np.random.default_rng(0)
    n_columns = int(mask.sum())
    n_rows = max(size // (4 * n_columns), 100)
    maps = np.stack([gaussian_filter(rng.standard_normal(mask.shape), 2)[mask] for _ in range(N_MAPS)])
    maps *= (6.0 / np.arange(1, N_MAPS + 1) / maps.std(axis=1))[:, None]
    white = rng.standard_normal(3 * n_columns, dtype=np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_columns))
    del X  # the header is there; rows are written without a map
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 4 * n_rows * n_columns)
        for first in range(0, n_rows, N_ROWS):
            weights = rng.standard_normal((min(N_ROWS, n_rows - first), N_MAPS))
            rows = weights.astype(np.float32) @ maps.astype(np.float32)
            for row, begin in zip(rows, rng.integers(0, 2 * n_columns, len(rows)), strict=True):
                row += white[begin : begin + n_columns]
            file.write(rows)
        file.flush()
        os.fsync(file.fileno())  # the system cannot drop what is not on the disk yet


def drop_from_memory(path: Path) -> None:
    """Let the system forget the file, so that the next reader reads from the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def make_reader(path: Path, mask: np.ndarray, memory: int) -> Callable[..., dict[str, Any]]:
    """Return a job that fits the file in `memory` bytes, or reads it plainly a number of times.

    Either begins with nothing of the file in memory. A map counts against the limit of a process's address
    space, whether it is in memory or not, so the limit is that of its data.
    """
    from spcatv import SPCATV
    from spcatv.structure import grid

    small = np.random.default_rng(0).standard_normal((300, 216)).astype(np.float32)
    for setting in SETTINGS.values():  # loads the kernels
        with warnings.catch_warnings(action="ignore"):
            SPCATV(3, structure=(6, 6, 6), **setting).fit(small)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    X = np.load(path, mmap_mode="r")

    def job(setting: dict[str, Any] | None, n_passes: int = 0) -> dict[str, Any]:
        drop_from_memory(path)
        if setting is None:
            started, buffer = time.perf_counter(), bytearray(CHUNK_BYTES)
            for _ in range(n_passes):
                with path.open("rb", buffering=0) as file:
                    while file.readinto(buffer):
                        pass
            return {"seconds": time.perf_counter() - started}
        model = SPCATV(3, structure=grid(mask), tol=TOL, **setting)
        with PeakMemory() as peak, warnings.catch_warnings(action="ignore"):
            started, worked = time.perf_counter(), time.process_time()
            model.fit(X)
            taken, worked = time.perf_counter() - started, time.process_time() - worked
        return {
            "seconds": taken,
            "processor": worked,
            "passes": sum(passes_of(model)) + SHARED_PASSES,
            "peak GB": peak.mark / 1e9,
            "gaps": [record.relative_gap for record in model.diagnostics_],
        }

    return job
