"""Nesterov smoothing: FISTA with a fixed parameter, CONESTA with a decreasing one (docs/method.md 3.4, 3.5).

The structured penalty is replaced by Nesterov's smooth ``h_mu``, whose gradient is ``A'alpha_mu(v)``, and
``F_mu`` is minimised by accelerated proximal gradient steps. The gap has two shares,

    q = F_mu(v) - (smoothed dual at alpha_mu)       what is left to do on the smoothed problem
    s = c ( h(Av) + h*(alpha_mu) - alpha_mu'Av )  <=  c mu M        what the smoothing costs

and ``q + s`` is the exact gap of the problem itself, the only stopping rule of `fista`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.problem.composite import GAP_KINDS, CompositeProblem, GapKind
from spcatv.solvers.api import Monitor, Solution, Status

# Iterations from one look at the gap to the next.
CHECK_EVERY = 10
# The smoothed problem counts as solved when q is this share of the tolerance.
SOLVED = 1e-3
# Smoothing parameter at which the paper measures the first gap.
FIRST_MU = 1e-8


class Look(NamedTuple):
    """The gap at one iterate: its smoothed share q, its exact total q + s."""

    smoothed: float
    exact: float


class SmoothedDescent:
    """FISTA on smoothed problems, each from the iterate `v` that the one before has reached.

    It starts at v0 moved into the domain (0 by default); a given pair (v0, alpha0) is recorded first.
    `max_iter` limits the iterations of all problems together.
    """

    def __init__(
        self,
        problem: CompositeProblem,
        monitor: Monitor,
        max_iter: int,
        v0: FloatArray | None = None,
        alpha0: FloatArray | None = None,
        gap: GapKind = "tight",
    ) -> None:
        self.problem, self.monitor, self.max_iter, self.gap = problem, monitor, max_iter, gap
        self.v = problem.prox(np.zeros(problem.structure.n_features) if v0 is None else v0, 0.0)
        self.n_iter = 0
        if alpha0 is not None:
            monitor.look(0, self.v, problem.feasible(alpha0))

    def look(self, mu: float) -> Look:
        """Certify the iterate by its own smoothed dual point ``alpha_mu(v)`` and record the look.

        Its ``smoothed`` is ``gap_mu(v)`` of docs/method.md section 3.4, of the given kind; ``exact`` is the
        unsmoothed gap, always of the tight kind.
        """
        problem, v = self.problem, self.v
        dual = problem.dual_point(problem.structure.forward(v), mu)
        pull = problem.dual_pull(dual)
        tight = max(problem.smooth_gap(v, pull, "tight"), 0.0)
        exact = tight + max(problem.structured_gap(v, dual), 0.0)
        self.monitor.look(self.n_iter, v, dual, exact)
        smoothed = tight if self.gap == "tight" else problem.smooth_gap(v, pull, self.gap)
        return Look(smoothed=smoothed, exact=exact)

    def minimize(self, mu: float) -> Iterator[Look]:
        """Minimise ``F_mu``, and yield every look: before the first iteration, then after every tenth.

        One iteration is ``z = v + (k-2)/(k+1) (v - v_previous)``, ``v = prox(z - t grad F_mu(z), t)`` with
        the step ``t = 1 / (L + L_mu)``, L and ``L_mu`` the Lipschitz constants of the two gradients. It ends
        when the exact gap is within the tolerance, or the iterations run out.
        """
        problem = self.problem
        step = 1.0 / (problem.lipschitz() + problem.structured_lipschitz(mu))
        previous, k = self.v, 2
        yield self.look(mu)
        while not self.monitor.converged() and self.n_iter < self.max_iter:
            for _ in range(min(CHECK_EVERY, self.max_iter - self.n_iter)):
                z = self.v + ((k - 2) / (k + 1)) * (self.v - previous)
                dual = problem.dual_point(problem.structure.forward(z), mu)
                gradient = problem.gradient(z) + problem.dual_pull(dual)
                previous, self.v = self.v, problem.prox(z - step * gradient, step)
                k, self.n_iter = k + 1, self.n_iter + 1
            yield self.look(mu)


def fista(
    problem: CompositeProblem,
    *,
    mu: float | None = None,
    tol: float = 1e-6,
    max_iter: int = 10_000,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
) -> Solution:
    """Minimise a composite problem by FISTA at one fixed smoothing parameter.

    Parameters are those of `spcatv.solvers.solve`; `alpha0` serves only to certify `v0`: if the pair is
    within the tolerance, nothing is done. By default `mu` is the smoothing parameter that costs half of the
    tolerance, ``c mu M = tol * scale / 2``. A larger one is faster, but may put the tolerance out of reach:
    the status is then "stalled" as soon as the smoothed problem is solved.
    """
    if mu is not None and not (np.isfinite(mu) and mu > 0):
        raise ValueError(f"mu must be a finite number > 0, got {mu}")
    monitor = Monitor(problem, "fista", tol)
    descent = SmoothedDescent(problem, monitor, max_iter, v0, alpha0)
    if monitor.converged():
        return monitor.finish(n_iter=0)
    if mu is None:
        cost = problem.smoothing_error(1.0)
        mu = 0.5 * monitor.target / cost if cost > 0 and monitor.target > 0 else 1.0

    for look in descent.minimize(mu):
        cost = look.exact - look.smoothed
        if look.smoothed <= SOLVED * monitor.target and cost > monitor.target:
            detail = (
                f"the problem smoothed with mu = {mu:.3g} is solved (gap {look.smoothed:.3g}), but the "
                f"smoothing alone costs {cost:.3g} (at most c mu M = {problem.smoothing_error(mu):.3g}) and "
                f"the tolerance is {monitor.target:.3g}: lower mu"
            )
            return monitor.finish(descent.n_iter, Status.STALLED, detail)
    return monitor.finish(descent.n_iter)


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
    if gap not in GAP_KINDS:
        raise ValueError(f"unknown gap {gap!r}; choose one of {', '.join(GAP_KINDS)}")
    if not 0 < tau < 1:
        raise ValueError(f"tau must lie strictly between 0 and 1, got {tau}")
    if not (np.isfinite(mu_min) and mu_min >= 0):
        raise ValueError(f"mu_min must be a finite number >= 0, got {mu_min}")
    monitor = Monitor(problem, "conesta", tol)
    descent = SmoothedDescent(problem, monitor, max_iter, v0, alpha0, gap)
    look = descent.look(FIRST_MU)
    smooth_already = problem.smoothing_constant() == 0
    # no round needs to be more precise than the answer; this also covers a first gap of 0
    eps = max(tau * look.smoothed, monitor.target)
    mu = np.inf
    while not monitor.converged() and descent.n_iter < max_iter:
        mu = 1.0 if smooth_already else max(min(mu, optimal_mu(problem, eps)), mu_min)
        smoothing = problem.smoothing_error(mu)
        if eps <= smoothing:
            detail = (
                f"the smoothing parameter is at its floor mu_min = {mu:.3g}, which costs c mu M = "
                f"{smoothing:.3g} while the tolerance is {monitor.target:.3g}: lower mu_min"
            )
            return monitor.finish(descent.n_iter, Status.STALLED, detail)
        wanted = 0.0 if smooth_already else eps - smoothing
        for look in descent.minimize(mu):
            if look.smoothed <= wanted:
                break
        eps = tau * (look.smoothed + smoothing)
    return monitor.finish(descent.n_iter)
