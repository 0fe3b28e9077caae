"""The kernel in plain NumPy: slow, short, and the one the compiled kernels are tested against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, FloatArray
from spcatv.kernels.base import ExactShares, GapShares, Setting, Steps, conjugate
from spcatv.structure import Structure


class ReferenceWorkspace:
    """Workspace over ``structure.forward`` and ``structure.adjoint``, in float64 throughout."""

    def __init__(self, structure: Structure, setting: Setting, dtype: npt.DTypeLike = np.float64) -> None:
        self._structure = structure
        self._setting = setting
        self._dtype = np.dtype(dtype)
        self._y = np.zeros(structure.n_features)
        self._v = np.zeros(structure.n_features)
        self._w = np.zeros(structure.n_features)
        self._alpha: FloatArray = np.zeros(structure.n_rows)

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        self._y = np.asarray(y, dtype=np.float64)

    def set_state(self, v: FloatArray, alpha: FloatArray) -> None:
        """Take v and a feasible dual variable."""
        self._v = np.array(v, dtype=np.float64)
        self._alpha = np.array(alpha, dtype=np.float64)

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        self._v, self._alpha = np.zeros_like(self._v), np.zeros_like(self._alpha)

    def _clip(self, z: FloatArray, k: float) -> Array:
        return np.minimum(z, k) if self._setting.positive else np.clip(z, -k, k)

    def _dual_step(self, moved: FloatArray, sigma: float) -> FloatArray:
        if self._setting.graphnet:
            return moved / (1 + 0.5 * sigma)
        return self._structure.project(moved)

    def advance(self, n_iter: int, steps: Steps) -> None:
        """Do `n_iter` primal-dual iterations."""
        tau, sigma, rho = steps
        for _ in range(n_iter):
            pull = self._setting.tv * self._structure.adjoint(self._alpha)
            moved = self._v + tau * (self._y - pull)
            candidate = (moved - self._clip(moved, tau * self._setting.l1)) / (1 + 2 * tau)
            extrapolated = 2 * candidate - self._v
            self._v = self._v + rho * (candidate - self._v)
            target = self._dual_step(self._alpha + sigma * self._structure.forward(extrapolated), sigma)
            self._alpha = self._alpha + rho * (target - self._alpha)

    def _structured_share(self, v: FloatArray) -> float:
        rows = self._structure.forward(v)
        if self._setting.graphnet:
            return self._setting.tv * float(((rows - 0.5 * self._alpha) ** 2).sum())
        norms = self._structure.group_norms(rows)
        return self._setting.tv * float(norms.sum() - self._alpha @ rows)

    def _conjugate(self) -> float:
        return conjugate(self._setting.tv, self._setting.graphnet, self._alpha)

    def gap_shares(self) -> GapShares:
        """Look at the gap of v and of w."""
        z = self._y - self._setting.tv * self._structure.adjoint(self._alpha)
        b = self._clip(z, self._setting.l1)
        self._w = 0.5 * (z - b)
        smooth = ((self._v - self._w) ** 2 + self._setting.l1 * np.abs(self._v) - b * self._v).sum()
        return GapShares(
            structured_v=self._structured_share(self._v),
            smooth_v=float(smooth),
            structured_w=self._structured_share(self._w),
            w_squared=float(self._w @ self._w),
            dual_penalty=self._conjugate(),
        )

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """The exact gap's shares in float64."""
        if not self._setting.graphnet:
            self._alpha = self._structure.project(self._alpha)
        x = self._w if use_minimizer else self._v
        rows = self._structure.forward(x)
        value = rows @ rows if self._setting.graphnet else self._structure.group_norms(rows).sum()
        pull = self._setting.tv * self._structure.adjoint(self._alpha)
        return ExactShares(
            pull, self._setting.tv * float(value), self._structured_share(x), self._conjugate()
        )

    def get_v(self) -> FloatArray:
        """The iterate v."""
        return self._v.copy()

    def get_w(self) -> FloatArray:
        """The minimiser w of the last look."""
        return self._w.copy()

    def get_alpha(self) -> FloatArray:
        """The dual variable."""
        return self._alpha.astype(self._dtype)
