"""Operations on vectors, in one pass through memory where NumPy needs several; vectors may lie on a GPU.

Long vectors are shared out among threads. They are cut at multiples of `SUMMED` entries, and sums are sums of
such pieces: the bits do not depend on the number of threads.

Kernels take views of their pieces and count from 0: where the compiler cannot rule out negative indices, it
does not use vector units.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.devices import on_gpu
from spcatv._util.types import Array, FloatArray
from spcatv.kernels.compiled import read_only
from spcatv.kernels.cuda import vectors as cuda_vectors
from spcatv.kernels.thread_pool import careful_shared_kernel, own_range, run_on_ranges, shared_kernel

# Entries that are added up before they are added to the rest.
SUMMED = 1 << 14


@shared_kernel
def _add_two(number: int, n_threads: int, a: float, x: Any, b: float, y: Any, out: Any) -> None:
    first, last = own_range(number, n_threads, len(out), SUMMED)
    own_x, own_y, own_out = x[first:last], y[first:last], out[first:last]
    for j in range(len(own_out)):
        own_out[j] = a * own_x[j] + b * own_y[j]


@careful_shared_kernel
def _sums(number: int, n_threads: int, x: Any, shift: float, sums: Any) -> None:
    """Add up x, |x| and ``(x - shift)^2`` for every piece of the vector."""
    first, last = own_range(number, n_threads, len(x), SUMMED)
    for begin in range(first, last, SUMMED):
        total = 0.0
        magnitude = 0.0
        squares = 0.0
        piece = x[begin : min(begin + SUMMED, last)]
        for j in range(len(piece)):
            total += piece[j]
            magnitude += abs(piece[j])
            squares += (piece[j] - shift) * (piece[j] - shift)
        of_piece = sums[begin // SUMMED]
        of_piece[0], of_piece[1], of_piece[2] = total, magnitude, squares


def _summed(x: FloatArray, shift: float = 0.0) -> FloatArray:
    """Return sums of x, |x| and ``(x - shift)^2``, shape (3,)."""
    if on_gpu(x):
        return cuda_vectors.sums(x, shift)
    sums = np.zeros((-(-len(x) // SUMMED), 3))
    run_on_ranges(_sums, (read_only(x), shift, sums), len(x), cut=SUMMED)
    return np.asarray(sums.sum(axis=0))


def weighted_sum(a: float, x: FloatArray, b: float, y: FloatArray) -> FloatArray:
    """Return ``a x + b y`` of two vectors, in the precision of x, in one pass."""
    out = np.empty_like(x)
    if on_gpu(x):
        cuda_vectors.add_two(a, x, b, y, out)
        return out
    run_on_ranges(_add_two, (a, read_only(x), b, read_only(y), out), len(out), cut=SUMMED)
    return out


def add_multiple(out: FloatArray, a: float, x: FloatArray) -> None:
    """``out += a x`` of two vectors in float64, in place."""
    if on_gpu(out):
        cuda_vectors.add_two(1.0, out, a, x, out)
    else:
        run_on_ranges(_add_two, (1.0, read_only(out), a, read_only(x), out), len(out), cut=SUMMED)


def squared_length(x: FloatArray) -> float:
    """``x'x`` of a vector in float64."""
    return float(_summed(x)[2])


def inner_product(x: FloatArray, y: FloatArray) -> float:
    """``x'y`` of two vectors in float64."""
    return float(inner_products(x[np.newaxis], y)[0]) if on_gpu(x) else float(x @ y)


def inner_products(rows: FloatArray, x: FloatArray) -> FloatArray:
    """``rows @ x`` for a matrix (K, P) and a vector in float64; a NumPy array, shape (K,)."""
    return cuda_vectors.inner_products(rows, x) if on_gpu(x) else rows @ x


def absolute_sum(x: FloatArray) -> float:
    """``||x||_1`` of a vector in float64."""
    return float(_summed(x)[1])


def lengths(x: FloatArray) -> tuple[float, float]:
    """``||x||_1`` and ``x'x`` of a vector in float64, in one pass."""
    _, magnitude, squares = _summed(x).tolist()
    return magnitude, squares


def standard_deviation(x: FloatArray) -> float:
    """Return the standard deviation of the entries of a vector in float64."""
    mean = _summed(x)[0] / len(x)
    return float(np.sqrt(_summed(x, mean)[2] / len(x)))


def all_finite(array: Array) -> bool:
    """Return whether an array of floats in C order has neither NaN nor infinity."""
    flat = read_only(array.reshape(-1))
    n_finite = np.zeros(-(-len(flat) // SUMMED), dtype=np.int64)
    run_on_ranges(_count_finite, (flat, np.finfo(flat.dtype).max, n_finite), len(flat), cut=SUMMED)
    return int(n_finite.sum()) == len(flat)


@careful_shared_kernel
def _count_finite(number: int, n_threads: int, flat: Any, largest: Any, n_finite: Any) -> None:
    first, last = own_range(number, n_threads, len(flat), SUMMED)
    for begin in range(first, last, SUMMED):
        n = 0
        piece = flat[begin : min(begin + SUMMED, last)]
        for j in range(len(piece)):
            n += abs(piece[j]) <= largest
        n_finite[begin // SUMMED] = n


def clipped(z: FloatArray, bound: float, positive: bool) -> FloatArray:
    """Return ``z - S(z, bound)``, what soft thresholding removes: z clipped at the bound."""
    return np.minimum(z, bound) if positive else np.clip(z, -bound, bound)


def order_statistic(x: FloatArray, k: int) -> tuple[float, float]:
    """Return the entry of a vector with k smaller or equal ones before it in order, and the largest one."""
    if on_gpu(x):
        ordered = np.sort(x)
        return float(ordered[k]), float(ordered[-1])
    parted = np.partition(x, k)
    return float(parted[k]), float(parted[k:].max())


def counts(x: FloatArray, *bounds: float) -> list[int]:
    """Count the entries of a float64 vector of magnitude up to each of at most six bounds."""
    if on_gpu(x):
        return cuda_vectors.counts(x, bounds)
    found = np.zeros((-(-len(x) // SUMMED), len(bounds)), dtype=np.int64)
    run_on_ranges(_count, (read_only(x), np.array(bounds), found), len(x), cut=SUMMED)
    counted: list[int] = found.sum(axis=0).tolist()
    return counted


@careful_shared_kernel
def _count(number: int, n_threads: int, x: Any, bounds: Any, found: Any) -> None:
    first, last = own_range(number, n_threads, len(x), SUMMED)
    for begin in range(first, last, SUMMED):
        piece = x[begin : min(begin + SUMMED, last)]
        for k in range(len(bounds)):
            n = 0
            for j in range(len(piece)):
                n += abs(piece[j]) <= bounds[k]
            found[begin // SUMMED, k] = n
