"""Kernel for any structure: passes over the rows of A by group, and over the rows of A' by feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.kernels.compiled import inlined_kernel, kernel
from spcatv.kernels.compiled_workspace import CompiledWorkspace
from spcatv.kernels.duality_gap import project_groups, structured_shares
from spcatv.kernels.workspace import CPUWorkspace, LoadingTerms, StepSizes
from spcatv.structure import Structure


@inlined_kernel
def _product(indptr: Any, indices: Any, data: Any, dual: Any, j: int, zero: float) -> float:
    total = zero
    for e in range(indptr[j], indptr[j + 1]):
        total += data[e] * dual[indices[e]]
    return total


@kernel
def _primal_pass(
    indptr: Any, indices: Any, data: Any, y: Any, v: Any, bar: Any, dual: Any, scalars: Any
) -> None:
    coupling, tau, low, high, shrink, rho = scalars
    zero = rho - rho
    for j in range(len(v)):
        moved = v[j] + tau * (y[j] - coupling * _product(indptr, indices, data, dual, j, zero))
        candidate = (moved - min(max(moved, low), high)) * shrink
        bar[j] = candidate + candidate - v[j]
        v[j] += rho * (candidate - v[j])


@kernel
def _dual_pass(
    group_ptr: Any, indptr: Any, indices: Any, data: Any, bar: Any, dual: Any, moved: Any, scalars: Any
) -> None:
    one, rho, pace, reach, sigma = scalars
    zero = one - one
    for g in range(len(group_ptr) - 1):
        squares = zero
        for r in range(group_ptr[g], group_ptr[g + 1]):
            row = _product(indptr, indices, data, bar, r, zero)
            moved[r] = dual[r] + sigma * row
            squares += moved[r] * moved[r]
        factor = pace / max(one, np.sqrt(reach * squares))
        for r in range(group_ptr[g], group_ptr[g + 1]):
            dual[r] = (one - rho) * dual[r] + factor * moved[r]


@kernel
def _smooth_shares(
    indptr: Any, indices: Any, data: Any, y: Any, v: Any, w: Any, dual: Any, scalars: Any
) -> tuple[float, float]:
    zero, half, coupling, low, high = scalars
    smooth = 0.0
    squares = 0.0
    for j in range(len(v)):
        z = y[j] - coupling * _product(indptr, indices, data, dual, j, zero)
        b = min(max(z, low), high)
        w[j] = half * (z - b)
        smooth += (v[j] - w[j]) * (v[j] - w[j]) + (high * abs(v[j]) - b * v[j])
        squares += w[j] * w[j]
    return smooth, squares


class SparseWorkspace(CompiledWorkspace, CPUWorkspace):
    """Workspace over the sparse operator itself; works for every structure."""

    def __init__(self, structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(structure, terms, dtype)
        self._group_ptr = structure.group_ptr
        self._rows, self._columns = (
            (half.indptr, half.indices, half.data.astype(self.dtype, copy=False))
            for half in (structure.matrix, structure.matrix.T.tocsr())
        )
        self._y, self._v, self._w, self._bar = np.zeros((4, structure.n_features), dtype=self.dtype)
        self._dual, self._moved = np.zeros((2, structure.n_rows), dtype=self.dtype)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations."""
        primal, dual = (tuple(scalars) for scalars in self._step_scalars(steps))
        for _ in range(n_iter):
            _primal_pass(*self._columns, self._y, self._v, self._bar, self._dual, primal)
            _dual_pass(self._group_ptr, *self._rows, self._bar, self._dual, self._moved, dual)

    def _smooth(self) -> tuple[float, ...]:
        coupling, threshold = self._terms.coupling, self._terms.threshold
        scalars = self._typed(0, 0.5, coupling, self._lower_bound(threshold), threshold)
        return _smooth_shares(*self._columns, self._y, self._v, self._w, self._dual, scalars)

    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        rows = self._rows if dtype == self.dtype else None
        v, w, dual = (x.astype(dtype, copy=False) for x in (self._v, self._w, self._dual))
        of_v, of_w = (structured_shares(self._structure, x, dual, self._ball, rows) for x in (v, w))
        return (of_v[1], of_w[1], of_v[0], of_w[0])[:n_sums]

    def _project(self) -> None:
        if self._ball.is_bounded:
            exact = self._dual.astype(np.float64)
            project_groups(self._group_ptr, self._feasible_radius(), exact)
            self._dual[:] = exact

    def _pull(self) -> FloatArray:
        return self._terms.coupling * self._structure.adjoint(self._dual.astype(np.float64))
