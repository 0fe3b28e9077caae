"""The kernel for masked grids: one sweep over the padded box an iteration.

A slab's loadings are updated first, then the dual variable of the slab before it, whose forward
neighbours are by then known: so every array passes through the cache once an iteration. Inside a
slab the work is done span by span in short loops over consecutive cells with few arrays each, which
is what the compiler needs to use vector instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv.kernels.base import NO_LOWER_BOUND, FloatArray, GapShares, Setting, Steps
from spcatv.kernels.box import LONGEST_SPAN, lay_out
from spcatv.kernels.compiled import kernel
from spcatv.structure import GridStructure

# How the dual variable is kept in its set.
ISOTROPIC, ANISOTROPIC, GRAPHNET = 0, 1, 2


@kernel
def _subtract_pull(z: Any, alpha: Any, weight: float, stride: int, first: int, count: int) -> None:
    """Subtract one axis of ``c A'alpha`` from z on the cells of a span."""
    for j in range(count):
        i = first + j
        z[j] -= weight * (alpha[i - stride] - alpha[i])


@kernel
def _residual(z: Any, y: Any, alpha: Any, weights: Any, strides: Any, first: int, count: int) -> None:
    """``z = y - c A'alpha`` on the cells of a span."""
    for j in range(count):
        z[j] = y[first + j]
    for axis in range(len(strides)):
        _subtract_pull(z, alpha[axis], weights[axis], strides[axis], first, count)


@kernel
def _primal_step(v: Any, bar: Any, z: Any, first: int, count: int, scalars: Any) -> None:
    tau, low, high, shrink, rho = scalars
    for j in range(count):
        i = first + j
        moved = v[i] + tau * z[j]
        candidate = (moved - min(max(moved, low), high)) * shrink
        bar[i] = candidate + candidate - v[i]
        v[i] += rho * (candidate - v[i])


@kernel
def _add_square(
    norm: Any, bar: Any, alpha: Any, edge: Any, weight: float, stride: int, first: int, count: int
) -> None:
    for j in range(count):
        i = first + j
        moved = (alpha[i] + weight * (bar[i + stride] - bar[i])) * edge[i]
        norm[j] += moved * moved


@kernel
def _relax(
    factor: Any,
    bar: Any,
    alpha: Any,
    edge: Any,
    weight: float,
    stride: int,
    first: int,
    count: int,
    rho: float,
) -> None:
    """``alpha += rho (factor * moved - alpha)`` along one axis."""
    for j in range(count):
        i = first + j
        moved = (alpha[i] + weight * (bar[i + stride] - bar[i])) * edge[i]
        alpha[i] += rho * (factor[j] * moved - alpha[i])


@kernel
def _dual_step(
    factor: Any,
    bar: Any,
    alpha: Any,
    edges: Any,
    weights: Any,
    strides: Any,
    first: int,
    count: int,
    scalars: Any,
) -> None:
    zero, one, rho, damping, kind = scalars
    n_axes = len(strides)
    if kind == ISOTROPIC:
        factor[:count] = zero
        for axis in range(n_axes):
            _add_square(factor, bar, alpha[axis], edges[axis], weights[axis], strides[axis], first, count)
        for j in range(count):
            factor[j] = one / np.sqrt(max(one, factor[j]))
    elif kind == GRAPHNET:
        factor[:count] = damping
    for axis in range(n_axes):
        if kind == ANISOTROPIC:
            factor[:count] = zero
            _add_square(factor, bar, alpha[axis], edges[axis], weights[axis], strides[axis], first, count)
            for j in range(count):
                factor[j] = one / np.sqrt(max(one, factor[j]))
        _relax(factor, bar, alpha[axis], edges[axis], weights[axis], strides[axis], first, count, rho)


@kernel
def _sweep(arrays: Any, layout: Any, weights: Any, primal: Any, dual: Any, n_iter: int) -> None:
    y, v, bar, alpha, scratch = arrays
    edges, strides, start, stop, slab_ptr = layout
    pull_weights, step_weights = weights
    n_slabs = len(slab_ptr) - 1
    for _ in range(n_iter):
        for slab in range(n_slabs + 1):
            if slab < n_slabs:
                for span in range(slab_ptr[slab], slab_ptr[slab + 1]):
                    first, count = start[span], stop[span] - start[span]
                    _residual(scratch, y, alpha, pull_weights, strides, first, count)
                    _primal_step(v, bar, scratch, first, count, primal)
            if slab > 0:
                for span in range(slab_ptr[slab - 1], slab_ptr[slab]):
                    first, count = start[span], stop[span] - start[span]
                    _dual_step(scratch, bar, alpha, edges, step_weights, strides, first, count, dual)


