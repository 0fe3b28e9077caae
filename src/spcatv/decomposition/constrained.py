"""One component of a wanted sparsity: the l1 weight follows the share of zeros (docs/method.md section 7).

For scores u with the map ``r = X'u / N`` the loading is

    v(l) = argmin_v 1/2 ||v - r||^2 + t s(v) + l ||v||_1,      t = smoothness * std(r),

with the weight l that leaves the wanted share of zeros; then ``u = X v / ||X v||``, and so on until u
settles. The weights are then frozen, and v is certified for its own u like any other loading.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import DataOperator
from spcatv.decomposition.alternation import STEP_REDUCTION, STEP_SHARE, Limits
from spcatv.decomposition.component import Component, null_component
from spcatv.decomposition.continuation import ComponentStart
from spcatv.decomposition.penalty import LoadingPenalty
from spcatv.decomposition.target import TARGET_L2, SparsityTarget
from spcatv.kernels.vectors import weighted_sum
from spcatv.problem import LoadingProblem
from spcatv.progress import AlternationEnded
from spcatv.solvers.warm import WARM_TAU, CertifiedLoading, WarmSolver

# How close to the wanted share of zeros is close enough. An inexact v has inexact zeros: the slack is the
# square root of its relative gap, within these bounds.
CLOSE, LEAST_CLOSE = 0.006, 0.05
# Weights tried per alternation: few while the scores still move, then as many as it takes to know whether
# the zeros jump past the target.
EARLY_ROUNDS, ROUNDS, MOST_ROUNDS = 2, 4, 30
SETTLED, SETTLED_AFTER = 1e-4, 12
# A small change of the weight shows in the zeros of a more exact loading only: second and further tries go
# to this share of the gap.
RETRY_SHARE = 0.3
# A secant changes the weight by at most this share.
LONGEST_SECANT = 0.1
# The first weight, as a share of the one that thresholding r itself would need: smoothing lowers peaks.
FIRST_SHARE = 0.5
# Between two weights this close together, zeros that jump past the target are a region that leaves at once.
NARROW = 1e-3
# Where the closest share is further off than this, the map is flat: the smoothness is lowered.
LARGEST_MISS = 0.05
SMOOTHNESS_FACTOR = 0.7
SMALLEST_SMOOTHNESS = 0.05
# A loading that explains less than this many tolerances of the scale of its problem, or than that share,
# counts as zero: its certificate could hardly tell the two apart.
FAINT, FAINTEST = 10.0, 1e-4
# Below this share of the weight of the structured penalty, that of the l1 norm has no effect.
SMALLEST_WEIGHT = 1e-6
# After so many changes from one side of a jump to the other the closer side is kept; after so many
# alternations the weights stay as they are. (With fixed weights an alternation may leave the target.)
CHANGES_OF_SIDE = 2
LAST_WEIGHTS_AT = 60
# How far u is pushed along its last move while that pays.
FIRST_PUSH, PUSH_GROWTH, LONGEST_PUSH = 0.5, 1.5, 4.0


@dataclass(frozen=True, eq=False)
class _Trial:
    """One choice of weights for a map.

    Attributes
    ----------
    penalty : LoadingPenalty
        The weights.
    step : CertifiedLoading
        The loading.
    excess : int
        Its zeros beyond the wanted number.
    close : bool
        Whether that is close enough.
    dual : ndarray of shape (n_rows,)
        The dual variable of the loading, to go back to it.
    """

    penalty: LoadingPenalty
    step: CertifiedLoading
    excess: int
    close: bool
    dual: FloatArray

    @property
    def l1(self) -> float:
        """The l1 weight."""
        return self.penalty.weights.l1


class _WeightSearch:
    """Finds the l1 weight for one map after another, each from the last answer."""

    def __init__(self, target: SparsityTarget, solver: WarmSolver, tol: float, l1: float | None) -> None:
        self.target, self._solver, self._tol = target, solver, tol
        self.smoothness = target.smoothness
        self.jump = 0.0
        self.n_iter = 0
        self._l1 = l1  # to be tried next
        self._slope: float | None = None  # zeros per weight, from the last two trials for one map
        self._frozen: LoadingPenalty | None = None
        self._side, self._side_is_kept, self._n_changes = 0, False, 0  # -1 and 1: too few, too many zeros

    @property
    def is_frozen(self) -> bool:
        """Whether the weights stay as they are."""
        return self._frozen is not None

    def freeze(self, penalty: LoadingPenalty) -> None:
        """Keep these weights from now on."""
        self._frozen = penalty

    def solve(self, r: FloatArray, rounds: int) -> _Trial:
        """The loading for the map r (P,), with weights that leave the wanted zeros, or close to that.

        It is not zero unless r is: where the weights kill it, both are lowered.
        """
        trial = self._try(r, self._frozen) if self._frozen is not None else self._search(r, rounds)
        for _ in range(MOST_ROUNDS):
            if trial.step.v.any() or not r.any():
                break
            self._frozen = None
            self._l1 = SMOOTHNESS_FACTOR * trial.l1
            self.smoothness *= SMOOTHNESS_FACTOR
            trial = self._search(r, rounds)
        return trial

    def _search(self, r: FloatArray, rounds: int) -> _Trial:
        tv = self.target.structured_weight(r, self.smoothness)
        if self._l1 is None:
            self._l1 = FIRST_SHARE * float(np.quantile(np.abs(r), self.target.sparsity))
        below: _Trial | None = None  # too few zeros
        above: _Trial | None = None  # too many
        for number in range(1, MOST_ROUNDS + 1):
            before = above if below is None else below
            share = 1.0 if number == 1 else RETRY_SHARE
            trial = self._try(r, self.target.with_weights(self._l1, tv), share)
            if trial.close:
                self.jump = 0.0
                return trial
            if trial.excess > 0:
                above = trial
            else:
                below = trial
            if trial.excess > 0 and trial.l1 <= SMALLEST_WEIGHT * tv:
                return self._without_l1(trial)
            if below is not None and above is not None and above.l1 <= (1 + NARROW) * below.l1:
                return self._at_jump(r, below, above)
            self._learn(before, trial)
            low, high = 0.0 if below is None else below.l1, np.inf if above is None else above.l1
            self._l1 = _next_weight(trial, low, high, self._slope, halve=number >= ROUNDS)
            if number >= rounds and trial.step.v.any():
                break
        return trial

    def _try(self, r: FloatArray, penalty: LoadingPenalty, share: float = 1.0) -> _Trial:
        problem = penalty.problem_at(r / TARGET_L2)
        scale = problem.scale()
        step = self._step(problem, share * STEP_SHARE * self._tol * scale)
        excess = step.v.size - int(np.count_nonzero(step.v)) - self.target.n_zeros
        slack = min(max(float(np.sqrt(step.gap / scale)), CLOSE), LEAST_CLOSE) * r.size
        close = abs(excess) <= max(slack, 0.5) and bool(step.v.any())
        return _Trial(penalty, step, excess, close, self._solver.dual())

    def _step(self, problem: LoadingProblem, tol: float) -> CertifiedLoading:
        """One v-step, to an absolute gap of `tol` at most; a faint loading becomes zero.

        Just below the weight at which a flat region dies it has the same support as far below, but hardly
        any length. To count it as zero moves the search away from there.
        """
        alive = (1.0 - min(FAINT * self._tol, FAINTEST)) * problem.scale()
        step = self._solver.step(problem, tol, STEP_REDUCTION)
        self.n_iter += step.n_iter
        if step.value > alive and step.gap > tol:
            step = self._solver.step(problem, tol)
            self.n_iter += step.n_iter
        if step.value <= alive:
            return step
        return CertifiedLoading.judged(problem, problem.zero_certificate(step.certificate), step.n_iter)

    def _learn(self, before: _Trial | None, trial: _Trial) -> None:
        if before is not None and (trial.l1 - before.l1) * (trial.excess - before.excess) > 0:
            self._slope = (trial.excess - before.excess) / (trial.l1 - before.l1)

    def _without_l1(self, trial: _Trial) -> _Trial:
        """What to do where the structured penalty alone, as that of groups, leaves too many zeros."""
        miss = trial.excess / trial.step.v.size
        if miss > LARGEST_MISS and self.smoothness > SMALLEST_SMOOTHNESS * self.target.smoothness:
            self.smoothness *= SMOOTHNESS_FACTOR
            return trial
        return replace(trial, close=True)  # fewer zeros are not to be had

    def _at_jump(self, r: FloatArray, below: _Trial, above: _Trial) -> _Trial:
        """The side of a jump that is closer to the target; with less smoothness where that is far off."""
        n_features = r.size
        self.jump = (above.excess - below.excess) / n_features
        closer = above if above.step.v.any() and above.excess <= -below.excess else below
        side = -1 if closer is below else 1
        if self._side_is_kept and side != self._side and (above.step.v.any() or self._side < 0):
            closer, side = (below if self._side < 0 else above), self._side
        if side * self._side < 0:
            self._n_changes += 1
            self._side_is_kept = self._n_changes >= CHANGES_OF_SIDE
        self._side = side
        miss = abs(closer.excess) / n_features
        self._l1 = closer.l1
        # within the tolerance a loading may stay on the side that it came from: back to the chosen one
        self._solver.restart_from(closer.step.v, closer.dual)
        if miss > LARGEST_MISS and self.smoothness > SMALLEST_SMOOTHNESS * self.target.smoothness:
            self.smoothness *= SMOOTHNESS_FACTOR
            return closer
        return replace(closer, close=True)


def _next_weight(trial: _Trial, low: float, high: float, slope: float | None, *, halve: bool) -> float:
    """The next weight to try, between those known to leave too few and too many zeros.

    A weight larger by d makes zeros of the loadings below d in magnitude, nearly; a weight smaller by d
    brings back about as many as that. Loadings that are not exact yet make this move too short, and a
    secant through the last two trials is taken where it leads further. If that does not help, the bracket
    is halved.
    """
    magnitudes = np.abs(trial.step.v[trial.step.v != 0])
    if len(magnitudes) == 0:
        return 0.5 * (low + trial.l1)
    rank = min(abs(trial.excess), len(magnitudes) - 1)
    move = float(np.partition(magnitudes, rank)[rank])
    if slope is not None:
        move = max(move, min(abs(trial.excess) / slope, LONGEST_SECANT * trial.l1))
    guess = trial.l1 - move if trial.excess > 0 else trial.l1 + move
    if np.isfinite(high) and (halve or not low < guess < high):
        return 0.5 * (low + high)
    return guess if low < guess < high else 1.5 * trial.l1


@dataclass(eq=False)
class _Point:
    """A loading with its best scores, and how good it is for them."""

    u: FloatArray
    r: FloatArray
    scores_norm: float
    trial: _Trial
    problem: LoadingProblem
    objective: float
    gap: float

    @property
    def relative_gap(self) -> float:
        """Gap over the scale of the problem."""
        return self.gap / self.problem.scale()


def alternate_to_sparsity(
    data: DataOperator,
    target: SparsityTarget,
    start: FloatArray | ComponentStart,
    limits: Limits,
    *,
    solver: WarmSolver,
) -> Component:
    """Alternate v and u until v has the wanted zeros and is certified for its own u.

    Parameters
    ----------
    data : DataOperator
        Centred and deflated data, N x P.
    target : SparsityTarget
        What the component is asked for.
    start : ndarray of shape (N,) or ComponentStart
        Unit scores to start from, or a component of another target.
    limits : Limits
        When to stop, and who is told.
    solver : WarmSolver
        Solves the v-steps; keeps its state for a later call.

    Returns
    -------
    Component
    """
    n_samples = data.shape[0]
    if isinstance(start, ComponentStart):
        solver.restart_from(
            np.maximum(start.v, 0.0) if target.positive else start.v, start.dual, tau=WARM_TAU
        )
        r, l1 = TARGET_L2 * start.y, start.l1
    else:
        r, l1 = data.transpose_dot(start) / n_samples, None
    search = _WeightSearch(target, solver, limits.tol, l1)
    objectives: list[float] = []
    inexactness: list[float] = []
    point: _Point | None = None
    push = 0.0
    for number in range(1, limits.max_iter + 1):
        moving = point is not None and point.relative_gap > SETTLED and number < SETTLED_AFTER
        trial = search.solve(r, ROUNDS if point is None else EARLY_ROUNDS if moving else MOST_ROUNDS)
        after = _scored(data, trial)
        if after is None:
            break
        before, point = point, after
        objectives.append(point.objective)
        inexactness.append(TARGET_L2 * trial.step.gap)
        ended = AlternationEnded(number, point.objective, point.relative_gap)
        done = point.relative_gap <= limits.tol and (trial.close or search.is_frozen)
        if limits.listener.hear(ended) or done:
            break
        if number == LAST_WEIGHTS_AT:
            search.freeze(trial.penalty)
        push = _next_push(push, before, point)
        r = point.r if before is None or push == 0.0 else _pushed(before, point, push)
    if point is None:
        return replace(null_component(data.shape), n_inner_iter=search.n_iter)
    return _component(data, point, search, limits, objectives, inexactness, solver)


def _scored(data: DataOperator, trial: _Trial) -> _Point | None:
    """The trial with the best scores for it; None if it explains nothing."""
    scores, back = data.there_and_back(trial.step.v)
    length = float(np.linalg.norm(scores))
    if length == 0:
        return None
    back *= 1.0 / (length * data.shape[0])
    problem = trial.penalty.problem_at(back / TARGET_L2)
    judgement = problem.judge(trial.step.certificate)
    objective = TARGET_L2 * (judgement.value - problem.scale())
    return _Point(scores / length, back, length, trial, problem, objective, judgement.gap)


def _next_push(push: float, before: _Point | None, point: _Point) -> float:
    """Push further while the gap shrinks from one alternation to the next, and not at all after a setback."""
    if before is None or point.relative_gap >= before.relative_gap:
        return 0.0
    return min(max(PUSH_GROWTH * push, FIRST_PUSH), LONGEST_PUSH)


def _pushed(before: _Point, point: _Point, push: float) -> FloatArray:
    """The map for u pushed on along its last move; it is linear in u and comes for free."""
    length = float(np.linalg.norm(point.u + push * (point.u - before.u)))
    return weighted_sum((1 + push) / length, point.r, -push / length, before.r)


def _component(
    data: DataOperator,
    point: _Point,
    search: _WeightSearch,
    limits: Limits,
    objectives: list[float],
    inexactness: list[float],
    solver: WarmSolver,
) -> Component:
    back: FloatArray = np.zeros(0)
    dual: FloatArray = np.zeros(0)
    if limits.keep_warm_start:
        back = data.shape[0] * point.r
        data.add_removed(point.u, 1.0, back)
        dual = solver.dual()
    return Component(
        v=point.trial.step.v,
        u=point.u,
        scores_norm=point.scores_norm,
        objective=point.objective,
        gap=point.gap,
        scale=point.problem.scale(),
        converged=point.relative_gap <= limits.tol and (point.trial.close or search.is_frozen),
        objectives=tuple(objectives),
        inexactness=tuple(inexactness),
        n_inner_iter=search.n_iter,
        back=back,
        dual=dual,
        weights=point.trial.penalty.weights,
        smoothness=search.smoothness,
        jump=search.jump,
        target_sparsity=search.target.sparsity,
    )
