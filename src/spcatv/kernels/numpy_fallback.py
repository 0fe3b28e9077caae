"""NumPy kernel: for penalties without a compiled kernel, and to test the compiled ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.kernels.vectors import clipped
from spcatv.kernels.workspace import CPUWorkspace, LoadingTerms, PlainState, StepSizes
from spcatv.structure import Structure


class ReferenceWorkspace(PlainState, CPUWorkspace):
    """Workspace over the methods of any structure and any penalty, in float64 throughout."""

    def __init__(self, structure: Structure, terms: LoadingTerms) -> None:
        self._structure = structure
        self._terms = terms
        self._y, self._v, self._w = np.zeros((3, structure.n_features))
        self._dual = np.zeros(structure.n_rows)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always float64."""
        return self._dual.dtype

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k."""
        self._terms = self._terms._replace(coupling=coupling, threshold=threshold)

    def _removed(self, z: FloatArray, step: float) -> FloatArray:
        return clipped(z, step * self._terms.threshold, self._terms.positive)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations."""
        tau, sigma, rho = steps
        for _ in range(n_iter):
            moved = self._v + tau * (self._y - self._pull())
            candidate = (moved - self._removed(moved, tau)) / (1 + 2 * tau)
            extrapolated = 2 * candidate - self._v
            self._v = self._v + rho * (candidate - self._v)
            moved_dual = self._dual + sigma * self._structure.forward(extrapolated)
            target = self._terms.penalty.dual_step(self._structure, moved_dual, sigma)
            self._dual = self._dual + rho * (target - self._dual)

    def _look(self) -> tuple[float, float]:
        z = self._y - self._pull()
        b = self._removed(z, 1.0)
        self._w = 0.5 * (z - b)
        smooth = ((self._v - self._w) ** 2 + self._terms.threshold * np.abs(self._v) - b * self._v).sum()
        return float(smooth), float(self._w @ self._w)

    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        structure, penalty = self._structure, self._terms.penalty
        rows = [structure.forward(x) for x in (self._v, self._w)]
        slacks = (penalty.slack(structure, one, self._dual) for one in rows)
        return (*slacks, *(penalty.value(structure, one) for one in rows))[:n_sums]

    def _project(self) -> None:
        self._dual = self._terms.penalty.project(self._structure, self._dual)

    def _pull(self) -> FloatArray:
        return self._terms.coupling * self._structure.adjoint(self._dual)

    def _conjugate(self) -> float:
        return self._terms.penalty.conjugate(self._structure, self._dual)
