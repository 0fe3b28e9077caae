"""Primal-dual hybrid gradient method: over-relaxed, with balanced steps (docs/method.md section 3.6).

The exact gap itself steers the step ratio: its dual share s and its primal share q show which side lags.
That rule is a heuristic, and the certificate does not depend on it. The iteration runs in float32, then in
float64; where it stalls, the accelerated dual gradient takes over.

A `WarmSolver` solves a sequence of problems that differ in y, as those of one component do: it keeps v, the
dual variable and the step sizes from one to the next (docs/method.md section 4.1).
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.devices import on_gpu, to_host
from spcatv._util.types import FloatArray
from spcatv.kernels import GapShares, LoadingTerms, StepSizes, Workspace, workspace_for
from spcatv.kernels.cuda.workspaces import workspace_on_gpu
from spcatv.kernels.vectors import absolute_sum
from spcatv.problem import Certificate, LoadingProblem
from spcatv.solvers.api import Solution, Solver, SolverError, Status, TracePoint, relative, solve
from spcatv.solvers.dual import dual_gradient

# Iterations between two looks at the gap; the last of them is not relaxed, which gives exact zeros
# and a feasible dual variable.
ITERATIONS_PER_LOOK = 10
# Above this multiple of the gap to reach, looks are rarer.
FAR_AWAY = 30.0
ITERATIONS_FAR_AWAY = 20
RELAXATION = 1.9
FIRST_TAU = 0.02
# Primal step to start with at the solution of a similar problem: longer steps pay there.
WARM_TAU = 0.04
# The step ratio moves by this factor when one share of the gap is over IMBALANCE times the other.
TAU_FACTOR = 0.5
IMBALANCE = 10.0
# Looks that move the ratio are spaced geometrically: adapting at every look can cycle.
SPACING = 1.15
# Where the shares are balanced, but the logarithm of the gap falls by less than this many times tau per
# iteration, v swings around flat parts of the map, and tau is what damps it: it rises, up to this step, and
# does not fall below what it rose to until the gap hardly falls at a few decisions in a row.
UNDERDAMPED, LARGEST_RAISED = 3.0, 0.01
OVERDAMPED, OVERDAMPED_DECISIONS = 1.0, 3
# Looks without 10 % progress after which the iteration counts as stalled: float32 runs out of
# digits early, float64 gets the benefit of the doubt.
PROGRESS = 0.9
PATIENCE = {np.dtype(np.float32): 40, np.dtype(np.float64): 200}
# Tolerances that float32 reaches with digits to spare.
SINGLE_PRECISION_TOL = 1e-6
# Scales between which float32 has room for the squares of a problem; its weights stay below the upper one.
SINGLE_PRECISION_SCALES = (1e-30, 1e30)
# Below this relative gap float64 itself has no digits left to give.
ROUNDING_FLOOR = 1e-14
# Largest number of iterations of one step of a sequence of problems.
MAX_ITER = 20_000
# A gap in float64 may exceed that in float32 by this factor, and the step still counts as solved.
PRECISION_SLACK = 2.0


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


class _Balance:
    """Steers tau so that the dual and the primal share of the gap fall together, and fast."""

    def __init__(self, tau: float, lowest: float) -> None:
        self._tau, self._lowest = tau, lowest
        self._dual_sum = self._primal_sum = 0.0
        self._next = ITERATIONS_PER_LOOK
        self._before: tuple[int, float] | None = None  # iteration and gap when tau was last reconsidered
        self._n_slow = 0

    def update(self, n_iter: int, shares: GapShares) -> tuple[float, float]:
        """Take one look into account; return the next tau, and the lowest one from now on."""
        gap = min(shares.gap_v, shares.gap_w)
        if self._before is None:
            self._before = n_iter, gap
            return self._tau, self._lowest
        self._dual_sum += shares.structured_v
        self._primal_sum += shares.smooth_v
        if n_iter >= self._next:
            since, gap_then = self._before
            self._reconsider(math.log(gap_then / gap) / ((n_iter - since) * self._tau) if gap > 0 else np.inf)
            self._before = n_iter, gap
            self._dual_sum = self._primal_sum = 0.0
            self._next = max(n_iter + ITERATIONS_PER_LOOK, int(SPACING * n_iter))
        return self._tau, self._lowest

    def _reconsider(self, decay: float) -> None:
        """Move tau; `decay` is by how much the logarithm of the gap fell per iteration, in units of tau."""
        self._n_slow = self._n_slow + 1 if decay < OVERDAMPED else 0
        if self._n_slow >= OVERDAMPED_DECISIONS:
            self._n_slow, self._lowest = 0, 0.0
        raised = self._tau / TAU_FACTOR
        if self._dual_sum > IMBALANCE * self._primal_sum:
            self._tau = max(TAU_FACTOR * self._tau, self._lowest)
        elif self._primal_sum > IMBALANCE * self._dual_sum:
            self._tau = raised
        elif decay < UNDERDAMPED and raised <= LARGEST_RAISED:
            self._tau = self._lowest = raised


class PrimalDualSolver:
    """Primal-dual iteration with its fallbacks, which keeps its state from one problem to the next.

    All problems have the same structure and penalty. The iteration begins in precision `dtype`; float32 gives
    way to float64 once its digits run out. A penalty without a compiled kernel is always computed in float64.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._tau = FIRST_TAU
        self._lowest_tau = 0.0  # tau does not fall below this, from problem to problem
        self._workspace: Workspace | None = None
        self._weights: tuple[float, float] | None = None  # those of the workspace
        # v, the dual variable and whether it is feasible; None: the next problem starts from the last state
        self._start: tuple[FloatArray, FloatArray, bool] | None = None

    def dual(self) -> FloatArray:
        """Return the dual variable that certifies the last answer, shape (n_rows,)."""
        if self._start is not None:
            return self._start[1]
        if self._workspace is None:
            raise RuntimeError("no problem has been solved yet")
        return self._workspace.get_dual()

    def restart_from(
        self, v: FloatArray, dual: FloatArray, *, tau: float | None = None, feasible: bool = False
    ) -> None:
        """Start the next problem from here; without `tau`, with the step sizes found so far."""
        self._start = (v, dual, feasible)
        self._tau = self._tau if tau is None else tau

    def restart(self) -> None:
        """Start the next problem from zero, with the step sizes found so far."""
        self._start, self._lowest_tau = None, 0.0
        if self._workspace is not None:
            self._workspace.clear()

    def steps(self) -> tuple[float, str]:
        """Return the primal step, and the precision."""
        return self._tau, self._dtype.name

    def set_steps(self, steps: tuple[Any, ...]) -> None:
        """Continue with this primal step and precision."""
        self._tau, self._dtype = steps[0], np.dtype(steps[1])

    def step(
        self,
        problem: LoadingProblem,
        tol: float,
        reduction: float = 0.0,
        *,
        max_iter: int = MAX_ITER,
        slack: float = PRECISION_SLACK,
    ) -> CertifiedLoading:
        """Solve a problem from the last state, to the absolute gap `tol`.

        `max_iter` limits the iterations of all stages together. The solver stops at the share `reduction` of
        the first gap if that is larger than `tol`. The gap in float64 may exceed that in the working
        precision by the factor `slack`.
        """
        if not problem.has_structure:
            return self._closed_form(problem)
        started = time.perf_counter()
        answer = self._iterate(problem, tol, max_iter, reduction, slack)
        if not answer.status.success and self._dtype == np.float32 and answer.n_iter < max_iter:
            self._use_float64(answer.v, self.dual())
            seconds = time.perf_counter() - started
            again = self._iterate(problem, tol, max_iter - answer.n_iter, 0.0, slack)
            answer = _joined(answer, again, seconds)
        hopeless = answer.gap <= ROUNDING_FLOOR * problem.scale()
        if answer.status is Status.STALLED and answer.n_iter < max_iter and not hopeless:
            return self._fall_back(problem, answer, tol, max_iter, time.perf_counter() - started)
        return answer

    def _closed_form(self, problem: LoadingProblem) -> CertifiedLoading:
        """Solve a problem without structured penalty."""
        dual = np.zeros(problem.structure.n_rows)
        certificate = problem.certificate(problem.minimizer(dual), dual)
        self._start = (certificate.v, dual, True)
        return CertifiedLoading.judged(problem, certificate, n_iter=1)

    def _iterate(
        self, problem: LoadingProblem, tol: float, max_iter: int, reduction: float, slack: float
    ) -> CertifiedLoading:
        """Iterate in the present precision, or in float64 if the numbers do not fit into float32."""
        workspace, feasible = self._prepared(problem)
        first_tau = self._tau
        try:
            status, trace, use_minimizer = self._run(workspace, problem, tol, max_iter, reduction, feasible)
        except SolverError:
            if self._dtype == np.float64:
                raise
            self._tau = first_tau
            self._use_float64(np.zeros(problem.y.size), np.zeros(problem.structure.n_rows))
            return self._iterate(problem, tol, max_iter, reduction, slack)
        certificate = _certificate(workspace, problem, use_minimizer)
        judgement = problem.judge(certificate)
        goal = max(tol, reduction * trace[0].gap)
        if judgement.gap <= goal:
            status = Status.CONVERGED
        elif status is Status.CONVERGED and judgement.gap > slack * goal:
            # the working precision saw a gap that float64 does not confirm
            status = Status.STALLED
        # the last look was in the working precision: this is its gap in float64
        last = replace(trace[-1], value=judgement.value, gap=judgement.gap)
        n_iter, points = last.iteration, (*trace[:-1], last)
        return CertifiedLoading(certificate, judgement.value, judgement.gap, n_iter, status, points)

    def _prepared(self, problem: LoadingProblem) -> tuple[Workspace, bool]:
        """Return a workspace with the problem and the start, and whether its dual variable is feasible."""
        smallest, largest = SINGLE_PRECISION_SCALES
        if not smallest <= (problem.scale() or 1.0) <= largest or max(problem.tv, problem.l1) > largest:
            self._dtype = np.dtype(np.float64)
        weights = problem.tv, problem.l1
        if self._workspace is None or self._workspace.dtype != self._dtype:
            terms = LoadingTerms(*weights, problem.positive, problem.structured_penalty)
            make = workspace_on_gpu if on_gpu(problem.y) else workspace_for
            self._workspace = make(problem.structure, terms, self._dtype)
            self._dtype, self._lowest_tau = self._workspace.dtype, 0.0
        elif weights != self._weights:
            self._workspace.set_weights(*weights)
        self._weights = weights
        self._workspace.set_target(problem.y)
        feasible = True
        if self._start is not None:
            v, dual, feasible = self._start
            self._workspace.set_state(v, dual)
            self._start, self._lowest_tau = None, 0.0
        return self._workspace, feasible

    def _run(
        self,
        workspace: Workspace,
        problem: LoadingProblem,
        tol: float,
        max_iter: int,
        reduction: float,
        feasible: bool,
    ) -> tuple[Status, list[TracePoint], bool]:
        """Iterate until the exact gap is at most ``max(tol, reduction * first gap)``.

        Returns how it ended, every look at the gap in the working precision, and whether the minimiser w of
        the dual point is better than the iterate v.
        """
        started, scale = time.perf_counter(), problem.scale()
        curvature = problem.tv * problem.structure.norm_squared()
        balance = _Balance(self._tau, self._lowest_tau)
        trace: list[TracePoint] = []
        best, last_progress, n_iter = np.inf, 0, 0
        if not feasible:
            # a look needs a feasible dual variable, which every iteration ends with
            n_iter += _advance(workspace, 1, self._tau, curvature)
        while True:
            shares = workspace.gap_shares()
            gap = min(shares.gap_v, shares.gap_w)
            value = scale + (-shares.w_squared - shares.conjugate) + gap
            trace.append(TracePoint(n_iter, value, gap, time.perf_counter() - started))
            if not np.isfinite(gap):
                raise SolverError(
                    f"pdhg: the gap became {gap} at iteration {n_iter} (tau {self._tau:.3g}, "
                    f"dtype {self._dtype}); the input is too large or too small for this precision"
                )
            if len(trace) == 1:
                tol = max(tol, reduction * gap)
            if gap < PROGRESS * best:
                best, last_progress = gap, len(trace)
            use_minimizer = bool(shares.gap_w <= shares.gap_v)
            if gap <= tol:
                return Status.CONVERGED, trace, use_minimizer
            if n_iter >= max_iter:
                return Status.MAX_ITER, trace, use_minimizer
            if len(trace) - last_progress >= PATIENCE[self._dtype]:
                return Status.STALLED, trace, use_minimizer
            self._tau, self._lowest_tau = balance.update(n_iter, shares)
            # a run that ends at a share of its first gap is too short for long pauses
            far = reduction == 0 and gap > FAR_AWAY * tol
            pause = ITERATIONS_FAR_AWAY if far else ITERATIONS_PER_LOOK
            n_iter += _advance(workspace, min(pause, max_iter - n_iter), self._tau, curvature)

    def _use_float64(self, v: FloatArray, dual: FloatArray) -> None:
        self._dtype = np.dtype(np.float64)
        self._start = (v, dual, True)

    def _fall_back(
        self, problem: LoadingProblem, stalled: CertifiedLoading, tol: float, max_iter: int, seconds: float
    ) -> CertifiedLoading:
        """Let the accelerated dual gradient continue from where the primal-dual iteration stalled."""
        # which works with the operator itself, on the CPU
        other = dual_gradient(
            problem.on_host(),
            tol=tol / problem.scale(),
            max_iter=max_iter - stalled.n_iter,
            alpha0=to_host(self.dual()),
        )
        further = replace(stalled, n_iter=other.n_iter, status=other.status, detail=other.detail)
        if other.gap < stalled.gap:
            self._start = (other.v, other.alpha, True)
            certificate = problem.certificate(other.v, other.alpha)
            judgement = problem.judge(certificate)
            further = replace(further, certificate=certificate, value=judgement.value, gap=judgement.gap)
        return _joined(stalled, replace(further, trace=other.trace), seconds)


