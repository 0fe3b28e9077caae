"""Operations on vectors, in one pass through memory where NumPy needs several; vectors may lie on a GPU.

Long vectors are shared out among threads. They are cut at multiples of `SUMMED` entries, and sums are sums of
such pieces: the bits do not depend on the number of threads.

Kernels take views of their pieces and count from 0: where the compiler cannot rule out negative indices, it
does not use vector units.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from spcatv._util.devices import beside, on_gpu
from spcatv._util.types import Array, FloatArray
from spcatv.kernels.compiled import read_only
from spcatv.kernels.cuda.launch import few_pieces_of, gpu_kernel, launch, summed
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


def summed_over_pieces(kernel: Any, name: str, n_sums: int, x: Array, *arguments: Any) -> FloatArray:
    """Return sums over the entries of x, shape (n_sums,), by a shared kernel or by the GPU kernel `name`.

    Both take x, the arguments, and an array for their sums over pieces of x.
    """
    if on_gpu(x):
        n_threads = few_pieces_of(len(x))
        run = partial(launch, gpu_kernel(name, "vectors"), n_threads, np.int32(len(x)), x, *arguments)
        return summed(n_sums, n_threads, run)
    sums = np.zeros((-(-len(x) // SUMMED), n_sums))
    fixed = (read_only(value) if isinstance(value, np.ndarray) else value for value in (x, *arguments))
    run_on_ranges(kernel, (*fixed, sums), len(x), cut=SUMMED)
    return np.asarray(sums.sum(axis=0))


def _summed(x: FloatArray, shift: float = 0.0) -> FloatArray:
    """Return sums of x, |x| and ``(x - shift)^2``, shape (3,)."""
    return summed_over_pieces(_sums, "sums", 3, x, np.float64(shift))


def _add(a: float, x: FloatArray, b: float, y: FloatArray, out: FloatArray) -> FloatArray:
    """``out = a x + b y``; out may be x."""
    if on_gpu(x):
        arguments = np.int32(len(x)), np.float64(a), x, np.float64(b), y, out
        launch(gpu_kernel("add_two", "vectors"), len(x), *arguments)
    else:
        run_on_ranges(_add_two, (a, read_only(x), b, read_only(y), out), len(out), cut=SUMMED)
    return out


def weighted_sum(a: float, x: FloatArray, b: float, y: FloatArray) -> FloatArray:
    """Return ``a x + b y`` of two vectors, in the precision of x, in one pass."""
    return _add(a, x, b, y, np.empty_like(x))


def add_multiple(out: FloatArray, a: float, x: FloatArray) -> None:
    """``out += a x`` of two vectors in float64, in place."""
    _add(1.0, out, a, x, out)


def squared_length(x: FloatArray) -> float:
    """``x'x`` of a vector in float64."""
    return float(_summed(x)[2])


def inner_product(x: FloatArray, y: FloatArray) -> float:
    """``x'y`` of two vectors in float64."""
    return float(inner_products(x[np.newaxis], y)[0]) if on_gpu(x) else float(x @ y)


def inner_products(rows: FloatArray, x: FloatArray) -> FloatArray:
    """``rows @ x`` for a matrix (K, P) and a vector in float64; a NumPy array, shape (K,)."""
    if not on_gpu(x):
        return rows @ x
    return summed_over_pieces(None, "inner_products", len(rows), x, np.int32(len(rows)), rows)


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
    flat = array.reshape(-1)
    return counts(flat, float(np.finfo(flat.dtype).max)) == [len(flat)]


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
    """Count the entries of a vector of magnitude up to each bound."""
    limits = np.int32(len(bounds)), beside(np.array(bounds, x.dtype), x)
    return [int(count) for count in summed_over_pieces(_count, "counts", len(bounds), x, *limits)]


@careful_shared_kernel
def _count(number: int, n_threads: int, x: Any, n_bounds: int, bounds: Any, found: Any) -> None:
    first, last = own_range(number, n_threads, len(x), SUMMED)
    for begin in range(first, last, SUMMED):
        piece = x[begin : min(begin + SUMMED, last)]
        for k in range(n_bounds):
            n = 0
            for j in range(len(piece)):
                n += abs(piece[j]) <= bounds[k]
            found[begin // SUMMED, k] = n
