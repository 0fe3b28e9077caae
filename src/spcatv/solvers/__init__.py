"""Solvers of the loading problem and of other losses with the same penalties; `solve` chooses and judges one.

Every solver is a function ``solver(problem, *, tol, max_iter, v0, alpha0) -> Solution``. All of them are
judged from outside, by the exact duality gap of the problem (docs/method.md section 3.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.parameters import SOLVERS
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.problem import LoadingProblem
from spcatv.problem.composite import CompositeProblem
from spcatv.solvers.base import Monitor, Solution, SolverError, Status, TracePoint

__all__ = ["METHODS", "Solution", "SolverError", "Status", "TracePoint", "solve"]

Solver = Callable[..., Solution]


METHODS: tuple[str, ...] = tuple(SOLVERS)


def solve(
    problem: CompositeProblem,
    method: str | Solver = "auto",
    *,
    tol: float = 1e-6,
    max_iter: int | None = None,
    v0: npt.ArrayLike | None = None,
    alpha0: npt.ArrayLike | None = None,
    **options: Any,
) -> Solution:
    """Minimise a problem to a certified relative gap.

    Parameters
    ----------
    problem : LoadingProblem or any CompositeProblem
        What to minimise.
    method : str or callable, default="auto"
        "pdhg" (fast), "dual" (accelerated dual gradient), "conesta", "fista" (fixed smoothing) or
        "closed_form" (no structured penalty). "auto": the closed form where there is one, else
        "pdhg" for a `LoadingProblem` and "conesta" for any other problem. A callable
        ``(problem, *, tol, max_iter, v0, alpha0) -> Solution`` is run and judged like the others.
    tol : float, default=1e-6
        Stop when the exact duality gap is at most ``tol * problem.scale()``.
    max_iter : int, default=None
        Largest number of iterations; ``None``: the solver's own default (the argument is not passed).
    v0 : array-like of shape (n_features,), default=None
        Start, for solvers that use one.
    alpha0 : array-like of shape (n_rows,), default=None
        Start of the dual variable; projected onto the feasible set first.
    **options
        Passed to the solver, such as ``mu`` for "fista" or ``gap="paper"`` for "conesta".

    Returns
    -------
    Solution
        If it has not converged, a `ConvergenceWarning` says so with figures.

    Raises
    ------
    SolverError
        If an iterate, the objective or the gap is no longer finite.

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> from spcatv.solvers import solve
    >>> problem = LoadingProblem([4.0, 2.0, 0.0], structure=3, l1=1.0, tv=0.5)
    >>> solution = solve(problem, tol=1e-8)
    >>> solution.v.round(4), solution.status.success
    (array([1.25, 0.5 , 0.  ]), True)
    >>> solve(problem, "conesta", tol=1e-8).v.round(2)
    array([1.25, 0.5 , 0.  ])
    """
    solver = _choose(problem, method)
    tol, max_iter = _checked_limits(tol, max_iter)
    if max_iter is not None:
        options["max_iter"] = max_iter
    v0 = _checked_start("v0", v0, problem.structure.n_features, "n_features")
    alpha0 = _checked_start("alpha0", alpha0, problem.structure.n_rows, "n_rows of the structure")
    if alpha0 is not None:
        alpha0 = problem.feasible(alpha0)
    scale = problem.scale()
    if not np.isfinite(scale):
        raise SolverError(f"the scale of the problem is {scale}: its data are too large for the arithmetic")
    if scale <= 0:
        solution = _zero(problem, tol, scale)
    else:
        solution = solver(problem, tol=tol, v0=v0, alpha0=alpha0, **options)
        if not isinstance(method, str):
            solution = _judged(problem, solution, tol, name=getattr(method, "__name__", "callable"))
    if not solution.status.success:
        warn_user(
            f"{solution.message}. The answer is only certified to that gap: raise max_iter, loosen tol "
            f"(now {tol:g}) or try another method ({', '.join(METHODS)}).",
            ConvergenceWarning,
        )
    return solution


def _choose(problem: CompositeProblem, method: str | Solver) -> Solver:
    if callable(method):
        return method
    loading = isinstance(problem, LoadingProblem)
    if method == "auto":
        method = "pdhg" if loading else "conesta"
    if method == "pdhg" and loading and not problem.has_structure:
        # the primal-dual step sizes are made from c ||A||, which is 0 here
        method = "closed_form"
    if method not in SOLVERS:
        raise ValueError(
            f"unknown method {method!r}; choose one of auto, {', '.join(METHODS)}, or a callable"
        )
    # imported on first use, because solvers import from this package
    module, name = SOLVERS[method]
    solver: Solver = getattr(import_module(f"spcatv.solvers.{module}"), name)
    return solver


def _checked_limits(tol: float, max_iter: int | None) -> tuple[float, int | None]:
    tol = float(tol)
    if not (np.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a finite number > 0 (a gap relative to problem.scale()), got {tol}")
    if max_iter is None:
        return tol, None
    if int(max_iter) != max_iter or max_iter < 1:
        raise ValueError(f"max_iter must be a whole number >= 1, got {max_iter}")
    return tol, int(max_iter)


def _checked_start(name: str, array: npt.ArrayLike | None, size: int, what: str) -> FloatArray | None:
    if array is None:
        return None
    start = np.array(array, dtype=np.float64)
    if start.shape != (size,):
        raise ValueError(f"{name} must have shape ({size},), that is {what}; got shape {start.shape}")
    bad = int((~np.isfinite(start)).sum())
    if bad:
        raise ValueError(f"{name} has {bad} NaN or infinite entries of {size}; all must be finite")
    return start


def _zero(problem: CompositeProblem, tol: float, scale: float) -> Solution:
    """Solve a problem without data (y = 0): v = 0 is optimal, and no relative gap is defined."""
    monitor = Monitor(problem, "closed_form", tol)
    gap = monitor.look(0, np.zeros(problem.structure.n_features), np.zeros(problem.structure.n_rows))
    if gap > 0:
        raise ValueError(
            f"problem.scale() is {scale:g} although v = 0 is not optimal (its gap is {gap:g}); tol counts in "
            "units of the scale, which must be > 0"
        )
    return monitor.finish(n_iter=0)


def _judged(problem: CompositeProblem, answer: Solution, tol: float, name: str) -> Solution:
    """Recompute the certificate of a user's solver; its own claims are ignored."""
    if not isinstance(answer, Solution):
        raise TypeError(f"the solver {name} must return a Solution, got a {type(answer).__name__}")
    sizes = {"v": problem.structure.n_features, "alpha": problem.structure.n_rows}
    for field, size in sizes.items():
        shape = np.shape(getattr(answer, field))
        if shape != (size,):
            raise ValueError(f"the solver {name} returned {field} of shape {shape}; ({size},) is right")
    monitor = Monitor(problem, answer.method or name, tol)
    monitor.look(answer.n_iter, np.asarray(answer.v), np.asarray(answer.alpha))
    otherwise, detail = answer.status, answer.detail
    if otherwise.success:
        otherwise, detail = Status.STALLED, f"it reported convergence at a gap of {answer.gap:.3g}"
    judged = monitor.finish(answer.n_iter, otherwise=otherwise, detail=detail)
    return replace(judged, seconds=answer.seconds, trace=answer.trace or judged.trace)
