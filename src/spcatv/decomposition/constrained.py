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

from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData
from spcatv.decomposition.alternation import STEP_REDUCTION, STEP_SHARE, Limits
from spcatv.decomposition.component import Component, empty_component
from spcatv.decomposition.passes import CountedPasses
from spcatv.decomposition.warm_start import ComponentStart
from spcatv.decomposition.weights import (
    ROUNDING,
    SMOOTHNESS_FACTOR,
    TARGET_L2,
    LoadingPenalty,
    SparsityTarget,
    Threshold,
)
from spcatv.kernels.vectors import inner_product, weighted_sum
from spcatv.progress import AlternationEnded
from spcatv.solvers.pdhg import WARM_TAU, CertifiedLoading, WarmSolver

# A plateau is looked for once the smoothed map is this close to the tolerance.
NEARLY_SOLVED = 10.0
# Plateaus that put the zeros far from the wanted share are looked for this close to the tolerance already, by
# the entries within this share of the gap. They are suspected even this far from the tolerance, where the
# threshold is less than this share of the error of the entries.
FIRST_LOOK, LOOK_SHARE = 100.0, 0.3
FARTHEST_LOOK, LOST = 1000.0, 0.5
# After so many alternations the scores should have settled. Where they have not, the target may lie inside a
# plateau that inexact steps do not show: from then on, every step is exact enough to show it.
INEXACT_STEPS = 30
# Scores that still move after so many alternations may go back and forth between the two sides of a plateau:
# from here on plateaus are no longer looked for.
PLATEAUS_UNTIL = 120
# By then, scores settle on a sketch, or not at all.
SKETCHED_UNTIL = 60
# How far u is pushed along its last change at first, how much further each time, and at most; how far it is
# pulled back at most where it goes back and forth.
FIRST_PUSH, PUSH_GROWTH, LONGEST_PUSH, FURTHEST_BACK = 1.0, 2.0, 10.0, -0.5
# Opposite scores cancel each other: what is shorter than this points nowhere.
SHORTEST_SCORES = 0.1
# A relative gap that grows by this factor is a setback, after which this share of the push is left.
SETBACK, PUSH_LEFT = 1.2, 0.3


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

    u: FloatArray  # ``X v / ||X v||``, shape (N,)
    r: FloatArray  # ``X'u / N``, shape (P,)
    v: FloatArray  # the loading, shape (P,)
    scores_norm: float  # ``||X v||``
    l1: float  # the threshold that v follows from the smoothed map by
    jump: float  # share of the features in the plateau at that threshold
    smoothness: float  # the weight of the structured penalty, in this unit
    unit: float
    gap: float  # of the smoothed map for r
    scale: float  # what the gap is relative to
    tol: float  # the relative gap to reach
    is_exact: bool  # whether the scores are the best in all data, not in a sketch

    @property
    def relative_gap(self) -> float:
        """Gap over the scale."""
        return self.gap / self.scale

    @property
    def is_certified(self) -> bool:
        """Whether the relative gap is within the tolerance."""
        return self.relative_gap <= self.tol

    def penalty(self, target: SparsityTarget) -> LoadingPenalty:
        """Return the penalty with the weights found."""
        return target.with_weights(self.l1, self.smoothness * self.unit, self.unit)

    def objective(self, target: SparsityTarget) -> float:
        """Return penalised objective ``f(u, v)`` for the weights found."""
        return self.penalty(target).value(self.v) - inner_product(self.r, self.v)


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
    map; the threshold is exact. Scores are looked for in the sketch, if there is one, and confirmed by a pass
    over the data.
    """
    passes = CountedPasses(data, sketch)
    r = _first_map(passes, target, start, solver)
    alternation = _Alternation(passes, target, limits.tol, solver)
    objectives: list[float] = []
    inexactness: list[float] = []
    point: _Point | None = None
    ahead = _Ahead(None if isinstance(start, ComponentStart) else start)
    while alternation.n_steps < limits.max_iter:
        after = alternation.step(r)
        if after is None:
            break
        point = after
        objectives.append(point.objective(target))
        inexactness.append(TARGET_L2 * point.gap)
        ended = AlternationEnded(len(objectives), objectives[-1], point.relative_gap)
        if limits.listener.hear(ended) or (point.is_exact and point.is_certified):
            break
        r = ahead.map_after(point)
    if point is None:
        return replace(empty_component(data.shape), n_inner_iter=alternation.n_iter)
    if not point.is_exact:
        point = alternation.confirmed(point)
        objectives[-1] = point.objective(target)
    back = data.shape[0] * point.r
    data.add_removed(point.u, 1.0, back)
    return Component(
        v=point.v,
        u=point.u,
        scores_norm=point.scores_norm,
        objective=objectives[-1],
        gap=point.gap,
        scale=point.scale,
        converged=point.is_certified,
        objectives=tuple(objectives),
        inexactness=tuple(inexactness),
        n_inner_iter=alternation.n_iter,
        back=back,
        dual=solver.dual() if limits.keep_warm_start else np.zeros(0),
        weights=point.penalty(target).weights,
        smoothness=point.smoothness,
        jump=point.jump,
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

    The smoothness never rises, until a sketch is widened or given up.
    """

    def __init__(self, passes: CountedPasses, target: SparsityTarget, tol: float, solver: WarmSolver) -> None:
        self._passes, self._target, self._tol, self._solver = passes, target, tol, solver
        self._begin()
        self.n_iter = 0
        self._suspects = True  # whether plateaus are suspected far from the tolerance
        self._last: _Smoothed  # the map of the last step
        self._excess = 0.0  # gap after the last step, in units of the gap to reach

    def step(self, r: FloatArray) -> _Point | None:
        """Return the loading for the map r (P,) with its best scores; None if there is nothing to explain.

        A step smooths the map as far as the last one suggests, later ones until plateaus show. What ends on a
        sketch is confirmed; where that fails, all begins anew on a wider sketch. Where no end is in
        sight, the sketch is given up.
        """
        if not r.any():
            return None
        if self._passes.has_sketch and self.n_steps >= SKETCHED_UNTIL:
            self._passes.give_up_sketch()
            self._begin()
        self.n_steps += 1
        plateaus = self.n_steps <= PLATEAUS_UNTIL
        if self.n_steps > INEXACT_STEPS and STEP_REDUCTION * self._excess > NEARLY_SOLVED:
            smoothed = self._smoothed(r, self.smoothness, plateaus, tol=NEARLY_SOLVED)
        else:
            smoothed = self._smoothed(r, self.smoothness, plateaus, reduction=STEP_REDUCTION)
        if smoothed.threshold.is_off:
            smoothed = self._less_smooth(r, smoothed, plateaus)
        point = self._scored(smoothed, is_exact=not self._passes.has_sketch)
        while point is None and self._can_be_less_smooth(smoothed):
            # the map is so flat that the loading fell on features that do not vary
            smoothed = self._less_smooth(r, smoothed, plateaus)
            point = self._scored(smoothed, is_exact=not self._passes.has_sketch)
        self._last = smoothed
        self._excess = 0.0 if point is None else point.relative_gap / point.tol
        if point is None or point.is_exact or not point.is_certified:
            return point
        point = self.confirmed(point)
        if not point.is_certified:
            self._begin()
        return point

    def _begin(self) -> None:
        self.n_steps, self.smoothness = 0, self._target.smoothness

    def confirmed(self, point: _Point) -> _Point:
        """Return the loading of the last step with the best scores in all data."""
        return self._scored(self._last, is_exact=True) or point

    def _smoothed(
        self,
        r: FloatArray,
        smoothness: float,
        plateaus: bool,
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
            threshold = self._target.exact_threshold(step.v, ROUNDING if plateaus else 0.0)
        else:
            threshold = self._threshold(step, goal if plateaus else 0.0)
        length = float(np.linalg.norm(r))
        return _Smoothed(step, threshold, smoothness, unit, step.gap / goal, length, is_exact)

    def _less_smooth(self, r: FloatArray, smoothed: _Smoothed, plateaus: bool) -> _Smoothed:
        """Return the map at the largest smoothness at which its zeros are not far from the wanted share.

        That is one of ``smoothness * SMOOTHNESS_FACTOR^k``. Flat maps take far more iterations than others:
        the search begins where tv is the contrast of the noise, and goes up from there if it can.
        """
        if not self._can_be_less_smooth(smoothed):
            return smoothed
        top, lowest = self.smoothness, self._target.least_smoothness
        most = self._steps_down_to(lowest)
        # what looks flat before it is nearly exact may not be
        least = 1 if smoothed.relative_gap <= NEARLY_SOLVED else 0
        of_noise = max(self._target.smoothness_of_noise(r, smoothed.step.v), lowest)
        k = min(max(self._steps_down_to(of_noise), 1), most)
        found = self._smoothed(r, top * SMOOTHNESS_FACTOR**k, plateaus, tol=NEARLY_SOLVED)
        if found.threshold.is_off:
            while found.threshold.is_off and k < most:
                k += 1
                found = self._smoothed(r, top * SMOOTHNESS_FACTOR**k, plateaus, tol=NEARLY_SOLVED)
        else:
            while k > least:
                dual = self._solver.dual()
                above = self._nearly_smoothed(r, top * SMOOTHNESS_FACTOR ** (k - 1), plateaus)
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

    def _nearly_smoothed(self, r: FloatArray, smoothness: float, plateaus: bool) -> _Smoothed:
        """Return the map r nearly smoothed to the tolerance, unless its zeros are seen to be off before."""
        for tol in (FIRST_LOOK, NEARLY_SOLVED):
            smoothed = self._smoothed(r, smoothness, plateaus, tol=tol)
            if smoothed.threshold.is_off:
                break
        return smoothed

    def _threshold(self, step: CertifiedLoading, goal: float) -> Threshold:
        """Return the threshold; a plateau shows only in a map that is nearly exact, a large one earlier.

        The goal is the gap to reach; 0 looks for no plateaus.
        """
        size = step.v.size
        if step.gap <= NEARLY_SOLVED * goal:
            return self._target.threshold(step.v, float(np.sqrt(max(step.gap, goal) / size)))
        if self._suspects and step.gap <= FIRST_LOOK * goal:
            threshold = self._target.threshold(step.v, float(np.sqrt(LOOK_SHARE * step.gap / size)))
            if threshold.is_off:
                return threshold
        threshold = self._target.threshold(step.v, 0.0)
        is_lost = 0 < threshold.l1 < LOST * np.sqrt(step.gap / size)
        if self._suspects and is_lost and FIRST_LOOK * goal < step.gap <= FARTHEST_LOOK * goal:
            return replace(threshold, is_off=True)
        return threshold

    def _scored(self, smoothed: _Smoothed, *, is_exact: bool) -> _Point | None:
        """Return the loading of a smoothed map with its best scores, in all data or in a sketch."""
        weight = smoothed.smoothness, smoothed.unit
        v = smoothed.threshold.apply(smoothed.step.v)
        scores, r = self._passes.there_and_back(v, exactly=is_exact)
        length = float(np.linalg.norm(scores))
        if length <= ROUNDING * self._passes.n_samples * smoothed.length * float(np.linalg.norm(v)):
            return None
        r *= 1.0 / (length * self._passes.n_samples)
        problem = self._target.smoothing(r, *weight)
        gap, scale = (
            problem.judge(smoothed.step.certificate).gap,
            self._target.gap_scale(r, problem, self._tol),
        )
        l1, jump = smoothed.threshold.l1, smoothed.threshold.jump
        return _Point(scores / length, r, v, length, l1, jump, *weight, gap, scale, self._tol, is_exact)


class _Ahead:
    """The map to go on with: that of the last scores, pushed on along their last change or pulled back.

    An alternation takes scores x to u. As in the secant method, its last two moves ``f = u - x`` tell how
    far to go: where they shrink slowly, far ahead, and where they turn around, back.
    """

    def __init__(self, scores: FloatArray | None) -> None:
        self._scores = scores  # x of the next alternation, shape (N,); None if only their map is known
        self._last: tuple[FloatArray, _Point] | None = None  # the last move, and where it led
        self._push = 0.0

    def map_after(self, point: _Point) -> FloatArray:
        """Return the map (P,) to start the next alternation from; it is linear in the scores."""
        move = None if self._scores is None else point.u - self._scores
        last, self._last = self._last, None if move is None else (move, point)
        self._scores = point.u
        if move is None or last is None:
            return point.r
        before = last[1]
        self._push = self._next_push(move, last[0], grew=point.relative_gap > SETBACK * before.relative_gap)
        if self._push == 0.0:
            return point.r
        pushed = point.u + self._push * (point.u - before.u)
        length = float(np.linalg.norm(pushed))
        if length < SHORTEST_SCORES:
            return point.r
        self._scores = pushed / length
        return weighted_sum((1 + self._push) / length, point.r, -self._push / length, before.r)

    def _next_push(self, move: FloatArray, last: FloatArray, *, grew: bool) -> float:
        """Return the multiple of the last change of u to extrapolate by; `grew` means that the gap rose."""
        change = move - last
        # where the move would vanish if it changed linearly
        secant = -float(change @ move) / (float(change @ change) or 1.0)
        if float(move @ last) < 0:
            return max(secant, FURTHEST_BACK)
        if grew:
            return PUSH_LEFT * max(self._push, 0.0)
        most = min(max(PUSH_GROWTH * self._push, FIRST_PUSH), LONGEST_PUSH)
        return min(secant, most) if secant > 0 else most  # moves that grow say nothing about their end
