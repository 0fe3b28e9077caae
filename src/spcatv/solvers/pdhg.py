"""The fast solver: the primal-dual iteration in float32, then in float64, then the dual gradient.

Each takes over where the one before it runs out of digits or stalls (docs/method.md section 3.6).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.problem import Certificate, Judgement, LoadingProblem
from spcatv.solvers.base import Solution, SolverError, Status, TracePoint, relative
from spcatv.solvers.dual import dual_gradient
from spcatv.solvers.primal_dual import FIRST_TAU, PrimalDual

# Tolerances that float32 reaches with digits to spare.
SINGLE_PRECISION_TOL = 1e-6
# Scales between which float32 has room for the squares of a problem; its weights stay below the upper one.
SINGLE_PRECISION_SCALES = (1e-30, 1e30)
# Below this relative gap float64 itself has no digits left to give.
ROUNDING_FLOOR = 1e-14


@dataclass(frozen=True, eq=False)
class Answer:
    """What `PrimalDualSolver.solve` ended with, judged in float64."""

    certificate: Certificate
    judgement: Judgement
    status: Status
    n_iter: int
    trace: tuple[TracePoint, ...]
    detail: str = ""


class PrimalDualSolver:
    """The primal-dual iteration and its fallbacks; remembers its state from one problem to the next.

    It begins in precision `dtype`; float32 gives way to float64 once its digits run out.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._tau = FIRST_TAU
        self._iteration: PrimalDual | None = None
        # v, the dual variable and whether it is feasible; None: the next problem starts from the last state
        self._start: tuple[FloatArray, FloatArray, bool] | None = None

    def dual(self) -> FloatArray:
        """Return the dual variable that certifies the last answer, shape (n_rows,)."""
        if self._start is not None:
            return self._start[1]
        if self._iteration is None:
            raise RuntimeError("no problem has been solved yet")
        return self._iteration.dual()

    def restart_from(
        self, v: FloatArray, dual: FloatArray, *, tau: float | None = None, feasible: bool = False
    ) -> None:
        """Start the next problem from here; without `tau`, with the step sizes found so far."""
        self._start = (v, dual, feasible)
        self._tau = self._tau if tau is None else tau

    def restart(self) -> None:
        """Start the next problem from zero, with the step sizes found so far."""
        self._start = None
        if self._iteration is not None:
            self._iteration.clear()

    def solve(
        self,
        problem: LoadingProblem,
        tol: float,
        max_iter: int,
        *,
        reduction: float = 0.0,
        slack: float = 1.0,
    ) -> Answer:
        """Solve a problem from the last state, to the absolute gap `tol`.

        The problem has a structured term, and the structure and weights of all problems before it. `max_iter`
        counts the iterations of all stages. The solver stops at the share `reduction` of the gap at the start
        if that is larger than `tol`. The gap in float64 may exceed that in the working precision by the
        factor `slack`.
        """
        started = time.perf_counter()
        answer = self._iterate(problem, tol, max_iter, reduction, slack)
        if not answer.status.success and self._dtype == np.float32 and answer.n_iter < max_iter:
            self._use_float64(answer.certificate.v, self.dual())
            seconds = time.perf_counter() - started
            again = self._iterate(problem, tol, max_iter - answer.n_iter, 0.0, slack)
            answer = _joined(answer, again, seconds)
        hopeless = answer.judgement.gap <= ROUNDING_FLOOR * problem.scale()
        if answer.status is Status.STALLED and answer.n_iter < max_iter and not hopeless:
            return self._fall_back(problem, answer, tol, max_iter, time.perf_counter() - started)
        return answer

    def _iterate(
        self, problem: LoadingProblem, tol: float, max_iter: int, reduction: float, slack: float
    ) -> Answer:
        """Iterate in the present precision, or in float64 if the numbers do not fit into float32."""
        iteration = self._prepared(problem)
        try:
            run = iteration.run(tol, max_iter, reduction=reduction)
        except SolverError:
            if self._dtype == np.float64:
                raise
            self._use_float64(np.zeros(problem.y.size), np.zeros(problem.structure.n_rows))
            return self._iterate(problem, tol, max_iter, reduction, slack)
        self._tau = iteration.tau
        certificate = iteration.certificate(problem, run)
        judgement = problem.judge(certificate)
        goal, status = max(tol, reduction * run.first_gap), run.status
        if judgement.gap <= goal:
            status = Status.CONVERGED
        elif status is Status.CONVERGED and judgement.gap > slack * goal:
            # the working precision saw a gap that float64 does not confirm
            status = Status.STALLED
        # the last look was in the working precision: this is its gap in float64
        last = replace(run.trace[-1], value=judgement.value, gap=judgement.gap)
        return Answer(certificate, judgement, status, run.n_iter, (*run.trace[:-1], last))

    def _prepared(self, problem: LoadingProblem) -> PrimalDual:
        smallest, largest = SINGLE_PRECISION_SCALES
        if not smallest <= (problem.scale() or 1.0) <= largest or max(problem.tv, problem.l1) > largest:
            self._dtype = np.dtype(np.float64)
        if self._iteration is None or self._iteration.dtype != self._dtype:
            self._iteration = PrimalDual(problem, self._dtype)
            self._dtype = self._iteration.dtype
        else:
            self._iteration.set_target(problem)
        self._iteration.tau = self._tau
        if self._start is not None:
            v, dual, feasible = self._start
            self._iteration.set_state(v, dual, feasible=feasible)
            self._start = None
        return self._iteration

    def _use_float64(self, v: FloatArray, dual: FloatArray) -> None:
        self._dtype = np.dtype(np.float64)
        self._start = (v, dual, True)

    def _fall_back(
        self, problem: LoadingProblem, stalled: Answer, tol: float, max_iter: int, seconds: float
    ) -> Answer:
        """Let the accelerated dual gradient continue from where the primal-dual iteration stalled."""
        # which works with the operator itself, on the CPU
        other = dual_gradient(
            problem.on_host(),
            tol=tol / problem.scale(),
            max_iter=max_iter - stalled.n_iter,
            alpha0=to_host(self.dual()),
        )
        certificate, judgement = stalled.certificate, stalled.judgement
        if other.gap < stalled.judgement.gap:
            self._start = (other.v, other.alpha, True)
            certificate = problem.certificate(other.v, other.alpha)
            judgement = problem.judge(certificate)
        further = Answer(certificate, judgement, other.status, other.n_iter, other.trace, other.detail)
        return _joined(stalled, further, seconds)


