"""Penalty of one loading: given weights, or a wanted share of zeros (docs/method.md sections 1.2 and 7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import frozen
from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.kernels.vectors import counts, lengths, order_statistic, standard_deviation
from spcatv.problem import LoadingProblem, Penalty, as_penalty
from spcatv.solvers import Solver
from spcatv.solvers.pdhg import WarmSolver, warm_solver
from spcatv.structure import Structure

# l2 of a wanted sparsity, where it only sets the length of a loading. With this value the loading problem is
# 1/2 ||v - r||^2 + tv s(v) + l1 ||v||_1 up to a factor, for the map r = X'u / N.
TARGET_L2 = 0.5
# A plateau holds at least this share of the features within the noise of the order statistic, and this share
# of the features within ten times the noise.
PLATEAU, PLATEAU_CORE = 0.01, 0.3
# Distance of the threshold below a plateau that is kept, in units of the noise.
CLEARANCE = 3.0
# Treat a map as smoothed away if its largest entry is below this multiple of the noise.
FAINT = 10.0
# Standard deviation of normal noise over its median magnitude.
MEDIAN_TO_DEVIATION = 1.4826
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
# Largest distance from the wanted share of zeros for which the smoothness is not lowered.
LARGEST_MISS = 0.05


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

    def problem(self, data: Products, u: FloatArray) -> LoadingProblem:
        """Return the loading problem for scores u: ``y = X'u / (N l2)``."""
        return self.problem_at(data.transpose_dot(u) / (data.shape[0] * self.weights.l2))

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


@dataclass(frozen=True)
class Threshold:
    """Soft threshold that turns a smoothed map into a loading, ``v = S(z, l1)``."""

    l1: float  # the threshold
    # share of the features in a plateau of the map that holds the wanted share of zeros, 0 if there is none;
    # the plateau is zero as a whole, or not at all
    jump: float
    # whether the share of zeros is far from the wanted one: the plateau is large, or the structured
    # penalty leaves more zeros by itself, or nothing but noise
    is_off: bool

    def apply(self, z: FloatArray) -> FloatArray:
        """Return ``S(z, l1)``, shape (P,)."""
        return z - np.clip(z, -self.l1, self.l1)


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

    def smoothness_of_noise(self, r: FloatArray, z: FloatArray) -> float:
        """Return the smoothness at which tv is the standard deviation of the noise of a map r (P,).

        It is that of normal noise with the median distance of r to its smoothed map z. A smoothness without a
        unit stays as it is.
        """
        if as_penalty(self.penalty).quadratic:
            return self.smoothness
        noise = MEDIAN_TO_DEVIATION * float(np.median(np.abs(r - z)))
        return noise / standard_deviation(r) if noise > 0 else self.smoothness

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

    def threshold(self, z: FloatArray, noise: float) -> Threshold:
        """Return the threshold that leaves the wanted zeros of a smoothed map z (P,).

        A plateau is recognised by the error of the entries, `noise`; with 0, plateaus are ignored.
        """
        n_zeros, size = self.n_zeros, z.size
        magnitudes = np.abs(z)
        l1, largest = order_statistic(magnitudes, max(n_zeros - 1, 0))
        l1 = l1 if n_zeros > 0 else 0.0
        if largest <= FAINT * noise:
            return Threshold(l1, jump=0.0, is_off=True)
        n_upto, *around = counts(magnitudes, l1, *_between(l1, noise), *_between(l1, 10 * noise))
        n_core, n_around = around[1] - around[0], around[3] - around[2]
        if l1 > 0 and n_core > max(PLATEAU * size, 2) and n_core > PLATEAU_CORE * n_around:
            return self._beside_plateau(magnitudes, l1, noise)
        if l1 >= largest:  # features of the same height, such as copies of one
            below = magnitudes[magnitudes < l1]
            l1 = float(below.max()) if len(below) else 0.0
            n_upto = counts(magnitudes, l1)[0]
        return self._threshold(n_upto, l1, jump=0.0)

    def exact_threshold(self, z: FloatArray, rounding: float) -> Threshold:
        """Return the threshold for a map z (P,) whose entries are known to this share of the largest.

        Features with the same entry, such as copies of one, stay together. Features without any, such as
        constant ones, are zero, whatever the wanted share.
        """
        noise = rounding * float(np.abs(z).max())
        threshold = self.threshold(z, noise)
        if threshold.l1 >= noise:
            return threshold
        return self._threshold(counts(z, noise)[0], noise, threshold.jump)

    def _beside_plateau(self, magnitudes: FloatArray, l1: float, noise: float) -> Threshold:
        """Return a threshold above or below the plateau at l1, whichever is closer to the wanted zeros."""
        height = float(np.median(magnitudes[np.abs(magnitudes - l1) <= noise]))
        n_below, n_with = counts(magnitudes, *_between(height, noise))
        is_kept = self.n_zeros - n_below <= n_with - self.n_zeros or n_with == magnitudes.size
        l1 = max(height - CLEARANCE * noise, 0.0) if is_kept else height + noise
        return self._threshold(counts(magnitudes, l1)[0], l1, (n_with - n_below) / magnitudes.size)

    def _threshold(self, n_found: int, l1: float, jump: float) -> Threshold:
        n_features = self.structure.n_features
        return Threshold(l1, jump, is_off=abs(n_found - self.n_zeros) > max(LARGEST_MISS * n_features, 1))


# What a component is asked for.
Request = LoadingPenalty | SparsityTarget


def _between(height: float, noise: float) -> tuple[float, float]:
    """Return bounds such that the entries up to the second, but not the first, are within the noise."""
    return float(np.nextafter(height - noise, -np.inf)), height + noise
