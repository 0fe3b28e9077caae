"""Loading solvers that remember: the alternation asks for one v-step after another.

The problems of one component differ in y alone, and less and less so. A warm solver keeps v, the
dual variable and the step sizes from one to the next (docs/method.md section 4.1).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.types import FloatArray
from spcatv.problem import Certificate, LoadingProblem
from spcatv.solvers import Solver, solve
from spcatv.solvers.base import SolverError, Status
from spcatv.solvers.dual import dual_gradient
from spcatv.solvers.pdhg import FIRST_TAU, PrimalDual

# Iterations a v-step may take; the alternation goes on from wherever they lead.
MOST_ITERATIONS = 20_000
# Below this relative gap float64 itself has no digits left to give.
ROUNDING_FLOOR = 1e-14


@dataclass(frozen=True, eq=False)
class VStep:
    """One v-step: a certified loading vector, its objective and exact gap for its problem, iterations."""

    certificate: Certificate
    value: float
    gap: float
    n_iter: int

    @property
    def v(self) -> FloatArray:
        """The loading vector, shape (P,)."""
        return self.certificate.v

    @classmethod
    def judged(cls, problem: LoadingProblem, certificate: Certificate, n_iter: int) -> VStep:
        """What a certificate is worth for a problem."""
        judgement = problem.judge(certificate)
        return cls(certificate, judgement.value, judgement.gap, n_iter)


class WarmSolver(Protocol):
    """Solves loading problems that share structure and weights, one after the other."""

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> VStep:
        """Solve to an absolute gap of `tol`, or to `reduction` times the gap at the start if larger."""

    def alpha(self) -> FloatArray:
        """The dual variable that certifies the last step, shape (n_rows,)."""

    def restart_from(self, v: FloatArray, alpha: FloatArray, *, tau: float | None = None) -> None:
        """Start the next step from here, with the primal step `tau` if the solver has such a thing.

        The dual variable need not be feasible.
        """

    def restart(self) -> None:
        """Start the next step from zero."""


class ClosedFormSteps:
    """Where there is no structured penalty the answer is at hand: ``S(y, k) / 2``."""

    def __init__(self) -> None:
        self._alpha: FloatArray = np.zeros(0)

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> VStep:
        """Solve exactly."""
        self._alpha = np.zeros(problem.structure.n_rows)
        certificate = problem.certificate(problem.minimizer(self._alpha), self._alpha)
        return VStep.judged(problem, certificate, n_iter=1)

    def alpha(self) -> FloatArray:
        """Zeros: the penalty has no dual variable."""
        return self._alpha

    def restart_from(self, v: FloatArray, alpha: FloatArray, *, tau: float | None = None) -> None:
        """Nothing to remember."""

    def restart(self) -> None:
        """Nothing to forget."""


class PrimalDualSteps:
    """The fast solver, in float32 for as long as its digits last if so asked.

    Parameters
    ----------
    dtype : {float32, float64}
        Precision of the state to begin with.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._tau = FIRST_TAU
        self._iteration: PrimalDual | None = None
        self._state: tuple[FloatArray, FloatArray] | None = None

    def alpha(self) -> FloatArray:
        """The dual variable that certifies the last step."""
        if self._iteration is None:
            raise RuntimeError("no step has been made yet")
        return self._iteration.alpha() if self._state is None else self._state[1]

    def restart_from(self, v: FloatArray, alpha: FloatArray, *, tau: float | None = None) -> None:
        """Start the next step from here; without `tau`, with the step sizes found so far."""
        self._state = (v, alpha)
        self._tau = self._tau if tau is None else tau

    def restart(self) -> None:
        """Start the next step from zero, with the step sizes found so far."""
        self._state = None
        if self._iteration is not None:
            self._iteration.clear()

    def _prepared(self, problem: LoadingProblem) -> PrimalDual:
        if self._iteration is None or self._iteration.dtype != self._dtype:
            self._iteration = PrimalDual(problem, self._dtype)
        else:
            self._iteration.set_target(problem.y)
        self._iteration.tau = self._tau
        if self._state is not None:
            self._iteration.set_state(*self._state, feasible=False)
            self._state = None
        return self._iteration

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> VStep:
        """Solve from the last state; the gap is confirmed in float64."""
        iteration = self._prepared(problem)
        try:
            run = iteration.run(tol, MOST_ITERATIONS, reduction=reduction)
            self._tau = iteration.tau
        except SolverError:
            if self._dtype == np.float64:
                raise
            # the numbers leave float32: begin again in float64
            self._dtype = np.dtype(np.float64)
            self._state = (np.zeros(problem.y.size), np.zeros(problem.structure.n_rows))
            return self.step(problem, tol, reduction)
        step = VStep.judged(problem, iteration.certificate(problem, run), run.n_iter)
        if run.status is Status.CONVERGED and step.gap <= 2 * max(tol, reduction * run.first_gap):
            return step
        if self._dtype == np.float32:
            self._dtype = np.dtype(np.float64)
            self._state = (step.v, iteration.alpha())
            again = self.step(problem, tol, reduction=0.0)
            return replace(again, n_iter=run.n_iter + again.n_iter)
        if run.status is Status.STALLED and step.gap > ROUNDING_FLOOR * problem.scale():
            return self._fall_back(problem, step, tol)
        return step

    def _fall_back(self, problem: LoadingProblem, stalled: VStep, tol: float) -> VStep:
        other = dual_gradient(
            problem, tol=tol / problem.scale(), max_iter=MOST_ITERATIONS, alpha0=self.alpha()
        )
        n_iter = stalled.n_iter + other.n_iter
        if other.gap >= stalled.gap:
            return replace(stalled, n_iter=n_iter)
        self._state = (other.v, other.alpha)
        return VStep.judged(problem, problem.certificate(other.v, other.alpha), n_iter)


class AnySteps:
    """Any solver of `spcatv.solvers.solve`, started from the last answer."""

    def __init__(self, method: str | Solver) -> None:
        self._method = method
        self._start: tuple[FloatArray | None, FloatArray | None] = (None, None)

    def alpha(self) -> FloatArray:
        """The dual variable of the last answer."""
        if self._start[1] is None:
            raise RuntimeError("no step has been made yet")
        return self._start[1]

    def restart(self) -> None:
        """Start the next step from the solver's own start."""
        self._start = (None, None)

    def restart_from(self, v: FloatArray, alpha: FloatArray, *, tau: float | None = None) -> None:
        """Start the next step from here."""
        self._start = (v, alpha)

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> VStep:
        """Solve from the last answer."""
        v0, alpha0 = self._start
        scale = problem.scale()
        if reduction > 0 and v0 is not None and alpha0 is not None:
            tol = max(tol, reduction * problem.gap(v0, problem.feasible(alpha0)))
        with warnings.catch_warnings():
            # a step may end early: the alternation goes on, and reports what it reached in the end
            warnings.simplefilter("ignore", ConvergenceWarning)
            solution = solve(problem, self._method, tol=tol / scale, v0=v0, alpha0=alpha0)
        self._start = (solution.v, solution.alpha)
        return VStep.judged(problem, problem.certificate(solution.v, solution.alpha), solution.n_iter)


def warm_solver(method: str | Solver, has_structure: bool, dtype: npt.DTypeLike) -> WarmSolver:
    """The warm solver for a method of `spcatv.solvers.solve`."""
    if not has_structure and isinstance(method, str) and method != "fista":
        return ClosedFormSteps()
    if method in ("auto", "pdhg"):
        return PrimalDualSteps(dtype)
    return AnySteps(method)
