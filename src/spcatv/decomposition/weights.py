"""Penalty of one loading: given weights, or a wanted share of zeros (docs/method.md sections 1.2 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from spcatv._util.devices import frozen
from spcatv._util.types import FloatArray
from spcatv.kernels.vectors import lengths, standard_deviation
from spcatv.problem import LoadingProblem, Penalty, as_penalty
from spcatv.solvers import Solver
from spcatv.solvers.pdhg import WarmSolver, warm_solver
from spcatv.structure import Structure

# l2 of a wanted sparsity, where it only sets the length of a loading. With this value the loading problem is
# 1/2 ||v - r||^2 + tv s(v) + l1 ||v||_1 up to a factor, for the map r = X'u / N.
TARGET_L2 = 0.5
# Lower the smoothness in steps of this factor where the wanted share of zeros cannot be met.
SMOOTHNESS_FACTOR = 0.7
# Smallest smoothness, as a share of the wanted one.
LEAST_SMOOTHNESS = 0.01
# Error of the entries of a map without structure, as a share of the largest; also the norm of scores below
# which they are rounding, as a share of the largest norm that a loading could have.
ROUNDING = 1e-12
# Make gaps relative to the contrast of a map where less than this share of its squares is contrast; smallest
# gap to reach, relative to all squares.
LEAST_CONTRAST, FINEST = 0.05, 1e-11


@dataclass(frozen=True)
class Weights:
    """Absolute weights of the penalties: ``l1 ||v||_1 + l2 ||v||_2^2 + tv s(v)``."""

    l1: float
    l2: float
    tv: float


@dataclass(frozen=True, eq=False)
class LoadingPenalty:
    """Penalty on a loading vector with given weights."""

    structure: Structure  # on the P features
    weights: Weights  # absolute weights, l2 > 0
    penalty: Penalty = "tv"  # form of the structured penalty
    positive: bool = False  # whether loadings are kept non-negative

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


@dataclass(frozen=True, eq=False)
class SparsityTarget:
    """Wanted sparsity of a component (docs/method.md section 7)."""

    structure: Structure  # on the P features
    sparsity: float  # share of the loadings that should be exactly zero, 0 <= sparsity < 1
    # weight of the structured penalty, in units of the contrast of the component's map ``r = X'u / N``,
    # which is the standard deviation of its entries
    smoothness: float
    penalty: Penalty = "tv"  # form of the structured penalty
    positive: bool = False  # whether loadings are kept non-negative

    @property
    def least_smoothness(self) -> float:
        """Smallest smoothness that may take the place of the wanted one."""
        return LEAST_SMOOTHNESS * self.smoothness

    @property
    def n_zeros(self) -> int:
        """Wanted number of zeros; at least one loading is not zero."""
        n_features = self.structure.n_features
        return min(round(self.sparsity * n_features), n_features - 1)

    def unit(self, r: FloatArray) -> float:
        """Return the unit of smoothness for the map r (P,): its contrast, or 1 for a quadratic penalty."""
        return 1.0 if as_penalty(self.penalty).quadratic else standard_deviation(r)

    def solver(self, method: str | Solver, dtype: npt.DTypeLike) -> WarmSolver:
        """Return a warm solver for the smoothing problems."""
        return self.with_weights(0.0, self.smoothness, 1.0).solver(method, dtype)

    def smoothing(self, r: FloatArray, smoothness: float, unit: float) -> LoadingProblem:
        """Return the problem whose solution is the smoothed map of r (P,)."""
        return self.with_weights(0.0, smoothness * unit, unit).problem_at(r / TARGET_L2)

    def with_weights(self, l1: float, tv: float, unit: float) -> LoadingPenalty:
        """Return the penalty with given weights, whose other parameters are in this unit."""
        penalty = as_penalty(self.penalty).in_units(unit) if unit > 0 else self.penalty
        return LoadingPenalty(self.structure, Weights(l1, TARGET_L2, tv), penalty, self.positive)

    def gap_scale(self, r: FloatArray, problem: LoadingProblem, tol: float) -> float:
        """Return the scale of gaps for the map r (P,) and its problem.

        Where the features hardly differ, nearly all of the problem's own scale is their common part. Gaps are
        then relative to the differences, because these decide which loadings are zero.
        """
        scale = problem.scale()
        contrast = r.size * (standard_deviation(r) / TARGET_L2) ** 2 / 2
        return min(scale, max(contrast / LEAST_CONTRAST, FINEST / tol * scale))


# Penalty of a component, or its wanted sparsity.
Request = LoadingPenalty | SparsityTarget
