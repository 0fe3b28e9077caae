"""The penalty on one component's loading vector: structure, absolute weights, variant."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from spcatv._util.devices import frozen
from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.kernels.vectors import lengths
from spcatv.problem import LoadingProblem, Penalty, as_penalty
from spcatv.solvers import Solver
from spcatv.solvers.warm import WarmSolver, warm_solver
from spcatv.structure import Structure


@dataclass(frozen=True)
class Weights:
    """Absolute weights of the penalties: ``l1 ||v||_1 + l2 ||v||_2^2 + tv s(v)``."""

    l1: float
    l2: float
    tv: float


@dataclass(frozen=True, eq=False)
class LoadingPenalty:
    """The penalty on a loading vector."""

    structure: Structure  # on the P features
    weights: Weights  # absolute weights, l2 > 0
    penalty: Penalty = "tv"  # "tv" or "graphnet", form of the structured penalty
    positive: bool = False  # whether loadings are kept non-negative

    def problem(self, data: Products, u: FloatArray) -> LoadingProblem:
        """Return the loading problem for scores u: ``y = X'u / (N l2)``."""
        return self.problem_at(data.transpose_dot(u) / self.back_scale(data.shape[0]))

    def problem_at(self, y: FloatArray) -> LoadingProblem:
        """Return the loading problem at y (P,). Takes ownership of y and makes it read-only."""
        l2 = self.weights.l2
        return LoadingProblem(
            frozen(y),
            self.structure,
            l1=self.weights.l1 / l2,
            tv=self.weights.tv / l2,
            positive=self.positive,
            penalty=self.penalty,
        )

    def back_scale(self, n_samples: int) -> float:
        """Return ``N l2``, the ratio of ``X'u`` to y."""
        return n_samples * self.weights.l2

    def value(self, v: FloatArray) -> float:
        """Return ``l1 ||v||_1 + l2 ||v||_2^2 + tv s(v)``."""
        weights = self.weights
        magnitude, squares = lengths(v)
        structured = as_penalty(self.penalty).value_at(self.structure, v)
        return weights.l1 * magnitude + weights.l2 * squares + weights.tv * structured

    def solver(self, method: str | Solver, dtype: npt.DTypeLike) -> WarmSolver:
        """Return a warm solver for this penalty."""
        has_structure = self.weights.tv > 0 and self.structure.norm_squared() > 0
        return warm_solver(method, has_structure, dtype)
