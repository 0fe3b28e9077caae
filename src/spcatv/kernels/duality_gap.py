"""Shares of the exact duality gap in float64, each in one pass; NaN stays NaN."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.types import Array, FloatArray
from spcatv.kernels.compiled import careful_kernel
from spcatv.kernels.thread_pool import careful_shared_kernel, own_range, run_on_ranges
from spcatv.kernels.vectors import SUMMED, summed_over_pieces
from spcatv.structure import Structure
from spcatv.structure.penalty import DualBall


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


def structured_shares(
    structure: Structure,
    v: FloatArray,
    dual: FloatArray | None,
    ball: DualBall,
    rows: tuple[Array, Array, Array] | None = None,
) -> tuple[float, float, float]:
    """``h(Av)``, ``h(Av) + h*(dual) - dual'Av`` and the largest group norm of the dual variable, if given.

    `rows` is the operator in compressed rows, if it is not to be that of the structure in float64.
    """
    if rows is None:
        matrix = structure.matrix
        rows = matrix.indptr, matrix.indices, matrix.data
    n_groups = structure.n_groups
    sums = np.zeros((-(-n_groups // SUMMED), 3))
    arguments = structure.group_ptr, rows, v, dual, ball.value_factors(), sums
    run_on_ranges(_structured_sums, arguments, n_groups, cut=SUMMED)
    value, slack, _ = sums.sum(axis=0).tolist()
    return value, slack, float(np.sqrt(sums[:, 2].max(initial=0.0)))


@careful_shared_kernel
def _structured_sums(
    number: int, n_threads: int, group_ptr: Any, rows: Any, v: Any, dual: Any, numbers: Any, sums: Any
) -> None:
    """Sum the shares of pieces of the groups, and find the largest squared norm of the dual variable."""
    indptr, indices, data = rows
    slope, corner, curve, half = numbers
    first, last = own_range(number, n_threads, len(group_ptr) - 1, SUMMED)
    for begin in range(first, last, SUMMED):
        value, slack, largest = 0.0, 0.0, 0.0
        for g in range(begin, min(begin + SUMMED, last)):
            squares, share, own = 0.0, 0.0, 0.0
            for r in range(group_ptr[g], group_ptr[g + 1]):
                row = 0.0
                for e in range(indptr[r], indptr[r + 1]):
                    row += data[e] * v[indices[e]]
                squares += row * row
                if dual is not None:
                    share += (half * dual[r] - row) * dual[r]
                    own += dual[r] * dual[r]
            norm = np.sqrt(squares)
            inner = min(norm, corner)
            cost = slope * (norm - inner) + curve * inner * inner
            value += cost
            slack += cost + share
            if own > largest or np.isnan(own):
                largest = own
        of_piece = sums[begin // SUMMED]
        of_piece[0], of_piece[1], of_piece[2] = value, slack, largest


def smooth_shares(
    y: FloatArray, pull: FloatArray, v: FloatArray, threshold: float, positive: bool
) -> tuple[float, float]:
    """``q = sum_j (v_j - w_j)^2 + k |v_j| - b_j v_j`` and the smooth part of F, for ``y - pull = 2w + b``."""
    weights = np.float64(threshold), np.int32(positive)
    gap, value = summed_over_pieces(_smooth_shares, "smooth_shares", 2, y, pull, v, *weights).tolist()
    return gap, value


@careful_shared_kernel
def _smooth_shares(
    number: int, n_threads: int, y: Any, pull: Any, v: Any, threshold: float, positive: int, sums: Any
) -> None:
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