@kernel
def _smooth_shares(arrays: Any, layout: Any, pull_weights: Any, scalars: Any) -> tuple[float, float]:
    """Write w into `bar` and return q for v and ``||w||^2``."""
    y, v, bar, alpha, scratch = arrays
    _edges, strides, start, stop, _slab_ptr = layout
    half, low, high = scalars
    smooth = 0.0
    squares = 0.0
    for span in range(len(start)):
        first, count = start[span], stop[span] - start[span]
        _residual(scratch, y, alpha, pull_weights, strides, first, count)
        for j in range(count):
            i = first + j
            b = min(max(scratch[j], low), high)
            w = half * (scratch[j] - b)
            bar[i] = w
            smooth += (v[i] - w) * (v[i] - w) + (high * abs(v[i]) - b * v[i])
            squares += w * w
    return smooth, squares


@kernel
def _structured_share(x: Any, arrays: Any, layout: Any, axis_weights: Any, zero: float, kind: int) -> float:
    """``s(x) - alpha'Ax`` (or its GraphNet counterpart) summed over all voxels, without the factor c."""
    _y, _v, _bar, alpha, _scratch = arrays
    edges, strides, start, stop, _slab_ptr = layout
    total = 0.0
    for span in range(len(start)):
        for i in range(start[span], stop[span]):
            squares = zero
            share = zero
            for axis in range(len(strides)):
                row = axis_weights[axis] * (x[i + strides[axis]] - x[i]) * edges[axis, i]
                dual = alpha[axis, i]
                if kind == GRAPHNET:
                    share += (row - dual / 2) * (row - dual / 2)
                elif kind == ANISOTROPIC:
                    share += abs(row) - row * dual
                else:
                    squares += row * row
                    share -= row * dual
            total += share + np.sqrt(squares)
    return total


class GridWorkspace:
    """Workspace on the padded box of a grid without periodic axes."""

    def __init__(self, structure: GridStructure, setting: Setting, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._scalar: Any = self._dtype.type
        self._setting = setting
        self._box = box = lay_out(structure)
        self._axis_weights = np.asarray(structure.axis_weights, dtype=self._dtype)
        self._pull_weights = (setting.tv * np.asarray(structure.axis_weights)).astype(self._dtype)
        self._kind = GRAPHNET if setting.graphnet else ISOTROPIC if structure.isotropic else ANISOTROPIC
        self._y, self._v, self._bar = np.zeros((3, box.n_cells), dtype=self._dtype)
        self._alpha = np.zeros((len(box.strides), box.n_cells), dtype=self._dtype)
        self._arrays = (self._y, self._v, self._bar, self._alpha, np.zeros(LONGEST_SPAN, dtype=self._dtype))
        self._layout = (box.edge_bits, box.strides, box.start, box.stop, box.slab_ptr)

    def _typed(self, *scalars: float) -> tuple[Any, ...]:
        return tuple(self._scalar(scalar) for scalar in scalars)

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        self._y[self._box.position] = y

    def set_state(self, v: FloatArray, alpha: FloatArray) -> None:
        """Take v and a feasible dual variable."""
        self._v[self._box.position] = v
        by_feature = np.zeros(self._box.edges.shape, dtype=self._dtype)
        by_feature[self._box.edges] = alpha
        self._alpha[:, self._box.position] = by_feature.T

    def advance(self, n_iter: int, steps: Steps) -> None:
        """Do `n_iter` primal-dual iterations."""
        tau, sigma, rho = steps
        threshold = tau * self._setting.l1
        low = NO_LOWER_BOUND if self._setting.positive else -threshold
        primal = self._typed(tau, low, threshold, 1 / (1 + 2 * tau), rho)
        dual = (*self._typed(0, 1, rho, 1 / (1 + 0.5 * sigma)), self._kind)
        weights = (self._pull_weights, (sigma * self._axis_weights).astype(self._dtype))
        _sweep(self._arrays, self._layout, weights, primal, dual, n_iter)

    def gap_shares(self) -> GapShares:
        """Look at the gap of v and of w; afterwards `bar` holds w."""
        tv, l1 = self._setting.tv, self._setting.l1
        low = NO_LOWER_BOUND if self._setting.positive else -l1
        scalars = self._typed(0.5, low, l1)
        smooth, squares = _smooth_shares(self._arrays, self._layout, self._pull_weights, scalars)
        zero = self._scalar(0)
        share_v, share_w = (
            tv * _structured_share(x, self._arrays, self._layout, self._axis_weights, zero, self._kind)
            for x in (self._v, self._bar)
        )
        penalty = 0.0
        if self._setting.graphnet:
            penalty = 0.25 * tv * float(np.square(self._alpha, dtype=np.float64).sum())
        return GapShares(share_v, smooth, share_w, squares, penalty)

    def get_v(self) -> FloatArray:
        """The iterate v."""
        return self._v[self._box.position]

    def get_w(self) -> FloatArray:
        """The minimiser w of the last look."""
        return self._bar[self._box.position]

    def get_alpha(self) -> FloatArray:
        """The dual variable."""
        return self._alpha[:, self._box.position].T[self._box.edges]
