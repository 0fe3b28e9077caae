"""A memory map larger than the memory of the process: a fit beside as many plain passes over the file."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.cases import Case
from benchmarks.data import ellipsoid_mask
from benchmarks.options import FITS, Options
from benchmarks.peers import make_spcatv
from benchmarks.worker import Worker
from spcatv.structure import grid

TITLE = "A memory map larger than memory: three components, two threads"
N_VOXELS = 100_000
# Data memory of the process, as a share of the file, and at least: Python and its packages take 0.3 GB.
MEMORY_SHARE, LEAST_MEMORY = 0.15, 10**9
# Passes that all components share: statistics and the sketch.
SHARED_PASSES = 3
CHUNK_BYTES = 8 << 20
# Smooth maps that the samples are made of, and samples that are written at a time.
N_MAPS, N_SAMPLES = 60, 500


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Fit a file under a limit, and read it plainly as often, each with nothing of the file in memory."""
    size = int(1e9 * options.disk)
    memory = max(int(MEMORY_SHARE * size), LEAST_MEMORY)
    mask, path = ellipsoid_mask(N_VOXELS), options.scratch / "disk.npy"
    case = Case("", path, write_cohort(path, size, mask), grid(mask), mask)
    with Worker(make_spcatv, case, "float32", memory, threads=2) as worker:
        for name, setting in FITS.items():
            drop_from_memory(path)
            fit = worker.call(setting, limit=3600.0)
            n_passes = sum(fit["passes"]) + SHARED_PASSES
            plain = plain_passes(path, n_passes)
            yield {
                "fit": name,
                "file": f"{size / 1e9:g} GB",
                "memory": f"{memory / 1e9:g} GB",
                "seconds": fit["seconds"],
                "processor": fit["processor"],
                "passes": n_passes,
                "peak": fit["peak"],
                "gaps": fit["gaps"],
                "as many plain passes": plain,
                "share": plain / fit["seconds"],
            }
    path.unlink()


def write_cohort(path: Path, size: int, mask: np.ndarray) -> tuple[int, int]:
    """Write about `size` bytes of smooth maps of falling strength and white noise, and return the shape."""
    rng = np.random.default_rng(0)
    n_voxels = int(mask.sum())
    n_samples = max(size // (4 * n_voxels), 100)
    maps = np.stack([gaussian_filter(rng.standard_normal(mask.shape), 2)[mask] for _ in range(N_MAPS)])
    maps *= (6.0 / np.arange(1, N_MAPS + 1) / maps.std(axis=1))[:, None]
    white = rng.standard_normal(3 * n_voxels, dtype=np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_samples, n_voxels))
    for first in range(0, n_samples, N_SAMPLES):
        block = X[first : first + N_SAMPLES]
        block[:] = rng.standard_normal((len(block), N_MAPS)).astype(np.float32) @ maps.astype(np.float32)
        for row, begin in zip(block, rng.integers(0, 2 * n_voxels, len(block)), strict=True):
            row += white[begin : begin + n_voxels]
    X.flush()  # the system cannot drop what is not on the disk yet
    return X.shape


def drop_from_memory(path: Path) -> None:
    """Let the system forget the file, so that the next reader reads from the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_passes(path: Path, n_passes: int) -> float:
    """Return the seconds of reading the file from the disk so many times."""
    drop_from_memory(path)
    started, buffer = time.perf_counter(), bytearray(CHUNK_BYTES)
    for _ in range(n_passes):
        with path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
    return time.perf_counter() - started
