"""FISTA and CONESTA: the smoothing, its price, and the continuation of docs/method.md section 3.5."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from spcatv.problem import LoadingProblem
from spcatv.solvers import Status, solve
from spcatv.solvers.api import Monitor
from spcatv.solvers.nesterov import SmoothedDescent, conesta, fista, optimal_mu
from spcatv.structure import grid


@pytest.fixture
def problem():
    y = np.random.default_rng(0).normal(size=20) + 1
    return LoadingProblem(y, grid((4, 5)), l1=0.2, tv=0.5)


def test_fista_default_smoothing_costs_half_of_the_tolerance(problem):
    solution = fista(problem, tol=1e-4)
    assert solution.status is Status.CONVERGED
    # the same with the mu that c mu M = tol scale / 2 gives
    mu = 0.5 * 1e-4 * problem.scale() / (0.5 * problem.tv * problem.structure.n_groups)
    np.testing.assert_array_equal(fista(problem, tol=1e-4, mu=mu).v, solution.v)


def test_fista_with_too_much_smoothing_reports_it_and_stops(problem):
    with pytest.warns(ConvergenceWarning, match=r"mu = 0\.5 is solved .* smoothing alone costs"):
        solution = solve(problem, "fista", mu=0.5, tol=1e-6, max_iter=100_000)
    assert solution.status is Status.STALLED
    assert solution.n_iter < 5000
    assert 1e-6 * problem.scale() < solution.gap <= problem.smoothing_error(0.5)


def test_fista_minimises_the_smoothed_objective(problem):
    """At the end the gradient map of F_mu is zero: the point solves the smoothed problem."""
    mu, step = 0.1, 1e-2
    descent = SmoothedDescent(problem, Monitor(problem, "fista", 1e-6), max_iter=20_000)
    assert any(look.smoothed < 1e-14 for look in descent.minimize(mu))
    v = descent.v
    alpha = problem.dual_point(problem.structure.forward(v), mu)
    moved = problem.prox(v - step * (problem.gradient(v) + problem.dual_pull(alpha)), step)
    np.testing.assert_allclose(moved, v, atol=1e-7)


def test_first_iterations_follow_the_recipe(problem):
    """z = v + (k-2)/(k+1) (v - previous), step 1 / (2 + c ||A||^2 / mu), from k = 2: by hand, in full."""
    mu = 0.05
    step = 1 / (2 + problem.tv * problem.structure.norm_squared() / mu)
    v = previous = np.zeros(20)
    for k in range(2, 9):
        z = v + (k - 2) / (k + 1) * (v - previous)
        alpha = problem.structure.project(problem.structure.forward(z) / mu)
        target = z - step * (2 * z - problem.y + problem.tv * problem.structure.adjoint(alpha))
        previous, v = v, np.sign(target) * np.maximum(np.abs(target) - step * problem.l1, 0)
    np.testing.assert_allclose(fista(problem, mu=mu, tol=1e-12, max_iter=7).v, v, rtol=1e-12)


def test_optimal_mu_is_the_printed_formula(problem):
    c, norm_squared = problem.tv, problem.structure.norm_squared()
    M = problem.structure.n_groups / 2
    for eps in (1e-3, 1.0, 1e3):
        linear = c * M * norm_squared
        printed = (-linear + np.sqrt(linear**2 + 2 * M * norm_squared * eps)) / (2 * M)
        assert optimal_mu(problem, eps) == pytest.approx(printed, rel=1e-6)
        # it leaves room for FISTA: the smoothing costs less than eps
        assert problem.smoothing_error(optimal_mu(problem, eps)) < eps


def test_optimal_mu_keeps_its_digits(problem):
    """For a small eps the printed difference would be nothing but rounding; the limit is eps / (2 c M)."""
    eps = 1e-14
    limit = eps / (2 * problem.tv * problem.structure.n_groups / 2)
    assert optimal_mu(problem, eps) == pytest.approx(limit, rel=1e-9)


@pytest.mark.parametrize("start", [0.0, 0.5], ids=["from zero", "from elsewhere"])
@pytest.mark.parametrize("gap", ["tight", "paper"])
def test_continuation_is_the_one_of_the_paper(problem, gap, start, monkeypatch):
    """Every round's mu and wanted gap, replayed from what FISTA returned."""
    rounds = []

    def spying(descent, mu):
        rounds.append([mu, None])
        for look in minimize(descent, mu):
            rounds[-1][1] = look
            yield look

    minimize = SmoothedDescent.minimize
    monkeypatch.setattr(SmoothedDescent, "minimize", spying)
    v0 = start * np.random.default_rng(2).normal(size=20)
    solution = conesta(problem, tol=1e-5, gap=gap, v0=v0)
    assert solution.status is Status.CONVERGED
    assert len(rounds) > 5

    monitor = Monitor(problem, "replay", 1e-5)
    eps = 0.5 * SmoothedDescent(problem, monitor, 0, v0, gap=gap).look(1e-8).smoothed
    mu = np.inf
    for number, (used, look) in enumerate(rounds):
        mu = min(mu, optimal_mu(problem, eps))
        assert used == pytest.approx(mu)
        price = 0.5 * problem.tv * mu * problem.structure.n_groups
        if number < len(rounds) - 1:
            assert look.smoothed <= eps - price
        # the exact gap is never above the paper's precision of the round
        assert look.exact <= (look.smoothed + price) * (1 + 1e-9)
        eps = 0.5 * (look.smoothed + price)


def test_smoothing_floor_that_hides_the_tolerance_is_reported(problem):
    with pytest.warns(ConvergenceWarning, match=r"floor mu_min = 0\.1, which costs .*lower mu_min"):
        solution = solve(problem, "conesta", tol=1e-6, mu_min=0.1)
    assert solution.status is Status.STALLED
    assert solution.gap > 1e-6 * problem.scale()


def test_conesta_needs_fewer_iterations_than_fista_to_a_coarse_precision():
    """CONESTA takes large steps first, which must pay on a larger image at a modest tolerance."""
    y = np.random.default_rng(1).normal(size=400) + np.repeat([0.0, 2.0], 200)
    problem = LoadingProblem(y, grid((20, 20)), l1=0.2, tv=0.5)
    assert solve(problem, "conesta", tol=1e-3).n_iter < solve(problem, "fista", tol=1e-3).n_iter


@pytest.mark.parametrize("mu", [None, 1e-6, 10.0])
def test_graphnet_is_not_smoothed(problem, mu):
    squared = LoadingProblem(problem.y, problem.structure, l1=0.2, tv=0.5, penalty="graphnet")
    one = fista(squared, tol=1e-9, mu=mu)
    other = conesta(squared, tol=1e-9)
    assert one.status is other.status is Status.CONVERGED
    np.testing.assert_array_equal(one.v, other.v)
