"""One component: the alternation of u and v, with a certificate for both (docs/method.md section 4).

Plain functions over a data matrix, a penalty and a warm loading solver. Deflation is the matrix's
business (`spcatv.data.centred.DeflatedMatrix`), starts are `spcatv.decomposition.starts`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.data.centred import Matrix
from spcatv.kernels.vectors import weighted_sum
from spcatv.problem import LoadingProblem, Penalty
from spcatv.progress import SILENT, AlternationEnded, Listener
from spcatv.solvers import Solver
from spcatv.solvers.pdhg import WARM_TAU
from spcatv.solvers.warm import VStep, WarmSolver, warm_solver
from spcatv.structure import Structure

# A v-step needs to be better than the last one, not perfect: it stops at this share of the gap it
# starts from, and never far below the tolerance.
STEP_REDUCTION = 0.05
STEP_SHARE = 0.7
# Nor need the first one from another setting be much better than what that one lost, when its scores
# turned out not to be the ones it was made for.
LOSS_SHARE = 0.5
# How far u is pushed along its last move: further after every push that paid, back after one that did
# not. Where two directions explain nearly the same, plain alternation creeps.
FIRST_PUSH = 0.5
PUSH_GROWTH = 1.5
PUSH_SETBACK = 0.3
LONGEST_PUSH = 8.0
# Relative gap at which starts are compared before the best one is solved in full.
COARSE_TOL = 1e-4
COARSE_ALTERNATIONS = 100


@dataclass(frozen=True)
class Weights:
    """Absolute weights of the penalties: ``l1 ||v||_1 + l2 ||v||_2^2 + tv s(v)``."""

    l1: float
    l2: float
    tv: float


@dataclass(frozen=True, eq=False)
class PenaltyModel:
    """The penalty on a loading vector: structure, weights, variant.

    Parameters
    ----------
    structure : Structure
        On the P features.
    weights : Weights
        Absolute weights, l2 > 0.
    penalty : {"tv", "graphnet"}
        Form of the structured penalty.
    positive : bool
        Whether loadings are kept non-negative.
    """

    structure: Structure
    weights: Weights
    penalty: Penalty = "tv"
    positive: bool = False

    def problem(self, matrix: Matrix, u: FloatArray) -> LoadingProblem:
        """The loading problem for scores u: ``y = X'u / (N l2)``."""
        return self.problem_at(matrix.transpose_dot(u) / self.back_scale(matrix.shape[0]))

    def problem_at(self, y: FloatArray) -> LoadingProblem:
        """The loading problem at y (P,), which nobody may change from here on."""
        l2 = self.weights.l2
        y.flags.writeable = False
        return LoadingProblem(
            y,
            self.structure,
            l1=self.weights.l1 / l2,
            tv=self.weights.tv / l2,
            positive=self.positive,
            penalty=self.penalty,
        )

    def back_scale(self, n_rows: int) -> float:
        """How many times longer ``X'u`` is than y: ``N l2``."""
        return n_rows * self.weights.l2

    def value(self, v: FloatArray) -> float:
        """``l1 ||v||_1 + l2 ||v||_2^2 + tv s(v)``."""
        rows = self.structure.forward(v)
        structured = rows @ rows if self.penalty == "graphnet" else self.structure.group_norms(rows).sum()
        weights = self.weights
        return float(weights.l1 * np.abs(v).sum() + weights.l2 * (v @ v) + weights.tv * structured)

    def solver(self, method: str | Solver, dtype: npt.DTypeLike) -> WarmSolver:
        """A warm solver for this penalty."""
        has_structure = self.weights.tv > 0 and self.structure.norm_squared() > 0
        return warm_solver(method, has_structure, dtype)


@dataclass(frozen=True, eq=False)
class Component:
    """A loading vector and its scores, each the best for the other, and how good that is.

    Attributes
    ----------
    v : ndarray of shape (P,)
        Loading vector as the problem gives it (its length is set by l2); zeros if the penalty kills it.
    u : ndarray of shape (N,)
        ``Xv / ||Xv||``; zeros if v is.
    scores_norm : float
        ``||Xv||``.
    back : ndarray of shape (P,), or of shape (0,)
        ``X_0'u`` for the data X_0 before deflation; empty where nothing is to start from here.
    alpha : ndarray of shape (n_rows,), or of shape (0,)
        Feasible dual variable that the last v-step ended with; empty likewise.
    objective : float
        Penalised objective ``f(u, v)``.
    gap : float
        Exact duality gap of v for u, in units of F (``l2`` times smaller than f's).
    scale : float
        ``1/2 ||y||^2`` for u, what the gap is relative to.
    converged : bool
        Whether ``gap <= tol * scale``.
    objectives, inexactness : tuple of float
        After every alternation: the objective, and how far its v-step may have been from its minimum
        (both in units of f).
    n_inner_iter : int
        Iterations of the loading solver, all alternations together.
    first_loss : float
        How much larger the relative gap of the first v-step was for its own scores than for those that it
        was made for, if it came from another setting.
    """

    v: FloatArray
    u: FloatArray
    scores_norm: float
    back: FloatArray
    alpha: FloatArray
    objective: float
    gap: float
    scale: float
    converged: bool
    objectives: tuple[float, ...]
    inexactness: tuple[float, ...]
    n_inner_iter: int
    first_loss: float = 0.0

    @cached_property
    def is_null(self) -> bool:
        """Whether the loading vector is zero."""
        return not self.v.any()

    @property
    def n_alternations(self) -> int:
        """Alternations done."""
        return len(self.objectives)


