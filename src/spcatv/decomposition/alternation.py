"""One component: the alternation of u and v, with a certificate for both (docs/method.md section 4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spcatv._util.devices import frozen
from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData
from spcatv.decomposition.component import Component
from spcatv.decomposition.passes import CountedPasses
from spcatv.decomposition.weights import LoadingPenalty
from spcatv.kernels.vectors import weighted_sum
from spcatv.problem import LoadingProblem
from spcatv.progress import SILENT, AlternationEnded, Listener
from spcatv.solvers.pdhg import CertifiedLoading, WarmSolver

# A v-step needs to be better than the last one, not perfect: it stops at this share of the gap it
# starts from, and never far below the tolerance.
STEP_REDUCTION = 0.05
STEP_SHARE = 0.7
# How far u is pushed along its last move: further after every push that paid, back after one that did
# not. Where two directions explain nearly the same, plain alternation creeps.
FIRST_PUSH = 0.5
PUSH_GROWTH = 1.5
PUSH_SETBACK = 0.3
LONGEST_PUSH = 8.0
# After a push that did not pay, the v-step is repeated for the scores of the last point, to this share of its
# gap there: the solver comes from where the push led, and a share of that gap could leave it worse off.
REPEAT_SHARE = 0.5
# Relative gap at which starts are compared before the best one is solved in full.
COARSE_TOL = 1e-4
COARSE_ALTERNATIONS = 100


@dataclass(frozen=True)
class Limits:
    """Stopping criteria and progress listener of an alternation."""

    tol: float  # largest gap relative to the scale of the loading problem
    max_iter: int  # most alternations
    keep_warm_start: bool = True  # whether the component stores a warm start for a later fit
    listener: Listener = SILENT  # called after every alternation; may request a stop

    def coarse(self) -> Limits:
        """Return the same for a first look at a start."""
        return Limits(max(self.tol, COARSE_TOL), min(self.max_iter, COARSE_ALTERNATIONS))


class _Alternation:
    """State of one alternation: the accepted point, and the scores to solve for next."""

    def __init__(
        self, data: Products, passes: CountedPasses, penalty: LoadingPenalty, solver: WarmSolver, tol: float
    ) -> None:
        self.data, self.passes, self.penalty, self.solver, self.tol = data, passes, penalty, solver, tol
        self.v: FloatArray = np.zeros(0)
        self.u: FloatArray = np.zeros(data.shape[0])
        self.scores_norm = 0.0
        self.problem: LoadingProblem | None = None  # that of u; None while, or where, v is zero
        self.gap, self.scale = np.inf, 0.0
        self.objectives: list[float] = []
        self.inexactness: list[float] = []
        self.n_inner_iter = 0
        self.first_loss = 0.0
        # the v-step of scores that are the best ones in a sketch only, and its problem
        self.sketched: tuple[CertifiedLoading, LoadingProblem] | None = None

    def solve(self, problem: LoadingProblem, relative_gap: float | None) -> CertifiedLoading:
        """Solve one loading problem inexactly; accept ``v = 0`` only at full precision.

        It ends at `relative_gap`, or without one at a share of the gap that it begins with.
        """
        scale = problem.scale()  # what v = 0 costs
        tol = STEP_SHARE * self.tol * scale
        if relative_gap is None:
            step = self.solver.step(problem, tol, STEP_REDUCTION)
        else:
            step = self.solver.step(problem, max(tol, relative_gap * scale))
        if step.gap > tol and step.value >= scale:
            step = self.solver.step(problem, tol)
        self.n_inner_iter += step.n_iter
        if step.value < scale:
            return step
        return CertifiedLoading.judged(problem, problem.zero_certificate(step.certificate), step.n_iter)

    def accept(self, step: CertifiedLoading, problem: LoadingProblem, *, extrapolated: bool) -> bool:
        """Take the new v with its best u, unless an extrapolated step has raised the objective."""
        return self._accept(step, problem, extrapolated=extrapolated, exactly=not self.passes.has_sketch)

    def confirm(self) -> None:
        """Replace the scores of v by the best ones in all data, if they are those in a sketch."""
        if self.sketched is not None and self.problem is not None:
            self.objectives.pop()
            self.inexactness.pop()
            self._accept(*self.sketched, extrapolated=False, exactly=True)

    def _accept(
        self, step: CertifiedLoading, problem: LoadingProblem, *, extrapolated: bool, exactly: bool
    ) -> bool:
        slack = self.penalty.weights.l2 * step.gap
        scores, back = self.passes.there_and_back(step.v, exactly=exactly)
        length = float(np.linalg.norm(scores))
        if length == 0:
            if extrapolated:
                return False
            self.v, self.problem, self.sketched = np.zeros_like(step.v), None, None
            self.gap, self.scale = step.gap, problem.scale()
            return True
        back *= 1.0 / (length * (self.data.shape[0] * self.penalty.weights.l2))
        own = self.penalty.problem_at(back)
        judgement = own.judge(step.certificate)
        objective = self.penalty.weights.l2 * (judgement.value - own.scale())
        if extrapolated and objective > self.objectives[-1]:
            return False
        self.v, self.problem = step.v, own
        self.sketched = None if exactly else (step, problem)
        self.u, self.scores_norm = scores / length, length
        self.gap, self.scale = judgement.gap, own.scale()
        self.objectives.append(objective)
        self.inexactness.append(slack)
        return True

    def converged(self) -> bool:
        """Whether v is certified for its own u."""
        return self.gap <= self.tol * self.scale

    def result(self, *, keep_warm_start: bool) -> Component:
        """Return the component reached, with or without a warm start."""
        is_empty = self.problem is None
        back: FloatArray = np.zeros(0)
        dual: FloatArray = np.zeros(0)
        if self.problem is not None:
            back = (self.data.shape[0] * self.penalty.weights.l2) * self.problem.y
            self.data.add_removed(self.u, 1.0, back)
            dual = self.solver.dual() if keep_warm_start else dual
        return Component(
            v=self.v,
            u=np.zeros_like(self.u) if is_empty else self.u,
            scores_norm=0.0 if is_empty else self.scores_norm,
            objective=0.0 if is_empty else self.objectives[-1],
            gap=self.gap,
            scale=self.scale,
            converged=self.converged(),
            objectives=tuple(self.objectives),
            inexactness=tuple(self.inexactness),
            n_inner_iter=self.n_inner_iter,
            back=back,
            dual=dual,
            weights=self.penalty.weights,
            first_loss=self.first_loss,
            n_passes=self.passes.n_passes,
        )


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
    Scores are looked for in the sketch, if there is one, and confirmed by a pass over the data.
    """
    passes = CountedPasses(data, sketch)
    state = _Alternation(data, passes, penalty, solver, limits.tol)
    if isinstance(start, LoadingProblem):
        problem = start
    else:
        problem = penalty.problem_at(passes.transpose_dot(start) / (passes.n_samples * penalty.weights.l2))
    push, extrapolated, step_gap = FIRST_PUSH, False, first_gap
    number = n_steps = 0  # alternations; those since the sketch has last learnt
    while n_steps < limits.max_iter:
        number, n_steps = number + 1, n_steps + 1
        step = state.solve(problem, step_gap)
        step_gap = None
        before = state.u, state.problem
        if not state.accept(step, problem, extrapolated=extrapolated):
            # the push went too far: go on with the scores of the last point
            problem, extrapolated = _own_problem(state), False
            step_gap = REPEAT_SHARE * state.gap / state.scale
            push = max(FIRST_PUSH, PUSH_SETBACK * push)
            continue
        if state.problem is None:
            break
        if state.sketched is not None and state.converged():
            state.confirm()
            n_steps = 0
        if number == 1 and first_gap is not None:
            state.first_loss = max(state.gap / state.scale - step.gap / problem.scale(), 0.0)
        ended = AlternationEnded(number, state.objectives[-1], state.gap / state.scale)
        if limits.listener.hear(ended) or (state.converged() and state.sketched is None):
            break
        if extrapolated:
            push = min(PUSH_GROWTH * push, LONGEST_PUSH)
        extrapolated = before[1] is not None
        problem = _own_problem(state) if before[1] is None else _pushed(state, before[0], before[1], push)
    state.confirm()
    return state.result(keep_warm_start=limits.keep_warm_start)


def _own_problem(state: _Alternation) -> LoadingProblem:
    if state.problem is None:
        raise RuntimeError("the alternation has no accepted point yet")
    return state.problem


def _pushed(state: _Alternation, u_before: FloatArray, before: LoadingProblem, push: float) -> LoadingProblem:
    """Return the loading problem for u pushed on along its last move; y is linear in u and comes for free."""
    own = _own_problem(state)
    ahead = state.u + push * (state.u - u_before)
    length = float(np.linalg.norm(ahead))
    y = weighted_sum((1 + push) / length, own.y, -push / length, before.y)
    return replace(own, y=frozen(y))
