"""Vectors of length P in the memory of a GPU: sums over them, and their combinations, in float64."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.kernels.cuda_launch import gpu_kernel, launch, summed

# Bounds for which magnitudes are counted at once.
MOST_BOUNDS = 6


def inner_product(x: FloatArray, y: FloatArray) -> float:
    """``x'y`` in float64, for vectors on the GPU."""
    arguments = gpu_kernel("inner_product", "vectors"), len(x), x, y
    return summed(1, len(x), partial(_launch_sums, *arguments))[0]


def sums(x: FloatArray, shift: float) -> list[float]:
    """Sums of x, |x| and ``(x - shift)^2`` in float64, for a vector on the GPU."""
    arguments = gpu_kernel("sums", "vectors"), len(x), x, np.float64(shift)
    return summed(3, len(x), partial(_launch_sums, *arguments))


def counts(x: FloatArray, bounds: tuple[float, ...]) -> list[float]:
    """How many magnitudes are at most each of at most `MOST_BOUNDS` bounds, for a vector on the GPU."""
    padded = (*bounds, *(MOST_BOUNDS - len(bounds)) * (-1.0,))
    arguments = gpu_kernel("counts", "vectors"), len(x), x, *(np.float64(bound) for bound in padded)
    return summed(MOST_BOUNDS, len(x), partial(_launch_sums, *arguments))[: len(bounds)]


def _launch_sums(kernel: Any, n: int, *arguments: Any) -> None:
    """Run a kernel that leaves pieces of sums over n items; its last arguments are threads and pieces."""
    *inputs, n_threads, pieces = arguments
    launch(kernel, n_threads, np.int32(n), *inputs, pieces)


def add_two(a: float, x: FloatArray, b: float, y: FloatArray, out: FloatArray) -> None:
    """``out = a x + b y`` in float64, for vectors on the GPU; out may be x or y."""
    arguments = np.int32(len(x)), np.float64(a), x, np.float64(b), y, out
    launch(gpu_kernel("add_two", "vectors"), len(x), *arguments)


def smooth_shares(
    y: FloatArray, pull: FloatArray, v: FloatArray, threshold: float, positive: bool
) -> tuple[float, float]:
    """As `spcatv.kernels.judge.smooth_shares`, for vectors on the GPU."""
    function = gpu_kernel("smooth_shares", "vectors")
    arguments = np.int32(len(v)), y, pull, v, np.float64(threshold), np.int32(positive)
    gap, value = summed(2, len(v), lambda n_threads, sums: launch(function, n_threads, *arguments, sums))
    return gap, value
