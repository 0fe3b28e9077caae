"""One component of a wanted sparsity (docs/method.md section 7).

For scores u with the map ``r = X'u / N`` the loading is the map smoothed, then thresholded:

    z = argmin_z 1/2 ||z - r||^2 + t s(z),      t = smoothness * std(r),
    v = S(z, l),                                l = the order statistic of |z| that leaves the wanted zeros;

then ``u = X v / ||X v||``, and so on until z is certified for the map of its own scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData, CountedPasses
from spcatv.decomposition.alternation import STEP_REDUCTION, STEP_SHARE, Limits
from spcatv.decomposition.component import Component, empty_component
from spcatv.decomposition.extrapolation import Extrapolation
from spcatv.decomposition.warm_start import ComponentStart
from spcatv.decomposition.weights import (
    ROUNDING,
    SMOOTHNESS_FACTOR,
    TARGET_L2,
    LoadingPenalty,
    SparsityTarget,
)
from spcatv.kernels.vectors import counts, inner_product, order_statistic, standard_deviation
from spcatv.problem import as_penalty
from spcatv.progress import AlternationEnded
from spcatv.solvers.pdhg import WARM_TAU, CertifiedLoading, WarmSolver

# A plateau holds at least this share of the features within the noise of the order statistic, and this share
# of the features within ten times the noise.
PLATEAU, PLATEAU_CORE = 0.01, 0.3
# Distance of the threshold below a plateau that is kept, in units of the noise.
CLEARANCE = 3.0
# Treat a map as smoothed away if its largest entry is below this multiple of the noise.
FAINT = 10.0
# Largest distance from the wanted share of zeros for which the smoothness is not lowered.
LARGEST_MISS = 0.05
# Test for plateaus once the gap of the smoothed map is below this multiple of its goal.
NEARLY_SOLVED = 10.0
# Test for plateaus that put the zeros far from the wanted share from this multiple of the goal on, by the
# entries within this share of the gap.
FIRST_LOOK, LOOK_SHARE = 100.0, 0.3
# Suspect such plateaus from this multiple of the goal on, where the threshold is less than this share of the
# error of the entries.
FARTHEST_LOOK, LOST = 1000.0, 0.5
# Solve every step to `NEARLY_SOLVED` after this number of alternations: inexact steps may hide a plateau.
INEXACT_STEPS = 30


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


def threshold_at(n_zeros: int, z: FloatArray, noise: float) -> Threshold:
    """Return the threshold that leaves the wanted zeros of a smoothed map z (P,).

    A plateau is recognised by the error of the entries, `noise`; with 0, plateaus are ignored.
    """
    magnitudes = np.abs(z)
    l1, largest = order_statistic(magnitudes, max(n_zeros - 1, 0))
    l1 = l1 if n_zeros > 0 else 0.0
    if largest <= FAINT * noise:
        return Threshold(l1, jump=0.0, is_off=True)
    n_upto, *around = counts(magnitudes, l1, *_between(l1, noise), *_between(l1, 10 * noise))
    n_core, n_around = around[1] - around[0], around[3] - around[2]
    if l1 > 0 and n_core > max(PLATEAU * z.size, 2) and n_core > PLATEAU_CORE * n_around:
        # above or below the plateau, whichever is closer to the wanted zeros
        height = float(np.median(magnitudes[np.abs(magnitudes - l1) <= noise]))
        n_below, n_with = counts(magnitudes, *_between(height, noise))
        is_kept = n_zeros - n_below <= n_with - n_zeros or n_with == z.size
        l1 = max(height - CLEARANCE * noise, 0.0) if is_kept else height + noise
        return _at(n_zeros, magnitudes, l1, (n_with - n_below) / z.size)
    if l1 >= largest:  # features of the same height, such as copies of one
        l1 = float(magnitudes[magnitudes < l1].max(initial=0.0))
        n_upto = counts(magnitudes, l1)[0]
    return Threshold(l1, 0.0, is_off=_is_off(n_zeros, n_upto, z.size))


def exact_threshold_at(n_zeros: int, z: FloatArray) -> Threshold:
    """Return the threshold for a map z (P,) that is exact but for rounding.

    Features with the same entry, such as copies of one, stay together. Features without any, such as
    constant ones, are zero, whatever the wanted share.
    """
    noise = ROUNDING * float(np.abs(z).max())
    threshold = threshold_at(n_zeros, z, noise)
    return threshold if threshold.l1 >= noise else _at(n_zeros, z, noise, threshold.jump)


def _at(n_zeros: int, z: FloatArray, l1: float, jump: float) -> Threshold:
    return Threshold(l1, jump, is_off=_is_off(n_zeros, counts(z, l1)[0], z.size))


def _is_off(n_zeros: int, n_found: int, n_features: int) -> bool:
    return abs(n_found - n_zeros) > max(LARGEST_MISS * n_features, 1)


def _between(height: float, noise: float) -> tuple[float, float]:
    """Return bounds such that the entries up to the second, but not the first, are within the noise."""
    return float(np.nextafter(height - noise, -np.inf)), height + noise


@dataclass(frozen=True, eq=False)
class _Smoothed:
    """Smoothed map with the threshold that makes a loading of it."""

    step: CertifiedLoading
    threshold: Threshold
    smoothness: float  # the weight of the structured penalty, in this unit
    unit: float
    relative_gap: float  # in units of the gap to reach
    length: float  # ``||r||`` of the map before
    is_exact: bool  # whether nothing smooths the map


@dataclass(frozen=True, eq=False)
class _Point:
    """Loading with its best scores, and the gap of its smoothed map for these scores."""

    smoothed: _Smoothed  # what the loading was made of
    penalty: LoadingPenalty  # with the weights found
    u: FloatArray  # ``X v / ||X v||``, shape (N,)
    r: FloatArray  # ``X'u / N``, shape (P,)
    v: FloatArray  # the loading, shape (P,)
    scores_norm: float  # ``||X v||``
    objective: float  # ``f(u, v)`` for the weights found
    gap: float  # of the smoothed map for r
    scale: float  # what the gap is relative to
    is_exact: bool  # whether the scores are the best in all data, not in a sketch

    @property
    def relative_gap(self) -> float:
        """Gap over the scale."""
        return self.gap / self.scale


def alternate_to_sparsity(
    data: Products,
    target: SparsityTarget,
    start: FloatArray | ComponentStart,
    limits: Limits,
    *,
    solver: WarmSolver,
    sketch: CompressedData | None = None,
) -> Component:
    """Alternate v and u until v has the wanted zeros and its smoothed map is certified for its own u.

    The data are centred and deflated. The alternation starts from unit scores (N,), or from a component of
    another target; the solver keeps its state for a later call. The gap of the result is that of the smoothed
    map; the threshold is exact. Scores are computed with the sketch, if there is one, and confirmed by a pass
    over the data.
    """
    passes = CountedPasses(data, sketch)
    r = _first_map(passes, target, start, solver)
    alternation = _Alternation(passes, target, limits.tol, solver)
    objectives: list[float] = []
    inexactness: list[float] = []
    point: _Point | None = None
    ahead = Extrapolation(None if isinstance(start, ComponentStart) else start[:, np.newaxis])
    while alternation.n_steps < limits.max_iter:
        after = alternation.step(r)
        if after is None:
            break
        point = after
        objectives.append(point.objective)
        inexactness.append(TARGET_L2 * point.gap)
        ended = AlternationEnded(len(objectives), point.objective, point.relative_gap)
        if limits.listener.hear(ended) or (point.is_exact and point.relative_gap <= limits.tol):
            break
        r = ahead.next_maps(point.u[:, np.newaxis], point.r[np.newaxis], point.relative_gap)[0]
    if point is None:
        return replace(empty_component(data.shape), n_inner_iter=alternation.n_iter)
    if not point.is_exact:
        point = alternation.confirmed(point)
        objectives[-1] = point.objective
    back = data.shape[0] * point.r
    data.add_removed(point.u, 1.0, back)
    return Component(
        v=point.v,
        u=point.u,
        scores_norm=point.scores_norm,
        objective=point.objective,
        gap=point.gap,
        scale=point.scale,
        converged=point.relative_gap <= limits.tol,
        objectives=tuple(objectives),
        inexactness=tuple(inexactness),
        n_inner_iter=alternation.n_iter,
        back=back,
        dual=solver.dual() if limits.keep_warm_start else np.zeros(0),
        weights=point.penalty.weights,
        smoothness=point.smoothed.smoothness,
        jump=point.smoothed.threshold.jump,
        target_sparsity=target.sparsity,
        n_passes=passes.n_passes,
    )


def _first_map(
    passes: CountedPasses, target: SparsityTarget, start: FloatArray | ComponentStart, solver: WarmSolver
) -> FloatArray:
    """Return the map to start from, with the solver in the state that goes with it."""
    if not isinstance(start, ComponentStart):
        return passes.transpose_dot(start) / passes.n_samples
    r = TARGET_L2 * start.y
    # the smoothed map follows from its dual variable
    z = target.smoothing(r, target.smoothness, target.unit(r)).minimizer(start.dual)
    solver.restart_from(z, start.dual, tau=WARM_TAU)
    return r


class _Alternation:
    """Steps from a map to a loading and its scores.

    The smoothness never rises, until a sketch is widened.
    """

    def __init__(self, passes: CountedPasses, target: SparsityTarget, tol: float, solver: WarmSolver) -> None:
        self._passes, self._target, self._tol, self._solver = passes, target, tol, solver
        self._begin()
        self.n_iter = 0
        self._suspects = True  # whether plateaus are suspected far from the tolerance
        self._excess = 0.0  # gap after the last step, in units of the gap to reach

    def step(self, r: FloatArray) -> _Point | None:
        """Return the loading for the map r (P,) with its best scores; None if there is nothing to explain.

        A step smooths the map as far as the last one suggests, later ones until plateaus show. What ends on a
        sketch is confirmed; where that fails, all begins anew on a wider sketch.
        """
        if not r.any():
            return None
        self.n_steps += 1
        if self.n_steps > INEXACT_STEPS and STEP_REDUCTION * self._excess > NEARLY_SOLVED:
            smoothed = self._smoothed(r, self.smoothness, tol=NEARLY_SOLVED)
        else:
            smoothed = self._smoothed(r, self.smoothness, reduction=STEP_REDUCTION)
        if smoothed.threshold.is_off:
            smoothed = self._less_smooth(r, smoothed)
        point = self._scored(smoothed, is_exact=not self._passes.has_sketch)
        while point is None and self._can_be_less_smooth(smoothed):
            # the map is so flat that the loading fell on features that do not vary
            smoothed = self._less_smooth(r, smoothed)
            point = self._scored(smoothed, is_exact=not self._passes.has_sketch)
        self._excess = 0.0 if point is None else point.relative_gap / self._tol
        if point is None or point.is_exact or point.relative_gap > self._tol:
            return point
        point = self.confirmed(point)
        if point.relative_gap > self._tol:
            self._begin()
        return point

    def _begin(self) -> None:
        self.n_steps, self.smoothness = 0, self._target.smoothness

    def confirmed(self, point: _Point) -> _Point:
        """Return the loading with its best scores in all data."""
        return self._scored(point.smoothed, is_exact=True) or point

    def _smoothed(
        self,
        r: FloatArray,
        smoothness: float,
        *,
        reduction: float = 0.0,
        tol: float = STEP_SHARE,
    ) -> _Smoothed:
        """Smooth the map r to `tol` times the gap to reach, or to this `reduction` of the first gap."""
        unit = self._target.unit(r)
        problem = self._target.smoothing(r, smoothness, unit)
        goal = self._tol * self._target.gap_scale(r, problem, self._tol)
        step = self._solver.step(problem, tol * goal, reduction)
        self.n_iter += step.n_iter
        is_exact = not problem.has_structure
        if is_exact:
            threshold = exact_threshold_at(self._target.n_zeros, step.v)
        else:
            threshold = self._threshold(step, goal)
        length = float(np.linalg.norm(r))
        return _Smoothed(step, threshold, smoothness, unit, step.gap / goal, length, is_exact)

    def _less_smooth(self, r: FloatArray, smoothed: _Smoothed) -> _Smoothed:
        """Return the map at the largest smoothness at which its zeros are not far from the wanted share.

        That is one of ``smoothness * SMOOTHNESS_FACTOR^k``. Flat maps take far more iterations than others:
        the search begins where tv is the contrast of the noise, and goes up from there if it can.
        """
        if not self._can_be_less_smooth(smoothed):
            return smoothed
        top, lowest = self.smoothness, self._target.least_smoothness
        most = self._steps_down_to(lowest)
        # a map that is not nearly exact may only seem flat
        least = 1 if smoothed.relative_gap <= NEARLY_SOLVED else 0
        of_noise = max(self._smoothness_of_noise(r, smoothed.step.v), lowest)
        k = min(max(self._steps_down_to(of_noise), 1), most)
        found = self._smoothed(r, top * SMOOTHNESS_FACTOR**k, tol=NEARLY_SOLVED)
        if found.threshold.is_off:
            while found.threshold.is_off and k < most:
                k += 1
                found = self._smoothed(r, top * SMOOTHNESS_FACTOR**k, tol=NEARLY_SOLVED)
        else:
            while k > least:
                dual = self._solver.dual()
                above = self._nearly_smoothed(r, top * SMOOTHNESS_FACTOR ** (k - 1))
                if above.threshold.is_off:
                    self._solver.restart_from(found.step.v, dual)
                    break
                k, found = k - 1, above
        self._suspects = k > 0  # once wrong is enough
        self.smoothness = found.smoothness
        return found

    def _can_be_less_smooth(self, smoothed: _Smoothed) -> bool:
        return not smoothed.is_exact and self.smoothness > self._target.least_smoothness

    def _steps_down_to(self, smoothness: float) -> int:
        """Return the number of steps that lower the present smoothness to this one or below."""
        return math.ceil(math.log(smoothness / self.smoothness) / math.log(SMOOTHNESS_FACTOR))

    def _smoothness_of_noise(self, r: FloatArray, z: FloatArray) -> float:
        """Return the smoothness at which tv is the standard deviation of the noise of a map r (P,).

        It is that of normal noise with the median distance of r to its smoothed map z. A smoothness without a
        unit stays as it is.
        """
        if as_penalty(self._target.penalty).quadratic:
            return self._target.smoothness
        noise = float(np.median(np.abs(r - z)) / ndtri(0.75))
        return noise / standard_deviation(r) if noise > 0 else self._target.smoothness

    def _nearly_smoothed(self, r: FloatArray, smoothness: float) -> _Smoothed:
        """Return the map r nearly smoothed to the tolerance, unless its zeros are seen to be off before."""
        for tol in (FIRST_LOOK, NEARLY_SOLVED):
            smoothed = self._smoothed(r, smoothness, tol=tol)
            if smoothed.threshold.is_off:
                break
        return smoothed

    def _threshold(self, step: CertifiedLoading, goal: float) -> Threshold:
        """Return the threshold; a plateau shows only in a map that is nearly exact, a large one earlier.

        The goal is the gap to reach.
        """
        n_zeros, size = self._target.n_zeros, step.v.size
        if step.gap <= NEARLY_SOLVED * goal:
            return threshold_at(n_zeros, step.v, float(np.sqrt(max(step.gap, goal) / size)))
        if self._suspects and step.gap <= FIRST_LOOK * goal:
            threshold = threshold_at(n_zeros, step.v, float(np.sqrt(LOOK_SHARE * step.gap / size)))
            if threshold.is_off:
                return threshold
        threshold = threshold_at(n_zeros, step.v, 0.0)
        is_lost = 0 < threshold.l1 < LOST * np.sqrt(step.gap / size)
        if self._suspects and is_lost and FIRST_LOOK * goal < step.gap <= FARTHEST_LOOK * goal:
            return replace(threshold, is_off=True)
        return threshold

    def _scored(self, smoothed: _Smoothed, *, is_exact: bool) -> _Point | None:
        """Return the loading of a smoothed map with its best scores, in all data or in a sketch."""
        v = smoothed.threshold.apply(smoothed.step.v)
        scores, r = self._passes.there_and_back(v, exactly=is_exact)
        length = float(np.linalg.norm(scores))
        if length <= ROUNDING * self._passes.n_samples * smoothed.length * float(np.linalg.norm(v)):
            return None
        r *= 1.0 / (length * self._passes.n_samples)
        tv = smoothed.smoothness * smoothed.unit
        penalty = self._target.with_weights(smoothed.threshold.l1, tv, smoothed.unit)
        objective = penalty.value(v) - inner_product(r, v)
        problem = self._target.smoothing(r, smoothed.smoothness, smoothed.unit)
        gap = problem.judge(smoothed.step.certificate).gap
        scale = self._target.gap_scale(r, problem, self._tol)
        return _Point(smoothed, penalty, scores / length, r, v, length, objective, gap, scale, is_exact)
