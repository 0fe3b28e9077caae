"""Results of the solvers, their status, and the monitor that makes them."""

from __future__ import annotations

import enum
import time
from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.problem import Certificate, LoadingProblem
from spcatv.problem.composite import CompositeProblem


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
        """Whether the tolerance was reached."""
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


@dataclass(frozen=True, eq=False)
class CertifiedLoading:
    """A loading vector with its certificate, objective and exact gap for one problem."""

    certificate: Certificate
    value: float
    gap: float
    n_iter: int
    status: Status = Status.CONVERGED
    trace: tuple[TracePoint, ...] = ()
    detail: str = ""

    @property
    def v(self) -> FloatArray:
        """The loading vector, shape (n_features,)."""
        return self.certificate.v

    @classmethod
    def judged(cls, problem: LoadingProblem, certificate: Certificate, n_iter: int) -> CertifiedLoading:
        """Judge a certificate by a problem."""
        judgement = problem.judge(certificate)
        return cls(certificate, judgement.value, judgement.gap, n_iter)


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