def _joined(first: Answer, second: Answer, seconds: float) -> Answer:
    """Return the second answer with the history of both; the second began after so many seconds."""
    later = tuple(
        replace(point, iteration=point.iteration + first.n_iter, seconds=point.seconds + seconds)
        for point in second.trace
    )
    return replace(second, n_iter=first.n_iter + second.n_iter, trace=first.trace + later)


def pdhg(
    problem: LoadingProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 50_000,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Solution:
    """Solve a loading problem with a structured penalty by the over-relaxed primal-dual iteration.

    Parameters are those of `spcatv.solvers.solve`. The iteration starts in precision `dtype`, by default
    float32 for a `tol` of 1e-6 or more; float32 gives way to float64 once its digits run out. The certificate
    is in float64 either way.
    """
    if dtype is None:
        dtype = np.float32 if tol >= SINGLE_PRECISION_TOL else np.float64
    started = time.perf_counter()
    solver = PrimalDualSolver(dtype)
    if v0 is not None or alpha0 is not None:
        v = np.zeros(problem.y.size) if v0 is None else v0
        dual = np.zeros(problem.structure.n_rows) if alpha0 is None else problem.feasible(alpha0)
        solver.restart_from(v, dual, feasible=True)
    scale = problem.scale()
    answer = solver.solve(problem, tol * scale, max_iter)
    gap = answer.judgement.gap
    return Solution(
        v=answer.certificate.v,
        alpha=solver.dual(),
        value=answer.judgement.value,
        gap=gap,
        relative_gap=relative(gap, scale),
        error_bound=float(np.sqrt(gap)),
        status=answer.status,
        n_iter=answer.n_iter,
        seconds=time.perf_counter() - started,
        trace=answer.trace,
        method="pdhg",
        detail="" if answer.status.success else answer.detail,
    )
