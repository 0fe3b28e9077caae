"""CONESTA: FISTA with decreasing smoothing, driven by a duality gap (docs/method.md section 3.5)."""

from __future__ import annotations

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.problem.composite import CompositeProblem, GapKind
from spcatv.solvers.base import Monitor, Solution, Status
from spcatv.solvers.fista import Look, check_gap_kind, fista_loop, look_at, starting_point

# the smoothing at which the paper measures the first gap
FIRST_MU = 1e-8


def optimal_mu(problem: CompositeProblem, eps: float) -> float:
    """Return the smoothing that reaches precision `eps` in the fewest FISTA iterations.

    ``mu_opt(eps) = (-c M ||A||^2 + sqrt((c M ||A||^2)^2 + L M ||A||^2 eps)) / (L M)``, L = 2 for the
    loading problem, written without the cancellation between the two terms.
    """
    constant = problem.smoothing_constant()
    norm_squared = problem.structure.norm_squared()
    linear = problem.tv * constant * norm_squared
    root = np.sqrt(linear**2 + problem.lipschitz() * constant * norm_squared * eps)
    return float(norm_squared * eps / (linear + root))


def conesta(
    problem: CompositeProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 100_000,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
    tau: float = 0.5,
    gap: GapKind = "tight",
    mu_min: float = 0.0,
) -> Solution:
    """Minimise a composite problem by continuation on the smoothing parameter.

    Each round runs FISTA on the problem smoothed with ``mu_i`` until its gap is at most ``eps_i - mu_i c M``;
    then ``eps_i = gap_mu(v) + mu_i c M``, ``eps_{i+1} = tau eps_i`` and ``mu_{i+1} = min(mu_i,
    mu_opt(eps_{i+1}))``. It ends when the exact gap, which is never above that ``eps_i``, is at most ``eps =
    tol * problem.scale()``: the iterates are the paper's, and end no later.

    Parameters are those of `spcatv.solvers.solve`, where `max_iter` counts the FISTA iterations of all rounds
    and `alpha0` serves only to certify `v0`: if the pair is within the tolerance, nothing is done. `tau`, in
    (0, 1), is the ratio of the precisions of two rounds. `gap` drives the continuation: "tight", or "paper",
    which fixes the dual variable of the loss to its gradient (for a `RegularizedLoss` both are the same). If
    `mu_min`, the smallest smoothing parameter, puts the tolerance out of reach, the status is "stalled".
    """
    check_gap_kind(gap)
    if not 0 < tau < 1:
        raise ValueError(f"tau must lie strictly between 0 and 1, got {tau}")
    if not (np.isfinite(mu_min) and mu_min >= 0):
        raise ValueError(f"mu_min must be a finite number >= 0, got {mu_min}")
    monitor = Monitor(problem, "conesta", tol)
    v = starting_point(problem, monitor, v0, alpha0)
    first = look_at(problem, v, FIRST_MU, monitor=monitor, iteration=0, gap=gap)
    smooth_already = problem.smoothing_constant() == 0
    # no round needs to be more precise than the answer; this also covers a first gap of 0
    eps = max(tau * first.smoothed, monitor.target)
    mu, n_iter = np.inf, 0
    while not monitor.converged() and n_iter < max_iter:
        mu = 1.0 if smooth_already else max(min(mu, optimal_mu(problem, eps)), mu_min)
        smoothing = problem.smoothing_error(mu)
        if eps <= smoothing:
            return monitor.finish(n_iter, Status.STALLED, _floor_detail(mu, smoothing, monitor.target))
        wanted = 0.0 if smooth_already else eps - smoothing

        def stop(look: Look, wanted: float = wanted) -> bool:
            return monitor.converged() or look.smoothed <= wanted

        end = fista_loop(
            problem, v, mu, stop=stop, monitor=monitor, n_iter=n_iter, max_iter=max_iter, gap=gap
        )
        v, n_iter = end.v, end.n_iter
        eps = tau * (end.look.smoothed + smoothing)
    return monitor.finish(n_iter)


def _floor_detail(mu: float, smoothing: float, target: float) -> str:
    return (
        f"the smoothing parameter is at its floor mu_min = {mu:.3g}, which costs c mu M = {smoothing:.3g} "
        f"while the tolerance is {target:.3g}: lower mu_min"
    )