class _Alternation:
    """State of one alternation: the accepted point, and the scores to solve for next."""

    def __init__(self, matrix: Matrix, model: PenaltyModel, solver: WarmSolver, tol: float) -> None:
        self.matrix, self.model, self.solver, self.tol = matrix, model, solver, tol
        self.v: FloatArray = np.zeros(0)
        self.u: FloatArray = np.zeros(matrix.shape[0])
        self.scores_norm = 0.0
        self.problem: LoadingProblem | None = None  # that of u; None while, or where, v is zero
        self.gap, self.scale = np.inf, 0.0
        self.objectives: list[float] = []
        self.inexactness: list[float] = []
        self.n_inner_iter = 0
        self.first_loss = 0.0

    def solve(self, problem: LoadingProblem, relative_gap: float | None) -> VStep:
        """One inexact v-step; that nothing beats ``v = 0`` is only believed at full precision.

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
        return VStep.judged(problem, problem.zero_certificate(step.certificate), step.n_iter)

    def accept(self, step: VStep, problem: LoadingProblem, *, extrapolated: bool) -> bool:
        """Take the new v with its best u, unless an extrapolated step has raised the objective."""
        slack = self.model.weights.l2 * step.gap
        scores, back = self.matrix.there_and_back(step.v)
        length = float(np.linalg.norm(scores))
        if length == 0:
            if extrapolated:
                return False
            self.v, self.problem = np.zeros_like(step.v), None
            self.gap, self.scale = step.gap, problem.scale()
            return True
        back *= 1.0 / (length * self.model.back_scale(self.matrix.shape[0]))
        own = self.model.problem_at(back)
        judgement = own.judge(step.certificate)
        objective = self.model.weights.l2 * (judgement.value - own.scale())
        if extrapolated and objective > self.objectives[-1] + slack:
            return False
        self.v, self.problem = step.v, own
        self.u, self.scores_norm = scores / length, length
        self.gap, self.scale = judgement.gap, own.scale()
        self.objectives.append(objective)
        self.inexactness.append(slack)
        return True

    def converged(self) -> bool:
        """Whether v is certified for its own u."""
        return self.gap <= self.tol * self.scale

    def result(self, *, to_go_on: bool) -> Component:
        """What has been reached, with or without what another alternation would start from."""
        null = self.problem is None
        back: FloatArray = np.zeros(0)
        alpha: FloatArray = np.zeros(0)
        if to_go_on and self.problem is not None:
            back = self.model.back_scale(self.matrix.shape[0]) * self.problem.y
            self.matrix.add_taken_away(self.u, 1.0, back)
            alpha = self.solver.alpha()
        return Component(
            v=self.v,
            u=np.zeros_like(self.u) if null else self.u,
            scores_norm=0.0 if null else self.scores_norm,
            back=back,
            alpha=alpha,
            objective=0.0 if null else self.objectives[-1],
            gap=self.gap,
            scale=self.scale,
            converged=self.converged(),
            objectives=tuple(self.objectives),
            inexactness=tuple(self.inexactness),
            n_inner_iter=self.n_inner_iter,
            first_loss=self.first_loss,
        )


def alternate(
    matrix: Matrix,
    model: PenaltyModel,
    start: FloatArray | LoadingProblem,
    *,
    solver: WarmSolver,
    tol: float,
    max_iter: int,
    listener: Listener = SILENT,
    first_gap: float | None = None,
    to_go_on: bool = True,
) -> Component:
    """Alternate v and u from a start until v is certified for its own u.

    Parameters
    ----------
    matrix : Matrix
        Centred and deflated data, N x P.
    model : PenaltyModel
        The penalty.
    start : ndarray of shape (N,) or LoadingProblem
        Unit scores to start from, or the loading problem that they pose.
    solver : WarmSolver
        Solves the v-steps; keeps its state for a later call.
    tol : float
        Largest gap relative to the scale of the loading problem.
    max_iter : int
        Most alternations.
    listener : Listener
        Hears of every alternation (`AlternationEnded`) and may stop after it.
    first_gap : float or None
        Relative gap at which the first v-step may stop, where the start is a good one; without it the
        first is as inexact as the others.
    to_go_on : bool
        Whether the component keeps what another alternation would start from.

    Returns
    -------
    Component
    """
    state = _Alternation(matrix, model, solver, tol)
    problem = start if isinstance(start, LoadingProblem) else model.problem(matrix, start)
    push, extrapolated = FIRST_PUSH, False
    for number in range(1, max_iter + 1):
        step = state.solve(problem, first_gap if number == 1 else None)
        before = state.u, state.problem
        if not state.accept(step, problem, extrapolated=extrapolated):
            # the push went too far: on with the scores of the last point
            problem, extrapolated = _own_problem(state), False
            push = max(FIRST_PUSH, PUSH_SETBACK * push)
            continue
        if state.problem is None:
            break
        if number == 1 and first_gap is not None:
            state.first_loss = max(state.gap / state.scale - step.gap / problem.scale(), 0.0)
        ended = AlternationEnded(number, state.objectives[-1], state.gap / state.scale)
        asked_to_stop = listener.hear(ended)
        if asked_to_stop or state.converged():
            break
        if extrapolated:
            push = min(PUSH_GROWTH * push, LONGEST_PUSH)
        extrapolated = before[1] is not None
        problem = _own_problem(state) if before[1] is None else _pushed(state, before[0], before[1], push)
    return state.result(to_go_on=to_go_on)


def _own_problem(state: _Alternation) -> LoadingProblem:
    if state.problem is None:
        raise RuntimeError("the alternation has no accepted point yet")
    return state.problem


def _pushed(state: _Alternation, u_before: FloatArray, before: LoadingProblem, push: float) -> LoadingProblem:
    """The loading problem for u pushed on along its last move; y is linear in u and comes for free."""
    own = _own_problem(state)
    ahead = state.u + push * (state.u - u_before)
    length = float(np.linalg.norm(ahead))
    y = weighted_sum((1 + push) / length, own.y, -push / length, before.y)
    y.flags.writeable = False
    return replace(own, y=y)


@dataclass(frozen=True, eq=False)
class Neighbour:
    """Where to start a component of data that were fitted with other weights before.

    Attributes
    ----------
    y : ndarray of shape (P,)
        ``X'u / (N l2)`` for the scores of another setting, or those that two of them point to.
    v : ndarray of shape (P,)
        Loading vector, likewise, in the length that the present l2 gives it.
    alpha : ndarray of shape (n_rows,)
        Dual variable, likewise; not always feasible.
    loss : float
        `Component.first_loss` of the other setting.
    """

    y: FloatArray
    v: FloatArray
    alpha: FloatArray
    loss: float


def continued_component(
    matrix: Matrix,
    model: PenaltyModel,
    neighbour: Neighbour,
    *,
    solver: WarmSolver,
    tol: float,
    max_iter: int,
    listener: Listener = SILENT,
    to_go_on: bool = True,
) -> Component:
    """Alternate from a component that was fitted with other weights.

    Parameters
    ----------
    matrix, model, solver, tol, max_iter, listener, to_go_on
        As in `alternate`.
    neighbour : Neighbour
        Where to start.

    Returns
    -------
    Component
    """
    v = np.maximum(neighbour.v, 0.0) if model.positive else neighbour.v
    solver.restart_from(v, neighbour.alpha, tau=WARM_TAU)
    return alternate(
        matrix,
        model,
        model.problem_at(neighbour.y),
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        listener=listener,
        first_gap=LOSS_SHARE * neighbour.loss,
        to_go_on=to_go_on,
    )


def best_component(
    matrix: Matrix,
    model: PenaltyModel,
    starts: Sequence[FloatArray],
    *,
    solver: WarmSolver,
    tol: float,
    max_iter: int,
    listener: Listener = SILENT,
    to_go_on: bool = True,
) -> Component:
    """Alternate from every start coarsely, and from the best of them to the full tolerance.

    A start that the penalty kills at once counts as objective 0, so that any live one beats it; the
    component is null if all of them are.

    Parameters
    ----------
    matrix, model, solver, tol, max_iter, listener, to_go_on
        As in `alternate`.
    starts : sequence of ndarray of shape (N,)
        Unit scores to start from.

    Returns
    -------
    Component
    """
    if len(starts) == 1:
        solver.restart()
        return alternate(
            matrix,
            model,
            starts[0],
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            listener=listener,
            to_go_on=to_go_on,
        )
    tried = []
    for start in starts:
        solver.restart()
        coarse_tol, coarse_iter = max(tol, COARSE_TOL), min(max_iter, COARSE_ALTERNATIONS)
        tried.append(alternate(matrix, model, start, solver=solver, tol=coarse_tol, max_iter=coarse_iter))
    best = min(tried, key=lambda component: component.objective)
    if best.is_null:
        return best
    solver.restart_from(best.v, best.alpha)
    final = alternate(
        matrix, model, best.u, solver=solver, tol=tol, max_iter=max_iter, listener=listener, to_go_on=to_go_on
    )
    return replace(final, n_inner_iter=final.n_inner_iter + sum(c.n_inner_iter for c in tried))


def null_component(matrix: Matrix) -> Component:
    """The component of data that have nothing left to explain."""
    n_rows, n_columns = matrix.shape
    zeros = np.zeros(n_columns)
    return Component(zeros, np.zeros(n_rows), 0.0, zeros, np.zeros(0), 0.0, 0.0, 0.0, True, (), (), 0)
