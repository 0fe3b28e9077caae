"""Accelerated proximal gradient ascent on the dual of the loading problem (docs/method.md section 3.9).

Slower than the primal-dual solver on large images, but without a step ratio to balance: the
fallback when that heuristic stalls.
"""

from __future__ import annotations

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.problem import LoadingProblem
from spcatv.solvers.api import Monitor, Solution, Status

CHECK_EVERY = 10
# without a better gap for this many iterations (or half of all of them) the arithmetic has no more to give
PATIENCE = 1000


def dual_gradient(
    problem: LoadingProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
) -> Solution:
    """Maximise the dual objective ``D(dual)`` by FISTA with gradient restart.

    ``D(dual) + c h*(dual)`` has the gradient ``c A v(dual)``, where ``v(dual)`` is the closed-form minimiser
    for the dual variable, with the Lipschitz constant ``c^2 ||A||^2 / 2``; the conjugate enters by its
    proximal operator. The primal iterate is that minimiser, so its gap is the dual's share alone.

    Parameters are those of `spcatv.solvers.solve`. Only the dual point of `v0` is of use here: the dual
    variable starts there unless `alpha0` is given.
    """
    if not isinstance(problem, LoadingProblem):
        raise ValueError(
            f"dual solves a LoadingProblem, whose dual is in closed form, not a {type(problem).__name__}; "
            "use 'conesta' or 'fista'"
        )
    monitor = Monitor(problem, "dual", tol)
    dual = _start(problem, v0, alpha0)
    monitor.look(0, problem.minimizer(dual), dual)
    if monitor.converged():
        return monitor.finish(n_iter=0)
    step = 1.0 / (0.5 * problem.tv**2 * problem.structure.norm_squared())
    point, momentum, improved_at = dual, 1.0, 0
    for iteration in range(1, max_iter + 1):
        after = _ascended(problem, point, step)
        if float((point - after) @ (after - dual)) > 0:  # the momentum points uphill of -D: drop it
            momentum, point = 1.0, after
        else:
            following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
            point = after + ((momentum - 1.0) / following) * (after - dual)
            momentum = following
        dual = after
        if iteration % CHECK_EVERY and iteration < max_iter:
            continue
        best = monitor.gap
        if monitor.look(iteration, problem.minimizer(dual), dual) < best:
            improved_at = iteration
        if monitor.converged():
            return monitor.finish(n_iter=iteration)
        if iteration - improved_at > max(PATIENCE, iteration // 2):
            return monitor.finish(
                n_iter=iteration,
                otherwise=Status.STALLED,
                detail=f"no better gap since iteration {improved_at}, which is the limit of the arithmetic",
            )
    return monitor.finish(n_iter=max_iter)


def _ascended(problem: LoadingProblem, dual: FloatArray, step: float) -> FloatArray:
    """One proximal gradient step of length `step`: up the smooth part, then the prox of ``c h*``."""
    slope = problem.tv * problem.structure.forward(problem.minimizer(dual))
    return problem.structured_penalty.dual_step(problem.structure, dual + step * slope, step * problem.tv)


def _start(problem: LoadingProblem, v0: FloatArray | None, alpha0: FloatArray | None) -> FloatArray:
    if alpha0 is not None:
        return problem.feasible(alpha0)
    if v0 is None:
        return np.zeros(problem.structure.n_rows)
    # a direction that is feasible and right wherever v0 already jumps
    size = float(np.abs(v0).max(initial=0.0))
    return problem.dual_point(problem.structure.forward(v0), mu=1e-3 * size if size > 0 else 1.0)
