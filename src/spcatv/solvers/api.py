"""Results of the solvers, the monitor that makes them, and `solve`, which chooses and judges a solver.

Every solver is a function ``solver(problem, *, tol, max_iter, v0, alpha0) -> Solution``. All of them are
judged from outside, by the exact duality gap of the problem (docs/method.md section 3.3).
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
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

METHODS: tuple[str, ...] = tuple(SOLVERS)


class Status(enum.Enum):
    """End of a solver; the value of a member is a sentence.

    Examples
    --------
    >>> from spcatv.solvers import Status
    >>> Status.CONVERGED.success, Status.MAX_ITER.success
    (True, False)
    >>> Status.MAX_ITER.value
    'the iterations ran out before the gap reached the tolerance'
    """

    CONVERGED = "the duality gap is within the tolerance"
    MAX_ITER = "the iterations ran out before the gap reached the tolerance"
    STALLED = "progress ended before the gap reached the tolerance"

    @property
    def success(self) -> bool:
        """Return whether the tolerance was reached."""
        return self is Status.CONVERGED


class SolverError(FloatingPointError):
    """An iterate, a value or a gap is no longer finite: there is no answer to return.

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> from spcatv.solvers import SolverError, solve
    >>> def broken(problem, **options):
    ...     raise SolverError("iteration 3: the gap is NaN")
    >>> try:
    ...     solve(LoadingProblem([4.0, 2.0], structure=2, tv=0.5), broken)
    ... except SolverError as error:
    ...     print(error)
    iteration 3: the gap is NaN
    """


@dataclass(frozen=True)
class TracePoint:
    """One look at a running solver: iteration, exact objective, exact gap, seconds since the start.

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> from spcatv.solvers import solve
    >>> last = solve(LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5), tol=1e-8).trace[-1]
    >>> last.iteration > 0, round(last.value, 6), last.gap < 1e-7
    (True, 7.875, True)
    """

    iteration: int
    value: float
    gap: float
    seconds: float


@dataclass(frozen=True)
class Solution:
    """The answer of a solver, with its certificate.

    Attributes
    ----------
    v : ndarray of shape (n_features,)
        The loading vector.
    alpha : ndarray of shape (n_rows,)
        The dual variable that certifies it, in the order of ``structure.matrix``.
    value : float
        Objective F(v).
    gap : float
        Exact duality gap, ``F(v) - min F <= gap`` (docs/method.md section 3).
    relative_gap : float
        ``gap`` over the problem's ``scale()``.
    error_bound : float
        Upper bound on ``||v - v*||_2``.
    status : Status
        How the solver ended.
    n_iter : int
        Iterations done.
    seconds : float
        Wall-clock time.
    trace : tuple of TracePoint
        Every look the solver took at the gap.
    method : str
        The solver that gave this answer.
    detail : str
        What the message adds when the tolerance was not reached.

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> from spcatv.solvers import solve
    >>> solution = solve(LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5), tol=1e-8)
    >>> solution.v.round(4), solution.alpha.round(4), round(solution.value, 4)
    (array([1.25, 0.75]), array([-1.]), 7.875)
    >>> solution.relative_gap <= 1e-8, solution.error_bound < 1e-3
    (True, True)
    >>> solution.status, solution.method
    (<Status.CONVERGED: 'the duality gap is within the tolerance'>, 'pdhg')
    >>> solution.message.startswith("pdhg")
    True
    """

    v: FloatArray
    alpha: FloatArray
    value: float
    gap: float
    relative_gap: float
    error_bound: float
    status: Status
    n_iter: int
    seconds: float
    trace: tuple[TracePoint, ...]
    method: str
    detail: str = ""

    @property
    def message(self) -> str:
        """One sentence with the figures."""
        figures = (
            f"{self.method}: {self.status.value} after {self.n_iter} iterations "
            f"(relative gap {self.relative_gap:.3g}, gap {self.gap:.3g}, {self.seconds:.3g} s)"
        )
        return f"{figures}; {self.detail}" if self.detail else figures


Solver = Callable[..., Solution]


class Monitor:
    """Time, target, trace and best certified point of a running solver.

    `target` is ``tol * problem.scale()``, the gap to reach; `gap` is the smallest exact gap seen so far.
    """

    def __init__(self, problem: CompositeProblem, method: str, tol: float) -> None:
        self.problem = problem
        self.method = method
        self.target = tol * problem.scale()
        self.gap = np.inf
        self._started = time.perf_counter()
        self._trace: list[TracePoint] = []
        self._best: tuple[FloatArray, FloatArray] | None = None

    def converged(self) -> bool:
        """Return whether the best point is within the target."""
        return self.gap <= self.target

    def look(self, iteration: int, v: FloatArray, dual: FloatArray, gap: float | None = None) -> float:
        """Record the point (v, dual) and return its exact gap; the arrays must not change afterwards.

        The dual variable is feasible. A solver that knows the exact gap passes it; otherwise the problem is
        asked. Raises a SolverError if the objective or the gap is not a finite number.
        """
        broken = _count_bad(v) + _count_bad(dual) > 0  # the problem may refuse to judge such a point
        value = np.nan if broken else self.problem.value(v)
        if broken or gap is None:
            gap = np.nan if broken else self.problem.gap(v, dual)
        if not (np.isfinite(gap) and np.isfinite(value)):
            raise SolverError(
                f"{self.method}: the objective is {value} and the gap {gap} at iteration {iteration} "
                f"({_count_bad(v)} of {v.size} entries of v and {_count_bad(dual)} of {dual.size} of alpha "
                "are not finite); look for extreme values in the data or the weights"
            )
        self._trace.append(TracePoint(iteration, value, gap, time.perf_counter() - self._started))
        if self._best is None or gap < self.gap:
            self.gap, self._best = gap, (v, dual)
        return gap

    def finish(self, n_iter: int, otherwise: Status = Status.MAX_ITER, detail: str = "") -> Solution:
        """Return the best point looked at, judged once more by ``problem.gap``.

        If the gap is not within the target, the status is `otherwise`, and the message ends with `detail`.
        """
        if self._best is None:
            raise RuntimeError(f"{self.method} ended without a single look at its iterate")
        v, dual = self._best
        gap, scale = self.problem.gap(v, dual), self.problem.scale()
        success = gap <= self.target
        return Solution(
            v=v,
            alpha=dual,
            value=self.problem.value(v),
            gap=gap,
            relative_gap=relative(gap, scale),
            error_bound=self.problem.error_bound(v, dual),
            status=Status.CONVERGED if success else otherwise,
            n_iter=n_iter,
            seconds=time.perf_counter() - self._started,
            trace=tuple(self._trace),
            method=self.method,
            detail="" if success else detail,
        )


def relative(gap: float, scale: float) -> float:
    """``gap / scale``, and 0 for 0 / 0: the gap is closed."""
    if scale > 0:
        return gap / scale
    return 0.0 if gap == 0 else float("inf")


def _count_bad(array: FloatArray) -> int:
    return int((~np.isfinite(array)).sum())


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
    # imported on first use, because solvers import from this module
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
    bad = _count_bad(start)
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


def closed_form(
    problem: LoadingProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 1,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
    **options: object,
) -> Solution:
    """Solve a loading problem without structured penalty by its closed form (docs/method.md section 3.1).

    It is ``v = S(y, k) / 2``, with gap 0 and ``alpha = 0``.

    The problem has ``tv = 0``, or an operator that is zero or has no rows. The other arguments belong to the
    common interface of `spcatv.solvers.solve`, and are ignored.
    """
    if not isinstance(problem, LoadingProblem):
        raise ValueError(
            f"closed_form solves a LoadingProblem, not a {type(problem).__name__}; use 'conesta' or 'fista'"
        )
    if problem.has_structure:
        raise ValueError(
            f"closed_form needs a problem without structured penalty, but tv is {problem.tv:g} and the "
            f"structure has {problem.structure.n_rows} rows; use method='auto'"
        )
    monitor = Monitor(problem, "closed_form", tol)
    dual = np.zeros(problem.structure.n_rows)
    monitor.look(1, problem.minimizer(dual), dual)
    return monitor.finish(n_iter=1)
