"""The fast solver: over-relaxed primal-dual iteration with balanced steps (docs/method.md section 3.6).

The step ratio is steered by the exact gap itself: its dual share s and its primal share q say which
side lags. That rule is a heuristic; the certificate does not depend on it, and where the iteration
stalls the accelerated dual gradient takes over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dasum

from spcatv._util.types import FloatArray
from spcatv.kernels import GapShares, Setting, Steps, Workspace, workspace_for
from spcatv.problem import Certificate, LoadingProblem
from spcatv.solvers.base import Solution, SolverError, Status, TracePoint

# Iterations between two looks at the gap; the last of them is not relaxed, which gives exact zeros
# and a feasible dual variable.
ITERATIONS_A_LOOK = 10
# Above this multiple of the gap to reach, looks are rarer.
FAR_AWAY = 30.0
ITERATIONS_FAR_AWAY = 20
RELAXATION = 1.9
FIRST_TAU = 0.02
# From the answer to a similar problem, where most of the way is done, longer primal steps are better.
WARM_TAU = 0.04
# The step ratio moves by this factor when one share of the gap is over IMBALANCE times the other.
TAU_FACTOR = 0.5
IMBALANCE = 10.0
# Looks that move the ratio are spaced geometrically: adapting at every look can cycle.
SPACING = 1.15
# Tolerances that float32 reaches with digits to spare.
SINGLE_PRECISION_TOL = 1e-6
# Looks without 10 % progress after which the iteration counts as stalled: float32 runs out of
# digits early, float64 gets the benefit of the doubt.
PROGRESS = 0.9
PATIENCE = {np.dtype(np.float32): 40, np.dtype(np.float64): 200}


@dataclass(frozen=True)
class Run:
    """What one call of `PrimalDual.run` did.

    Attributes
    ----------
    status : Status
        How it ended.
    n_iter : int
        Iterations done.
    gap : float
        Exact gap of the better candidate, in the working precision.
    first_gap : float
        The same at the start.
    use_minimizer : bool
        Whether the better candidate is the minimiser w of the dual point rather than the iterate v.
    looks : tuple of (iteration, gap, dual value less the scale, seconds)
        Every look at the gap.
    """

    status: Status
    n_iter: int
    gap: float
    first_gap: float
    use_minimizer: bool
    looks: tuple[tuple[int, float, float, float], ...]


class PrimalDual:
    """A primal-dual iteration that can be stopped, given another y, and continued.

    Parameters
    ----------
    problem : LoadingProblem
        Structure and weights; its y is the first target.
    dtype : dtype
        Precision of the state.
    tau : float
        First primal step.
    """

    def __init__(self, problem: LoadingProblem, dtype: npt.DTypeLike, tau: float = FIRST_TAU) -> None:
        setting = Setting(problem.tv, problem.l1, problem.positive, problem.penalty == "graphnet")
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.tau = tau
        self._workspace: Workspace = workspace_for(problem.structure, setting, self.dtype)
        self._coupling = problem.tv * problem.structure.norm_squared()
        self._feasible = True
        self._workspace.set_target(problem.y)

    def set_target(self, y: FloatArray) -> None:
        """Continue with another y, from the state reached so far."""
        self._workspace.set_target(y)

    def set_state(self, v: FloatArray, alpha: FloatArray, *, feasible: bool = True) -> None:
        """Continue from v and a dual variable, feasible or not, with the step sizes found so far."""
        self._workspace.set_state(v, alpha)
        self._feasible = feasible

    def clear(self) -> None:
        """Continue from zero."""
        self._workspace.clear()
        self._feasible = True

    def alpha(self) -> FloatArray:
        """The dual variable, shape (n_rows,); feasible after `certificate`."""
        return self._workspace.get_alpha()

    def candidate(self, run: Run) -> FloatArray:
        """The loading vector that `run` ended with, shape (n_features,), as float64."""
        return self._workspace.get_w() if run.use_minimizer else self._workspace.get_v()

    def certificate(self, problem: LoadingProblem, run: Run) -> Certificate:
        """What `run` ended with and its certificate, in float64."""
        shares = self._workspace.exact_shares(run.use_minimizer)
        v = self.candidate(run)
        forbidden = problem.positive and bool((v < 0).any())
        return Certificate(
            v=v,
            pull=shares.pull,
            penalty=np.inf if forbidden else shares.structured_value + problem.l1 * dasum(v),
            structured_gap=np.inf if forbidden else shares.structured_gap,
            conjugate=shares.conjugate,
        )

    def run(self, tol: float, max_iter: int, *, reduction: float = 0.0) -> Run:
        """Iterate until the exact gap is at most ``max(tol, reduction * first gap)``."""
        started = time.perf_counter()
        balance = _Balance(self.tau)
        patience = PATIENCE[self.dtype]
        looks: list[tuple[int, float, float, float]] = []
        best, last_progress, n_iter = np.inf, 0, 0
        status: Status | None = None
        if not self._feasible and max_iter > 0:
            # a look wants a feasible dual variable, which an iteration leaves behind
            n_iter += self._advance(1)
        while status is None:
            shares = self._workspace.gap_shares()
            gap = min(shares.gap_v, shares.gap_w)
            looks.append(
                (n_iter, gap, -shares.w_squared - shares.dual_penalty, time.perf_counter() - started)
            )
            if not np.isfinite(gap):
                raise SolverError(
                    f"pdhg: the gap became {gap} at iteration {n_iter} (tau {self.tau:.3g}, "
                    f"dtype {self.dtype}); the input is too large or too small for this precision"
                )
            if len(looks) == 1:
                tol = max(tol, reduction * gap)
            if gap < PROGRESS * best:
                best, last_progress = gap, len(looks)
            if gap <= tol:
                status = Status.CONVERGED
            elif n_iter >= max_iter:
                status = Status.MAX_ITER
            elif len(looks) - last_progress >= patience:
                status = Status.STALLED
            else:
                self.tau = balance.update(n_iter, shares)
                # a step that ends at a share of its first gap is too short for long pauses
                far = reduction == 0 and gap > FAR_AWAY * tol
                pause = ITERATIONS_FAR_AWAY if far else ITERATIONS_A_LOOK
                n_iter += self._advance(min(pause, max_iter - n_iter))
        return Run(status, n_iter, gap, looks[0][1], bool(shares.gap_w <= shares.gap_v), tuple(looks))

    def _advance(self, n_iter: int) -> int:
        sigma = 1.0 / (self.tau * self._coupling)
        if n_iter > 1:
            self._workspace.advance(n_iter - 1, Steps(self.tau, sigma, RELAXATION))
        self._workspace.advance(1, Steps(self.tau, sigma, 1.0))
        self._feasible = True
        return n_iter


class _Balance:
    """Steers tau so that the dual and the primal share of the gap fall together."""

    def __init__(self, tau: float) -> None:
        self._tau = tau
        self._dual_sum = self._primal_sum = 0.0
        self._next = ITERATIONS_A_LOOK

    def update(self, n_iter: int, shares: GapShares) -> float:
        """Take one look into account and return the tau to go on with."""
        if n_iter > 0:
            self._dual_sum += shares.structured_v
            self._primal_sum += shares.smooth_v
        if n_iter >= self._next:
            if self._dual_sum > IMBALANCE * self._primal_sum:
                self._tau *= TAU_FACTOR
            elif self._primal_sum > IMBALANCE * self._dual_sum:
                self._tau /= TAU_FACTOR
            self._dual_sum = self._primal_sum = 0.0
            self._next = max(n_iter + ITERATIONS_A_LOOK, int(SPACING * n_iter))
        return self._tau


def pdhg(
    problem: LoadingProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 50_000,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
    dtype: npt.DTypeLike | None = None,
) -> Solution:
    """Solve a loading problem by the over-relaxed primal-dual iteration.

    Parameters
    ----------
    problem : LoadingProblem
        With a structured penalty (``problem.has_structure``).
    tol : float, default=1e-6
        Largest gap, relative to ``problem.scale()``.
    max_iter : int, default=50_000
        Iterations.
    v0, alpha0 : ndarray, default=None
        Where to start; zeros by default.
    dtype : {float64, float32, None}, default=None
        Precision to start in; float32 gives way to float64 where its digits run out. ``None``: float32
        for a `tol` of 1e-6 or more. The certificate is in float64 either way.

    Returns
    -------
    Solution
    """
    if dtype is None:
        dtype = np.float32 if tol >= SINGLE_PRECISION_TOL else np.float64
    started = time.perf_counter()
    target = tol * problem.scale()
    iteration = PrimalDual(problem, dtype)
    if v0 is not None or alpha0 is not None:
        iteration.set_state(*_start(problem, v0, alpha0))
    run = iteration.run(target, max_iter)
    trace, n_iter = _trace(problem, run, 0, 0.0), run.n_iter
    certificate = iteration.certificate(problem, run)
    if iteration.dtype == np.float32 and problem.judge(certificate).gap > target and n_iter < max_iter:
        state = certificate.v, iteration.alpha()
        iteration = PrimalDual(problem, np.float64, iteration.tau)
        iteration.set_state(*state)
        seconds = time.perf_counter() - started
        run = iteration.run(target, max_iter - n_iter)
        trace, n_iter = trace + _trace(problem, run, n_iter, seconds), n_iter + run.n_iter
        certificate = iteration.certificate(problem, run)
    seconds = time.perf_counter() - started
    solution = _certified(problem, certificate, iteration.alpha(), target, run.status, n_iter, seconds, trace)
    if solution.status is Status.STALLED:
        return _fall_back(problem, solution, tol, max_iter)
    return solution


def _start(
    problem: LoadingProblem, v0: FloatArray | None, alpha0: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    v = np.zeros(problem.y.size) if v0 is None else v0
    alpha = np.zeros(problem.structure.n_rows) if alpha0 is None else problem.feasible(alpha0)
    return v, alpha


def _trace(problem: LoadingProblem, run: Run, n_iter: int, seconds: float) -> tuple[TracePoint, ...]:
    scale = problem.scale()
    return tuple(
        TracePoint(n_iter + i, scale + dual + gap, gap, seconds + passed)
        for i, gap, dual, passed in run.looks
    )


def _certified(
    problem: LoadingProblem,
    certificate: Certificate,
    alpha: FloatArray,
    target: float,
    status: Status,
    n_iter: int,
    seconds: float,
    trace: tuple[TracePoint, ...],
) -> Solution:
    judgement = problem.judge(certificate)
    if judgement.gap <= target:
        status = Status.CONVERGED
    elif status is Status.CONVERGED:
        # the working precision saw a gap that float64 does not confirm
        status = Status.STALLED
    scale = problem.scale()
    # the last look was in the working precision; this is what it comes to
    last = TracePoint(n_iter, judgement.value, judgement.gap, seconds)
    return Solution(
        v=certificate.v,
        alpha=alpha,
        value=judgement.value,
        gap=judgement.gap,
        relative_gap=judgement.gap / scale if scale > 0 else 0.0,
        error_bound=float(np.sqrt(judgement.gap)),
        status=status,
        n_iter=n_iter,
        seconds=seconds,
        trace=(*trace[:-1], last),
        method="pdhg",
    )


def _fall_back(problem: LoadingProblem, stalled: Solution, tol: float, max_iter: int) -> Solution:
    """Let the accelerated dual gradient go on from where the primal-dual iteration stalled."""
    from spcatv.solvers.dual import dual_gradient

    if stalled.n_iter >= max_iter:
        return stalled
    other = dual_gradient(problem, tol=tol, max_iter=max_iter - stalled.n_iter, alpha0=stalled.alpha)
    best = other if other.gap < stalled.gap else stalled
    moved = tuple(
        replace(p, iteration=p.iteration + stalled.n_iter, seconds=p.seconds + stalled.seconds)
        for p in other.trace
    )
    return replace(
        best,
        status=other.status,
        n_iter=stalled.n_iter + other.n_iter,
        seconds=stalled.seconds + other.seconds,
        trace=stalled.trace + moved,
        method="pdhg",
    )
