"""One component of a wanted sparsity (docs/method.md section 7).

For scores u with the map ``r = X'u / N`` the loading is the map smoothed, then thresholded:

    z = argmin_z 1/2 ||z - r||^2 + t s(z),      t = smoothness * std(r),
    v = S(z, l),                                l = the order statistic of |z| that leaves the wanted zeros;

then ``u = X v / ||X v||``, and so on until z is certified for the map of its own scores.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData
from spcatv.decomposition.alternation import STEP_REDUCTION, STEP_SHARE, Limits
from spcatv.decomposition.component import Component, null_component
from spcatv.decomposition.continuation import ComponentStart
from spcatv.decomposition.passes import CountedPasses
from spcatv.decomposition.target import TARGET_L2, SparsityTarget, Threshold
from spcatv.kernels.vectors import inner_product, weighted_sum
from spcatv.problem import Certificate, LoadingProblem
from spcatv.progress import AlternationEnded
from spcatv.solvers.warm import WARM_TAU, CertifiedLoading, WarmSolver

# A plateau is looked for once the smoothed map is this close to the tolerance.
NEARLY_SOLVED = 10.0
# After so many alternations the scores should have settled. Where they have not, the target may lie inside a
# plateau that inexact steps do not show.
INEXACT_STEPS = 30
# Scores that still move after so many alternations may go back and forth between the two sides of a plateau:
# from here on plateaus are no longer looked for.
PLATEAUS_UNTIL = 120
# By then, scores settle on a sketch, or not at all.
SKETCHED_UNTIL = 60
# Where the target lies inside a plateau, or the penalty leaves too little, the smoothness is lowered.
SMOOTHNESS_FACTOR = 0.7
SMALLEST_SMOOTHNESS = 0.01
# How far u is pushed along its last change at first, how much further each time, and at most; how far it is
# pulled back at most where it goes back and forth.
FIRST_PUSH, PUSH_GROWTH, LONGEST_PUSH, FURTHEST_BACK = 1.0, 2.0, 10.0, -0.5
# A relative gap that grows by this factor is a setback, after which this share of the push is left.
SETBACK, PUSH_LEFT = 1.2, 0.3


@dataclass(frozen=True, eq=False)
class _Point:
    """A loading with its best scores, and how good the smoothed map behind it is for them."""

    u: FloatArray  # ``X v / ||X v||``, shape (N,)
    r: FloatArray  # ``X'u / N``, shape (P,)
    v: FloatArray  # the loading, shape (P,)
    scores_norm: float  # ``||X v||``
    threshold: Threshold  # how v follows from the smoothed map
    tv: float  # weight of the structured penalty
    gap: float  # of the smoothed map for r
    scale: float  # what the gap is relative to
    is_exact: bool  # whether the scores are the best in all data, not in a sketch

    @property
    def relative_gap(self) -> float:
        """Gap over the scale of the problem."""
        return self.gap / self.scale

    def objective(self, target: SparsityTarget) -> float:
        """Penalised objective ``f(u, v)`` for the weights found."""
        penalty = target.with_weights(self.threshold.l1, self.tv)
        return penalty.value(self.v) - inner_product(self.r, self.v)


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
        if limits.listener.hear(ended) or (point.is_exact and point.relative_gap <= limits.tol):
            break
        r = ahead.map_after(point)
    if point is None:
        return replace(null_component(data.shape), n_inner_iter=alternation.n_iter)
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
        converged=point.relative_gap <= limits.tol,
        objectives=tuple(objectives),
        inexactness=tuple(inexactness),
        n_inner_iter=alternation.n_iter,
        back=back,
        dual=solver.dual() if limits.keep_warm_start else np.zeros(0),
        weights=target.with_weights(point.threshold.l1, point.tv).weights,
        smoothness=alternation.smoothness,
        jump=point.threshold.jump,
        target_sparsity=target.sparsity,
        n_passes=passes.n_passes,
    )


def _first_map(
    passes: CountedPasses, target: SparsityTarget, start: FloatArray | ComponentStart, solver: WarmSolver
) -> FloatArray:
    """The map to start from, with the solver in the state that goes with it."""
    if not isinstance(start, ComponentStart):
        return passes.transpose_dot(start) / passes.n_samples
    r = TARGET_L2 * start.y
    tv = target.structured_weight(r, target.smoothness)
    # the smoothed map follows from its dual variable
    z = target.smoothing(r, tv).minimizer(start.dual)
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
        self._certificate: Certificate  # of the map that the last step has smoothed

    def step(self, r: FloatArray) -> _Point | None:
        """The loading for the map r (P,) with its best scores; None if there is nothing to explain.

        The first steps smooth the map as far as the last one suggests, later ones to the tolerance. What ends
        on a sketch is confirmed; where that fails, all begins anew on a wider sketch. Where no end is in
        sight, the sketch is given up.
        """
        if not r.any():
            return None
        if self._passes.has_sketch and self.n_steps >= SKETCHED_UNTIL:
            self._passes.give_up_sketch()
            self._begin()
        self.n_steps += 1
        reduction = STEP_REDUCTION if self.n_steps <= INEXACT_STEPS else 0.0
        while True:
            tv = self._target.structured_weight(r, self.smoothness)
            problem = self._target.smoothing(r, tv)
            step = self._solver.step(problem, STEP_SHARE * self._tol * problem.scale(), reduction)
            self.n_iter += step.n_iter
            threshold = self._threshold(problem, step, self.n_steps <= PLATEAUS_UNTIL)
            if not threshold.is_off or self.smoothness <= SMALLEST_SMOOTHNESS * self._target.smoothness:
                break
            self.smoothness *= SMOOTHNESS_FACTOR
            reduction = 0.0  # an inexact step would stay at the map that was too smooth
        self._certificate = step.certificate
        point = self._scored(threshold.apply(step.v), threshold, tv, is_exact=not self._passes.has_sketch)
        if point is None or point.is_exact or point.relative_gap > self._tol:
            return point
        point = self.confirmed(point)
        if point.relative_gap > self._tol:
            self._begin()
        return point

    def _begin(self) -> None:
        self.n_steps, self.smoothness = 0, self._target.smoothness

    def confirmed(self, point: _Point) -> _Point:
        """The loading of the last step with the best scores in all data."""
        return self._scored(point.v, point.threshold, point.tv, is_exact=True) or point

    def _threshold(self, problem: LoadingProblem, step: CertifiedLoading, plateaus: bool) -> Threshold:
        """The threshold; a plateau shows only in a map that is nearly exact."""
        tol = self._tol * problem.scale()
        looks = plateaus and step.gap <= NEARLY_SOLVED * tol
        noise = float(np.sqrt(max(step.gap, tol) / step.v.size)) if looks else 0.0
        return self._target.threshold(step.v, noise)

    def _scored(self, v: FloatArray, threshold: Threshold, tv: float, *, is_exact: bool) -> _Point | None:
        scores, r = self._passes.there_and_back(v, exactly=is_exact)
        length = float(np.linalg.norm(scores))
        if length == 0:
            return None
        r *= 1.0 / (length * self._passes.n_samples)
        problem = self._target.smoothing(r, tv)
        gap = problem.judge(self._certificate).gap
        return _Point(scores / length, r, v, length, threshold, tv, gap, problem.scale(), is_exact)


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
        """The map to start the next alternation from, shape (P,); maps are linear in u and come for free."""
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
        self._scores = pushed / length
        return weighted_sum((1 + self._push) / length, point.r, -self._push / length, before.r)

    def _next_push(self, move: FloatArray, last: FloatArray, *, grew: bool) -> float:
        """How far to go along the last change of u; `grew` tells of a setback."""
        change = move - last
        # where the move would vanish if it changed linearly
        secant = -float(change @ move) / (float(change @ change) or 1.0)
        if float(move @ last) < 0:
            return max(secant, FURTHEST_BACK)
        if grew:
            return PUSH_LEFT * max(self._push, 0.0)
        most = min(max(PUSH_GROWTH * self._push, FIRST_PUSH), LONGEST_PUSH)
        return min(secant, most) if secant > 0 else most  # moves that grow say nothing about their end
