"""Operations on vectors in one pass through memory, for which NumPy needs several."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.kernels.compiled import careful_kernel, kernel


@kernel
def _add_two(a: float, x: Any, b: float, y: Any, out: Any) -> None:
    for j in range(len(out)):
        out[j] = a * x[j] + b * y[j]


def weighted_sum(a: float, x: FloatArray, b: float, y: FloatArray) -> FloatArray:
    """``a x + b y`` of two vectors, in the precision of x, in one pass."""
    out = np.empty_like(x)
    _add_two(a, x, b, y, out)
    return out


@careful_kernel
def count_above(x: Any, bound: float) -> tuple[int, int]:
    """Count the entries that are not zero, and those with a magnitude above a bound."""
    n_nonzero = 0
    n_above = 0
    for j in range(len(x)):
        n_nonzero += x[j] != 0
        n_above += abs(x[j]) > bound
    return n_nonzero, n_above


@careful_kernel
def absolute_sum(x: Any) -> float:
    """``sum_j |x_j|``; that of BLAS depends on where x lies in memory."""
    total = 0.0
    for j in range(len(x)):
        total += abs(x[j])
    return total
