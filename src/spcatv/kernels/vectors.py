"""Operations on vectors, in one pass through memory where NumPy needs several; vectors may lie on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy, ddot

from spcatv._util.devices import on_gpu
from spcatv._util.types import FloatArray
from spcatv.kernels.compiled import careful_kernel, kernel
from spcatv.kernels.cuda import inner_product


@kernel
def _add_two(a: float, x: Any, b: float, y: Any, out: Any) -> None:
    for j in range(len(out)):
        out[j] = a * x[j] + b * y[j]


def weighted_sum(a: float, x: FloatArray, b: float, y: FloatArray) -> FloatArray:
    """``a x + b y`` of two vectors, in the precision of x, in one pass."""
    if on_gpu(x):
        total = a * x
        total += b * y
        return total
    out = np.empty_like(x)
    _add_two(a, x, b, y, out)
    return out


def add_multiple(out: FloatArray, a: float, x: FloatArray) -> None:
    """``out += a x`` of two vectors in float64, in place."""
    if on_gpu(out):
        out += a * x
    else:
        daxpy(x, out, a=a)


def squared_length(x: FloatArray) -> float:
    """``x'x`` of a vector in float64."""
    return inner_product(x, x)[0] if on_gpu(x) else float(ddot(x, x))


def absolute_sum(x: FloatArray) -> float:
    """``||x||_1`` of a vector in float64."""
    return inner_product(x, x)[1] if on_gpu(x) else float(_absolute_sum(x))


def count_above(x: FloatArray, bound: float) -> int:
    """Number of entries with a magnitude above a bound."""
    return int((np.abs(x) > bound).sum()) if on_gpu(x) else int(_count_above(x, bound))


@careful_kernel
def _count_above(x: Any, bound: float) -> int:
    n_above = 0
    for j in range(len(x)):
        n_above += abs(x[j]) > bound
    return n_above


@careful_kernel
def _absolute_sum(x: Any) -> float:
    # that of BLAS depends on where x lies in memory
    total = 0.0
    for j in range(len(x)):
        total += abs(x[j])
    return total
