"""Warm solvers: the alternation solves one loading problem after another.

The problems of one component differ in y alone, and less and less so. A warm solver keeps v, the
dual variable and the step sizes from one to the next (docs/method.md section 4.1).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.problem import Certificate, LoadingProblem
from spcatv.solvers import Solver, solve
from spcatv.solvers.pdhg import PrimalDualSolver

# Primal step to start with at the answer to a similar problem: most of the way is done, and longer steps pay.
WARM_TAU = 0.04
# Iterations that one step may take; the alternation goes on from wherever they lead.
MAX_ITER = 20_000
# A gap that float64 finds this many times larger than float32 does is still good enough for a step.
PRECISION_SLACK = 2.0


@dataclass(frozen=True, eq=False)
class CertifiedLoading:
    """A certified loading vector, its objective and exact gap for one problem, and the iterations it took."""

    certificate: Certificate
    value: float
    gap: float
    n_iter: int

    @property
    def v(self) -> FloatArray:
        """The loading vector, shape (n_features,)."""
        return self.certificate.v

    @classmethod
    def judged(cls, problem: LoadingProblem, certificate: Certificate, n_iter: int) -> CertifiedLoading:
        """Judge a certificate by a problem."""
        judgement = problem.judge(certificate)
        return cls(certificate, judgement.value, judgement.gap, n_iter)


class WarmSolver(Protocol):
    """Solves loading problems that share structure and weights, one after the other."""

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> CertifiedLoading:
        """Solve to an absolute gap of `tol`, or to `reduction` times the gap at the start if larger."""

    def dual(self) -> FloatArray:
        """Return the dual variable that certifies the last step, shape (n_rows,)."""

    def restart_from(self, v: FloatArray, dual: FloatArray, *, tau: float | None = None) -> None:
        """Start the next step from here; `tau` is the primal step, for solvers that have one.

        The dual variable need not be feasible.
        """

    def restart(self) -> None:
        """Start the next step from zero."""

    def steps(self) -> tuple[Any, ...]:
        """What a restart keeps: step sizes and precision, as numbers and strings; empty if nothing."""

    def set_steps(self, steps: tuple[Any, ...]) -> None:
        """Take what `steps` of another solver of the same kind has returned."""


class Stateless:
    """A warm solver that keeps nothing over a restart."""

    def steps(self) -> tuple[Any, ...]:
        """Return nothing."""
        return ()

    def set_steps(self, steps: tuple[Any, ...]) -> None:
        """Do nothing."""


class WarmClosedForm(Stateless):
    """For problems without a structured penalty: ``S(y, k) / 2``."""

    def __init__(self) -> None:
        self._dual: FloatArray = np.zeros(0)

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> CertifiedLoading:
        """Solve exactly."""
        self._dual = np.zeros(problem.structure.n_rows)
        certificate = problem.certificate(problem.minimizer(self._dual), self._dual)
        return CertifiedLoading.judged(problem, certificate, n_iter=1)

    def dual(self) -> FloatArray:
        """Return zeros."""
        return self._dual

    def restart_from(self, v: FloatArray, dual: FloatArray, *, tau: float | None = None) -> None:
        """Do nothing: there is no state."""

    def restart(self) -> None:
        """Do nothing: there is no state."""


class WarmPrimalDual(PrimalDualSolver):
    """The fast solver, with the state and the step sizes of the step before."""

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> CertifiedLoading:
        """Solve from the last state; the gap is confirmed in float64."""
        answer = self.solve(problem, tol, MAX_ITER, reduction=reduction, slack=PRECISION_SLACK)
        judgement = answer.judgement
        return CertifiedLoading(answer.certificate, judgement.value, judgement.gap, answer.n_iter)

    def steps(self) -> tuple[float, str]:
        """Return the primal step, and the precision."""
        return self._tau, self._dtype.name

    def set_steps(self, steps: tuple[Any, ...]) -> None:
        """Go on with this primal step and precision."""
        self._tau, self._dtype = steps[0], np.dtype(steps[1])


class WarmRestarts(Stateless):
    """Any solver of `spcatv.solvers.solve`, started from its last answer."""

    def __init__(self, method: str | Solver) -> None:
        self._method = method
        self._start: tuple[FloatArray | None, FloatArray | None] = (None, None)

    def dual(self) -> FloatArray:
        """Return the dual variable of the last answer."""
        if self._start[1] is None:
            raise RuntimeError("no problem has been solved yet")
        return self._start[1]

    def restart(self) -> None:
        """Start the next step from the solver's own start."""
        self._start = (None, None)

    def restart_from(self, v: FloatArray, dual: FloatArray, *, tau: float | None = None) -> None:
        """Start the next step from here."""
        self._start = (to_host(v), to_host(dual))

    def step(self, problem: LoadingProblem, tol: float, reduction: float = 0.0) -> CertifiedLoading:
        """Solve from the last answer."""
        v0, dual0 = self._start
        scale = problem.scale()
        if reduction > 0 and v0 is not None and dual0 is not None:
            tol = max(tol, reduction * problem.gap(v0, problem.feasible(dual0)))
        with warnings.catch_warnings():
            # a step may end early: the alternation goes on, and reports what it has reached in the end
            warnings.simplefilter("ignore", ConvergenceWarning)
            # these solvers work on the CPU
            solution = solve(problem.on_host(), self._method, tol=tol / scale, v0=v0, alpha0=dual0)
        self._start = (solution.v, solution.alpha)
        certificate = problem.certificate(solution.v, solution.alpha)
        return CertifiedLoading.judged(problem, certificate, solution.n_iter)


def warm_solver(method: str | Solver, has_structure: bool, dtype: npt.DTypeLike) -> WarmSolver:
    """Return the warm solver for a method of `spcatv.solvers.solve`."""
    if not has_structure and isinstance(method, str) and method != "fista":
        return WarmClosedForm()
    if method in ("auto", "pdhg"):
        return WarmPrimalDual(dtype)
    return WarmRestarts(method)
