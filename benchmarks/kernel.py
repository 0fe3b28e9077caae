"""Time of a primal-dual iteration and the bytes it must move: the only module that knows the kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.machine import copy_bandwidth
from spcatv.structure import GridStructure, Structure

# Seconds that one timed batch of iterations takes.
BATCH_SECONDS = 0.05


def iterate(structure: Structure, dtype: str) -> Callable[[int], None]:
    """``advance(n)`` does n iterations on a problem without the l1 norm, in which every loading moves."""
    from spcatv.kernels import LoadingTerms, StepSizes, workspace_for
    from spcatv.problem import TotalVariation

    terms = LoadingTerms(coupling=2.0, threshold=0.0, positive=False, penalty=TotalVariation())
    workspace = workspace_for(structure, terms, np.dtype(dtype))
    y = np.random.default_rng(0).standard_normal(structure.n_features)
    workspace.set_target(y)
    workspace.set_state(0.5 * y, np.zeros(structure.n_rows))
    steps = StepSizes(tau=0.05, sigma=1.0 / (0.05 * terms.coupling * structure.norm_squared()), rho=1.9)
    return lambda n_iter: workspace.advance(n_iter, steps)


def bytes_to_move(structure: Structure, dtype: str) -> tuple[int, int]:
    """Bytes that an iteration must read and write, and the bytes of the arrays it works on.

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
    """A job that times iterations on a structure, alternating with copies of arrays of the same size."""

    def job(make_structure: Callable[[], Structure], dtype: str) -> dict[str, Any]:
        structure = make_structure()
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
            "n_features": structure.n_features,
            "seconds": seconds,
            "bytes": moved,
            "working_set": held,
            "bytes_per_second": moved / seconds,
            "copy_bytes_per_second": copied,
            "share": moved / seconds / copied,
        }

    return job
