"""NumPy kernel: for penalties without a compiled kernel, and to test the compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.kernels.vectors import clipped
from spcatv.kernels.workspace import CPUWorkspace, LoadingTerms, StepSizes
from spcatv.structure import Structure


class ReferenceWorkspace(CPUWorkspace):
    """Workspace over the methods of any structure and any penalty, in float64 throughout.

    Vectors may lie on a GPU; those returned are made by `asarray`.
    """

    def __init__(
        self, structure: Structure, terms: LoadingTerms, *, asarray: Callable[[Any], Any] = np.asarray
    ) -> None:
        super().__init__(structure, terms, np.float64)
        self._asarray = asarray
        self._y, self._v, self._w = np.zeros((3, structure.n_features))
        self._dual = np.zeros(structure.n_rows)

    def _write(self, name: str, values: FloatArray) -> None:
        super()._write(name, to_host(values))

    def _read(self, name: str, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        values: FloatArray = self._asarray(super()._read(name))
        return values

    def _removed(self, z: FloatArray, step: float) -> FloatArray:
        return clipped(z, step * self._terms.threshold, self._terms.positive)

    def _host_pull(self) -> FloatArray:
        return self._terms.coupling * self._structure.adjoint(self._dual)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations."""
        tau, sigma, rho = steps
        for _ in range(n_iter):
            moved = self._v + tau * (self._y - self._host_pull())
            candidate = (moved - self._removed(moved, tau)) / (1 + 2 * tau)
            extrapolated = 2 * candidate - self._v
            self._v = self._v + rho * (candidate - self._v)
            moved_dual = self._dual + sigma * self._structure.forward(extrapolated)
            target = self._terms.penalty.dual_step(self._structure, moved_dual, sigma)
            self._dual = self._dual + rho * (target - self._dual)

    def _smooth(self) -> tuple[float, ...]:
        z = self._y - self._host_pull()
        b = self._removed(z, 1.0)
        self._w = 0.5 * (z - b)
        smooth = ((self._v - self._w) ** 2 + self._terms.threshold * np.abs(self._v) - b * self._v).sum()
        return float(smooth), float(self._w @ self._w)

    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        structure, penalty = self._structure, self._terms.penalty
        rows = [structure.forward(x) for x in (self._v, self._w)]
        slacks = [penalty.slack(structure, one, self._dual) for one in rows]
        return (*slacks, *(penalty.value(structure, one) for one in rows))[:n_sums]

    def _project(self) -> None:
        self._dual = self._terms.penalty.project(self._structure, self._dual)

    def _pull(self) -> FloatArray:
        pull: FloatArray = self._asarray(self._host_pull())
        return pull

    def _conjugate(self) -> float:
        return self._terms.penalty.conjugate(self._structure, self._dual)