def _advance(workspace: Workspace, n_iter: int, tau: float, curvature: float) -> int:
    """Do iterations, the last of them without relaxation; `curvature` is ``c ||A||^2``."""
    sigma = 1.0 / (tau * curvature)
    if n_iter > 1:
        workspace.advance(n_iter - 1, StepSizes(tau, sigma, RELAXATION))
    workspace.advance(1, StepSizes(tau, sigma, 1.0))
    return n_iter


def _certificate(workspace: Workspace, problem: LoadingProblem, use_minimizer: bool) -> Certificate:
    """Return the iterate v, or the minimiser w of the last look, with its certificate in float64."""
    shares = workspace.exact_shares(use_minimizer)
    v = workspace.get_w() if use_minimizer else workspace.get_v()
    forbidden = problem.positive and bool((v < 0).any())
    return Certificate(
        v=v,
        pull=shares.pull,
        penalty=np.inf if forbidden else shares.structured_value + problem.l1 * absolute_sum(v),
        structured_gap=np.inf if forbidden else shares.structured_gap,
        conjugate=shares.conjugate,
    )


def _joined(first: CertifiedLoading, second: CertifiedLoading, seconds: float) -> CertifiedLoading:
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
    answer = solver.step(problem, tol * scale, max_iter=max_iter, slack=1.0)
    gap = answer.gap
    return Solution(
        v=answer.v,
        alpha=solver.dual(),
        value=answer.value,
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


class WarmRestarts:
    """Any solver of `spcatv.solvers.solve`, started from its last answer."""

    def __init__(self, method: str | Solver) -> None:
        self._method = method
        self._start: tuple[FloatArray | None, FloatArray | None] = (None, None)

    def dual(self) -> FloatArray:
        """Return the dual variable of the last answer."""
        if self._start[1] is None:
            raise RuntimeError("no problem has been solved yet")
        return self._start[1]

    def steps(self) -> tuple[Any, ...]:
        """Return nothing: a restart keeps no step sizes."""
        return ()

    def set_steps(self, steps: tuple[Any, ...]) -> None:
        """Do nothing."""

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


# Solves loading problems that share structure and weights, one after the other.
WarmSolver = PrimalDualSolver | WarmRestarts


def warm_solver(method: str | Solver, has_structure: bool, dtype: npt.DTypeLike) -> WarmSolver:
    """Return the warm solver for a method of `spcatv.solvers.solve`."""
    has_closed_form = not has_structure and isinstance(method, str) and method != "fista"
    if has_closed_form or method in ("auto", "pdhg"):
        return PrimalDualSolver(dtype)
    return WarmRestarts(method)
