"""Warm-started solvers of a sequence of loading problems.

The problems of one component differ in y alone, and less and less so. A warm solver keeps v, the dual
variable and the step sizes from one to the next (docs/method.md section 4.1).
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.problem import LoadingProblem
from spcatv.solvers import Solver, solve
from spcatv.solvers.base import CertifiedLoading
from spcatv.solvers.pdhg import PrimalDualSolver

# Primal step to start with at the solution of a similar problem: longer steps pay there.
WARM_TAU = 0.04


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
        """Return what a restart keeps: step sizes and precision, as numbers and strings; empty if nothing."""

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
        return PrimalDualSolver(dtype)
    return WarmRestarts(method)
