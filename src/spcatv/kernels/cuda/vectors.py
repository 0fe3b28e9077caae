"""Vectors of length P in the memory of a GPU: sums over them, and their combinations, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.kernels.cuda.launch import few_pieces_of, gpu_kernel, launch, summed

# Bounds for which magnitudes are counted at once.
MOST_BOUNDS = 6


def inner_products(rows: FloatArray, x: FloatArray) -> FloatArray:
    """``rows @ x`` in float64, for a matrix and a vector on the GPU; a NumPy array."""
    return _summed("inner_products", len(rows), len(x), np.int32(len(rows)), rows, x)


def sums(x: FloatArray, shift: float) -> FloatArray:
    """Return sums of x, |x| and ``(x - shift)^2`` in float64, for a vector on the GPU; a NumPy array."""
    return _summed("sums", 3, len(x), x, np.float64(shift))


def counts(x: FloatArray, bounds: tuple[float, ...]) -> list[int]:
    """Count the magnitudes up to each of at most `MOST_BOUNDS` bounds, for a vector on the GPU."""
    padded = (*bounds, *(MOST_BOUNDS - len(bounds)) * (-1.0,))
    found = _summed("counts", MOST_BOUNDS, len(x), x, *(np.float64(bound) for bound in padded))
    return [int(count) for count in found[: len(bounds)]]


def smooth_shares(
    y: FloatArray, pull: FloatArray, v: FloatArray, threshold: float, positive: bool
) -> tuple[float, float]:
    """Do `spcatv.kernels.duality_gap.smooth_shares` for vectors on the GPU."""
    arguments = y, pull, v, np.float64(threshold), np.int32(positive)
    gap, value = _summed("smooth_shares", 2, len(v), *arguments).tolist()
    return gap, value


def _summed(name: str, n_sums: int, n: int, *arguments: Any) -> FloatArray:
    """Sum over n items by a kernel that takes n, the arguments, and an array for its pieces."""
    n_threads = few_pieces_of(n)
    run = partial(launch, gpu_kernel(name, "vectors"), n_threads, np.int32(n), *arguments)
    return summed(n_sums, n_threads, run)


def add_two(a: float, x: FloatArray, b: float, y: FloatArray, out: FloatArray) -> None:
    """``out = a x + b y`` in float64, for vectors on the GPU; out may be x or y."""
    arguments = np.int32(len(x)), np.float64(a), x, np.float64(b), y, out
    launch(gpu_kernel("add_two", "vectors"), len(x), *arguments)
