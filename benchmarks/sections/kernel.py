"""One primal-dual iteration: its time, and its bandwidth compared with a plain copy; one thread.

Beside `gpu` the only section that uses the kernels of the package, which are internal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.data import ellipsoid_mask
from benchmarks.machine import copy_bandwidth
from benchmarks.options import Options
from benchmarks.worker import Worker
from spcatv.kernels import LoadingTerms, StepSizes, workspace_for
from spcatv.problem import TotalVariation
from spcatv.structure import GridStructure, Structure, grid, icosphere, mesh

TITLE = "The primal-dual iteration"
# Sides of full boxes of 16 k, 64 k, 256 k, 1 M and 2 M voxels.
SIDES, QUICK_SIDES = (25, 40, 64, 100, 126), (40, 64)
SUBDIVISIONS, QUICK_SUBDIVISIONS = 7, 5
MAKERS: dict[str, Callable[[int], Structure]] = {
    "box": lambda side: grid((side,) * 3),
    "ellipsoid": lambda side: grid(ellipsoid_mask(side**3)),
    "icosphere": lambda subdivisions: mesh(*icosphere(subdivisions)),
}
# Seconds that one timed batch of iterations takes.
BATCH_SECONDS = 0.05


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Time every structure in both precisions."""
    sides = QUICK_SIDES if options.quick else SIDES
    wanted = [(kind, side) for kind in ("box", "ellipsoid") for side in sides]
    wanted.append(("icosphere", QUICK_SUBDIVISIONS if options.quick else SUBDIVISIONS))
    with Worker(make_kernel, 4 * options.repeats, threads=1) as worker:
        for kind, size in wanted:
            for dtype in ("float32", "float64"):
                yield {"structure": kind, "dtype": dtype, **worker.call(kind, size, dtype)}


def iterate(structure: Structure, dtype: str) -> Callable[[int], None]:
    """Return a function that does n iterations; the problem has no l1 norm, so every loading moves."""
    terms = LoadingTerms(coupling=2.0, threshold=0.0, positive=False, penalty=TotalVariation())
    workspace = workspace_for(structure, terms, np.dtype(dtype))
    y = np.random.default_rng(0).standard_normal(structure.n_features)
    workspace.set_target(y)
    workspace.set_state(0.5 * y, np.zeros(structure.n_rows))
    steps = StepSizes(tau=0.05, sigma=1.0 / (0.05 * terms.coupling * structure.norm_squared()), rho=1.9)
    return lambda n_iter: workspace.advance(n_iter, steps)


def bytes_to_move(structure: Structure, dtype: str) -> tuple[int, int]:
    """Return the bytes that an iteration must read and write, and the bytes of the arrays it works on.

    v is read and written, y is read, the dual variable is read and written. A grid adds one byte of edge
    flags per voxel, any other structure the index (4 bytes) of the other end of every edge.
    """
    size = np.dtype(dtype).itemsize
    n, m = structure.n_features, structure.n_rows
    if isinstance(structure, GridStructure):
        m, flags = n * structure.labels.ndim, n
    else:
        flags = 4 * m
    return (3 * n + 2 * m) * size + flags, (2 * n + m) * size + flags


def make_kernel(n_batches: int) -> Callable[..., dict[str, Any]]:
    """Return a job that times iterations, alternating with copies of arrays of the same size."""

    def job(kind: str, size: int, dtype: str) -> dict[str, Any]:
        structure = MAKERS[kind](size)
        moved, held = bytes_to_move(structure, dtype)
        advance = iterate(structure, dtype)
        seconds, copied, n_iter = np.inf, 0.0, 2
        for batch in range(n_batches + 1):
            started = time.perf_counter()
            advance(n_iter)
            an_iteration = (time.perf_counter() - started) / n_iter
            n_iter = max(2, int(BATCH_SECONDS / an_iteration))
            if batch > 0:  # the first batch loads the kernel and sets the number of iterations
                seconds = min(seconds, an_iteration)
                copied = max(copied, copy_bandwidth(held, BATCH_SECONDS))
        return {
            "features": f"{structure.n_features:,}",
            "seconds": seconds,
            "ns per feature": 1e9 * seconds / structure.n_features,
            "MB of arrays": held / 1e6,
            "GB/s": moved / seconds / 1e9,
            "copy GB/s": copied / 1e9,
            "share": moved / seconds / copied,
        }

    return job
