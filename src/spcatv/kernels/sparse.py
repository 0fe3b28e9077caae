"""The kernel for any structure: CSR of A over the groups, CSR of A' over the features."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spcatv._util.types import Array, FloatArray
from spcatv.kernels.base import (
    ExactShares,
    GapShares,
    Setting,
    Steps,
    conjugate,
    feasible_factor,
    no_lower_bound,
)
from spcatv.kernels.compiled import kernel
from spcatv.kernels.judge import project_groups, structured_shares
from spcatv.structure import Structure


@kernel
def _pull(indptr: Any, indices: Any, data: Any, alpha: Any, j: int, zero: float) -> float:
    total = zero
    for e in range(indptr[j], indptr[j + 1]):
        total += data[e] * alpha[indices[e]]
    return total


@kernel
def _primal_pass(
    indptr: Any, indices: Any, data: Any, y: Any, v: Any, bar: Any, alpha: Any, scalars: Any
) -> None:
    zero, tv, tau, low, high, shrink, rho = scalars
    for j in range(len(v)):
        moved = v[j] + tau * (y[j] - tv * _pull(indptr, indices, data, alpha, j, zero))
        candidate = (moved - min(max(moved, low), high)) * shrink
        bar[j] = candidate + candidate - v[j]
        v[j] += rho * (candidate - v[j])


@kernel
def _dual_pass(
    group_ptr: Any, indptr: Any, indices: Any, data: Any, bar: Any, alpha: Any, moved: Any, scalars: Any
) -> None:
    zero, one, sigma, rho, damping, graphnet = scalars
    for g in range(len(group_ptr) - 1):
        squares = zero
        for r in range(group_ptr[g], group_ptr[g + 1]):
            row = _pull(indptr, indices, data, bar, r, zero)
            moved[r] = alpha[r] + sigma * row
            squares += moved[r] * moved[r]
        factor = damping if graphnet else one / max(one, np.sqrt(squares))
        for r in range(group_ptr[g], group_ptr[g + 1]):
            alpha[r] += rho * (factor * moved[r] - alpha[r])


@kernel
def _smooth_shares(
    indptr: Any, indices: Any, data: Any, y: Any, v: Any, w: Any, alpha: Any, scalars: Any
) -> tuple[float, float]:
    zero, half, tv, low, high = scalars
    smooth = 0.0
    squares = 0.0
    for j in range(len(v)):
        z = y[j] - tv * _pull(indptr, indices, data, alpha, j, zero)
        b = min(max(z, low), high)
        w[j] = half * (z - b)
        smooth += (v[j] - w[j]) * (v[j] - w[j]) + (high * abs(v[j]) - b * v[j])
        squares += w[j] * w[j]
    return smooth, squares


@kernel
def _structured_share(
    group_ptr: Any, indptr: Any, indices: Any, data: Any, v: Any, alpha: Any, zero: float, graphnet: bool
) -> float:
    total = 0.0
    for g in range(len(group_ptr) - 1):
        squares = zero
        inner = zero
        mismatch = zero
        for r in range(group_ptr[g], group_ptr[g + 1]):
            row = _pull(indptr, indices, data, v, r, zero)
            squares += row * row
            inner += row * alpha[r]
            off = row - alpha[r] / 2
            mismatch += off * off
        total += mismatch if graphnet else np.sqrt(squares) - inner
    return total


class SparseWorkspace:
    """Workspace over the operator as it is; works for every structure."""

    def __init__(self, structure: Structure, setting: Setting, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._scalar: Any = self._dtype.type
        self._setting = setting
        self._structure = structure
        self._group_ptr = structure.group_ptr
        self._rows = _csr_parts(structure.matrix, self._dtype)
        self._columns = _csr_parts(structure.matrix.T.tocsr(), self._dtype)
        self._y, self._v, self._w, self._bar = np.zeros((4, structure.n_features), dtype=self._dtype)
        self._alpha, self._moved = np.zeros((2, structure.n_rows), dtype=self._dtype)
        self._low = no_lower_bound(self._dtype) if setting.positive else -setting.l1

    def _typed(self, *scalars: float) -> tuple[Any, ...]:
        return tuple(self._scalar(scalar) for scalar in scalars)

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        self._y[:] = y

    def set_state(self, v: FloatArray, alpha: FloatArray) -> None:
        """Take v and a feasible dual variable."""
        self._v[:] = v
        self._alpha[:] = alpha

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        self._v[:] = 0
        self._alpha[:] = 0

    def advance(self, n_iter: int, steps: Steps) -> None:
        """Do `n_iter` primal-dual iterations."""
        tau, sigma, rho = steps
        tv, l1 = self._setting.tv, self._setting.l1
        low = no_lower_bound(self._dtype) if self._setting.positive else -tau * l1
        primal = self._typed(0, tv, tau, low, tau * l1, 1 / (1 + 2 * tau), rho)
        dual = (*self._typed(0, 1, sigma, rho, 1 / (1 + 0.5 * sigma)), self._setting.graphnet)
        for _ in range(n_iter):
            _primal_pass(*self._columns, self._y, self._v, self._bar, self._alpha, primal)
            _dual_pass(self._group_ptr, *self._rows, self._bar, self._alpha, self._moved, dual)

    def gap_shares(self) -> GapShares:
        """Look at the gap of v and of w."""
        tv, graphnet = self._setting.tv, self._setting.graphnet
        scalars = self._typed(0, 0.5, tv, self._low, self._setting.l1)
        smooth, squares = _smooth_shares(*self._columns, self._y, self._v, self._w, self._alpha, scalars)
        zero = self._scalar(0)
        share_v, share_w = (
            tv * _structured_share(self._group_ptr, *self._rows, x, self._alpha, zero, graphnet)
            for x in (self._v, self._w)
        )
        alpha = self._alpha.astype(np.float64)
        return GapShares(share_v, smooth, share_w, squares, conjugate(tv, graphnet, alpha))

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """The exact gap's shares in float64."""
        tv, graphnet = self._setting.tv, self._setting.graphnet
        alpha = self._alpha.astype(np.float64)
        if not graphnet:
            project_groups(self._group_ptr, feasible_factor(self._dtype), alpha)
            self._alpha[:] = alpha
            alpha = self._alpha.astype(np.float64)
        x = (self._w if use_minimizer else self._v).astype(np.float64)
        matrix = self._structure.matrix
        value, slack, _largest = structured_shares(
            self._group_ptr, matrix.indptr, matrix.indices, matrix.data, x, alpha, graphnet
        )
        penalty = conjugate(tv, graphnet, alpha)
        return ExactShares(tv * self._structure.adjoint(alpha), tv * value, tv * slack, penalty)

    def get_v(self) -> FloatArray:
        """The iterate v."""
        return self._v.astype(np.float64)

    def get_w(self) -> FloatArray:
        """The minimiser w of the last look."""
        return self._w.astype(np.float64)

    def get_alpha(self) -> FloatArray:
        """The dual variable."""
        return self._alpha.copy()


def _csr_parts(matrix: sp.csr_array, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Index arrays as int32 where they fit (half the memory traffic), values in the working dtype."""
    index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
    return matrix.indptr.astype(index), matrix.indices.astype(index), matrix.data.astype(dtype)
