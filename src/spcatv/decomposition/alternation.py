"""One component: the alternation of u and v, with a certificate for both (docs/method.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spcatv._util.devices import frozen
from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData, CountedPasses
from spcatv.decomposition.component import Component
from spcatv.decomposition.extrapolation import PUSH_LEFT
from spcatv.decomposition.weights import LoadingPenalty
from spcatv.kernels.vectors import weighted_sum
from spcatv.problem import LoadingProblem
from spcatv.progress import SILENT, AlternationEnded, Listener
from spcatv.solvers.pdhg import CertifiedLoading, WarmSolver

# A v-step stops at this share of the gap that it starts from, but not below the second one of the tolerance.
STEP_REDUCTION, STEP_SHARE = 0.05, 0.7
# Multiple of the last move of u to push it on by, its growth after every push that paid, and its bound.
FIRST_PUSH, PUSH_GROWTH, LONGEST_PUSH = 0.5, 1.5, 8.0
# After a push that did not pay, solve for the scores of the last point to this share of its gap there.
REPEAT_SHARE = 0.5
# Relative gap, and most alternations, to compare starts at before the best one is solved in full.
COARSE_TOL, COARSE_ALTERNATIONS = 1e-4, 100


def certified_step(
    solver: WarmSolver,
    problem: LoadingProblem,
    goal: float,
    first_goal: float | None = None,
) -> CertifiedLoading:
    """Solve one loading problem to a gap of `first_goal`, or inexactly; accept ``v = 0`` only at `goal`."""
    if first_goal is None:
        step = solver.step(problem, goal, STEP_REDUCTION)
    else:
        step = solver.step(problem, max(goal, first_goal))
    scale = problem.scale()  # what v = 0 costs
    if step.gap > goal and step.value >= scale:
        step = solver.step(problem, goal)
    if step.value < scale:
        return step
    return CertifiedLoading.judged(problem, problem.zero_certificate(step.certificate), step.n_iter)


@dataclass(frozen=True)
class Limits:
    """Stopping criteria and progress listener of an alternation."""

    tol: float  # largest gap relative to the scale of the loading problem
    max_iter: int  # most alternations
    keep_warm_start: bool = True  # whether the component stores a warm start for a later fit
    listener: Listener = SILENT  # called after every alternation; may request a stop


@dataclass(frozen=True, eq=False)
class _Point:
    """Loading of a v-step with its best scores, in all data or in a sketch."""

    step: CertifiedLoading
    solved: LoadingProblem  # the problem of the step
    u: FloatArray  # the scores, shape (N,)
    scores_norm: float
    own: LoadingProblem | None  # the problem of u; None where the loading is zero
    gap: float  # of the loading in its own problem, or in the solved one where it is zero
    scale: float  # what the gap is relative to
    objective: float
    is_exact: bool  # whether the scores are the best in all data

    @property
    def relative_gap(self) -> float:
        """Gap over the scale."""
        return self.gap / self.scale


def _scored(
    passes: CountedPasses,
    penalty: LoadingPenalty,
    step: CertifiedLoading,
    solved: LoadingProblem,
    *,
    exactly: bool,
) -> _Point:
    scores, back = passes.there_and_back(step.v, exactly=exactly)
    length = float(np.linalg.norm(scores))
    if length == 0:
        return _Point(step, solved, scores, 0.0, None, step.gap, solved.scale(), 0.0, is_exact=True)
    l2 = penalty.weights.l2
    back *= 1.0 / (length * (passes.n_samples * l2))
    own = penalty.problem_at(back)
    judgement, scale = own.judge(step.certificate), own.scale()
    objective = l2 * (judgement.value - scale)
    return _Point(step, solved, scores / length, length, own, judgement.gap, scale, objective, exactly)


def alternate(
    data: Products,
    penalty: LoadingPenalty,
    start: FloatArray | LoadingProblem,
    limits: Limits,
    *,
    solver: WarmSolver,
    first_gap: float | None = None,
    sketch: CompressedData | None = None,
) -> Component:
    """Alternate v and u from a start until v is certified for its own u.

    The data (N x P) are centred and deflated. The start is a vector of unit scores, or the loading problem
    that they pose. The solver keeps its state for a later call. Where the start is a good one, `first_gap` is
    the relative gap at which the first v-step may stop; without it the first is as inexact as the others.
    Scores are computed with the sketch, if there is one, and confirmed by a pass over the data.
    """
    passes = CountedPasses(data, sketch)
    if isinstance(start, LoadingProblem):
        problem = start
    else:
        problem = penalty.problem_at(passes.transpose_dot(start) / (passes.n_samples * penalty.weights.l2))
    point: _Point | None = None
    objectives: list[float] = []
    inexactness: list[float] = []
    push, is_pushed, step_gap, first_loss, n_iter = FIRST_PUSH, False, first_gap, 0.0, 0
    number = n_steps = 0  # alternations; those since the sketch has last learnt
    while n_steps < limits.max_iter:
        number, n_steps = number + 1, n_steps + 1
        scale = problem.scale()
        first_goal = None if step_gap is None else step_gap * scale
        step = certified_step(solver, problem, STEP_SHARE * limits.tol * scale, first_goal)
        n_iter, step_gap = n_iter + step.n_iter, None
        found = _scored(passes, penalty, step, problem, exactly=not passes.has_sketch)
        is_worse = point is None or found.own is None or found.objective > point.objective
        if is_pushed and is_worse and point is not None and point.own is not None:
            # the push went too far: go on with the scores of the last point
            problem, is_pushed, step_gap = point.own, False, REPEAT_SHARE * point.relative_gap
            push = max(FIRST_PUSH, PUSH_LEFT * push)
            continue
        before, point = point, found
        if point.own is None:
            break
        if not point.is_exact and point.gap <= limits.tol * point.scale:
            point, n_steps = _scored(passes, penalty, step, problem, exactly=True), 0
        objectives.append(point.objective)
        inexactness.append(penalty.weights.l2 * step.gap)
        if number == 1 and first_gap is not None:
            first_loss = max(point.relative_gap - step.gap / scale, 0.0)
        ended = AlternationEnded(number, point.objective, point.relative_gap)
        is_done = point.is_exact and point.gap <= limits.tol * point.scale
        if limits.listener.hear(ended) or is_done or point.own is None:
            break
        if is_pushed:
            push = min(PUSH_GROWTH * push, LONGEST_PUSH)
        is_pushed, problem = False, point.own
        if before is not None and before.own is not None:
            is_pushed, problem = True, _pushed(point.u, point.own, before.u, before.own, push)
    assert point is not None  # there is at least one alternation
    if not point.is_exact:
        point = _scored(passes, penalty, point.step, point.solved, exactly=True)
        objectives[-1] = point.objective
    is_empty = point.own is None
    back: FloatArray = np.zeros(0)
    if point.own is not None:
        back = (passes.n_samples * penalty.weights.l2) * point.own.y
        data.add_removed(point.u, 1.0, back)
    return Component(
        v=np.zeros_like(point.step.v) if is_empty else point.step.v,
        u=point.u,
        scores_norm=point.scores_norm,
        objective=point.objective,
        gap=point.gap,
        scale=point.scale,
        converged=point.gap <= limits.tol * point.scale,
        objectives=tuple(objectives),
        inexactness=tuple(inexactness),
        n_inner_iter=n_iter,
        back=back,
        dual=solver.dual() if limits.keep_warm_start and not is_empty else np.zeros(0),
        weights=penalty.weights,
        first_loss=first_loss,
        n_passes=passes.n_passes,
    )


def _pushed(
    u: FloatArray, own: LoadingProblem, u_before: FloatArray, before: LoadingProblem, push: float
) -> LoadingProblem:
    """Return the loading problem for u pushed on along its last move; y is linear in u and comes for free."""
    length = float(np.linalg.norm(u + push * (u - u_before)))
    y = weighted_sum((1 + push) / length, own.y, -push / length, before.y)
    return replace(own, y=frozen(y))
