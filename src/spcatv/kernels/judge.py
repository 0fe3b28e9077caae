"""The exact gap in compiled loops: in float64, in one pass, and NaN stays NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.devices import on_gpu
from spcatv._util.types import FloatArray
from spcatv.kernels import cuda, cuda_vectors
from spcatv.kernels.compiled import careful_kernel
from spcatv.kernels.team import ALL, on_ranges, own_range, run_shares, this_kernel
from spcatv.structure import Structure
from spcatv.structure.penalty import DualBall

# Entries that are added up before they are added to the rest, which costs fewer digits, too.
SUMMED = 1 << 14


@careful_kernel
def project_groups(group_ptr: Any, radius: float, dual: Any) -> None:
    """Replace dual, in place, by the closest point with ``||dual_g||_2 <= radius`` for every group."""
    for g in range(len(group_ptr) - 1):
        squares = 0.0
        for r in range(group_ptr[g], group_ptr[g + 1]):
            squares += dual[r] * dual[r]
        factor = 1.0 if squares <= radius * radius else radius / np.sqrt(squares)
        for r in range(group_ptr[g], group_ptr[g + 1]):
            dual[r] *= factor


def structured_value(structure: Structure, v: FloatArray, ball: DualBall) -> float:
    """``h(Av)``, in one pass."""
    if on_gpu(v):
        return cuda.structured_value(structure, v, ball)
    matrix, group_ptr = structure.matrix, structure.group_ptr
    sums = np.zeros(-(-structure.n_groups // SUMMED))
    arguments = (group_ptr, matrix.indptr, matrix.indices, matrix.data, v, ball.value_factors(), sums)
    on_ranges(_structured_value, arguments, structure.n_groups, cut=SUMMED)
    return float(sums.sum())


@careful_kernel
def _structured_value(
    number: int,
    n_threads: int,
    board: Any,
    group_ptr: Any,
    indptr: Any,
    indices: Any,
    data: Any,
    v: Any,
    numbers: Any,
    sums: Any,
) -> None:
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    slope, corner, curve, _half = numbers
    first, last = own_range(number, n_threads, len(group_ptr) - 1, SUMMED)
    for begin in range(first, last, SUMMED):
        value = 0.0
        for g in range(begin, min(begin + SUMMED, last)):
            squares = 0.0
            for r in range(group_ptr[g], group_ptr[g + 1]):
                row = 0.0
                for e in range(indptr[r], indptr[r + 1]):
                    row += data[e] * v[indices[e]]
                squares += row * row
            norm = np.sqrt(squares)
            inner = min(norm, corner)
            value += slope * (norm - inner) + curve * inner * inner
        sums[begin // SUMMED] = value


def structured_shares(
    structure: Structure, v: FloatArray, dual: FloatArray, ball: DualBall
) -> tuple[float, float, float]:
    """``h(Av)``, ``h(Av) + h*(dual) - dual'Av`` and the largest group norm of the dual variable."""
    matrix = structure.matrix
    shares: tuple[float, float, float] = _structured_shares(
        structure.group_ptr, matrix.indptr, matrix.indices, matrix.data, v, dual, ball.value_factors()
    )
    return shares


@careful_kernel
def _structured_shares(
    group_ptr: Any, indptr: Any, indices: Any, data: Any, v: Any, dual: Any, numbers: Any
) -> tuple[float, float, float]:
    slope, corner, curve, half = numbers
    value = 0.0
    slack = 0.0
    largest = 0.0
    for g in range(len(group_ptr) - 1):
        squares = 0.0
        share = 0.0
        own = 0.0
        for r in range(group_ptr[g], group_ptr[g + 1]):
            row = 0.0
            for e in range(indptr[r], indptr[r + 1]):
                row += data[e] * v[indices[e]]
            squares += row * row
            share += (half * dual[r] - row) * dual[r]
            own += dual[r] * dual[r]
        norm = np.sqrt(squares)
        inner = min(norm, corner)
        of_group = slope * (norm - inner) + curve * inner * inner
        value += of_group
        slack += of_group + share
        if own > largest or np.isnan(own):
            largest = own
    return value, slack, np.sqrt(largest)


def smooth_shares(
    y: FloatArray, pull: FloatArray, v: FloatArray, threshold: float, positive: bool
) -> tuple[float, float]:
    """``q = sum_j (v_j - w_j)^2 + k |v_j| - b_j v_j`` and the smooth part of F, for ``y - pull = 2w + b``."""
    if on_gpu(v):
        return cuda_vectors.smooth_shares(y, pull, v, threshold, positive)
    sums = np.zeros((-(-len(v) // SUMMED), 2))
    on_ranges(_smooth_shares, (y, pull, v, threshold, positive, sums), len(v), cut=SUMMED)
    gap, value = sums.sum(axis=0)
    return float(gap), float(value)


@careful_kernel
def _smooth_shares(
    number: int,
    n_threads: int,
    board: Any,
    y: Any,
    pull: Any,
    v: Any,
    threshold: float,
    positive: bool,
    sums: Any,
) -> None:
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    first, last = own_range(number, n_threads, len(v), SUMMED)
    for begin in range(first, last, SUMMED):
        gap = 0.0
        value = 0.0
        end = min(begin + SUMMED, last)
        # views, so that the loop uses vector units (see `vectors`)
        own_y, own_pull, own_v = y[begin:end], pull[begin:end], v[begin:end]
        for j in range(len(own_v)):
            z = own_y[j] - own_pull[j]
            b = min(z, threshold) if positive else min(max(z, -threshold), threshold)
            distance = own_v[j] - 0.5 * (z - b)
            gap += distance * distance + (threshold * abs(own_v[j]) - b * own_v[j])
            value += 0.5 * (own_v[j] - own_y[j]) * (own_v[j] - own_y[j]) + 0.5 * own_v[j] * own_v[j]
        sums[begin // SUMMED, 0], sums[begin // SUMMED, 1] = gap, value
