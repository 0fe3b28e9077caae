"""What `solve` promises for every method: choice, validation, status, warnings, errors."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from spcatv.problem import LoadingProblem
from spcatv.problem.composite import ElasticNet, LeastSquares, RegularizedLoss
from spcatv.solvers import METHODS, Solution, SolverError, Status, solve
from spcatv.solvers.api import Monitor
from spcatv.solvers.dual import dual_gradient
from spcatv.structure import from_matrix, grid

ITERATIVE = [method for method in METHODS if method != "closed_form"]


@pytest.fixture
def problem():
    y = np.random.default_rng(0).normal(size=12) + 1
    return LoadingProblem(y, grid((3, 4)), l1=0.2, tv=0.3)


@pytest.mark.parametrize("method", ["auto", *ITERATIVE])
def test_solution_reports_the_certificate_of_its_own_answer(problem, method):
    solution = solve(problem, method, tol=1e-5)
    assert solution.status is Status.CONVERGED
    # the fast solver sums in the order of its own layout: the same but for the last digit
    assert solution.gap == pytest.approx(problem.gap(solution.v, solution.alpha), rel=1e-12)
    assert solution.value == pytest.approx(problem.value(solution.v), rel=1e-13)
    assert solution.relative_gap == pytest.approx(solution.gap / problem.scale())
    assert solution.relative_gap <= 1e-5
    assert solution.error_bound == pytest.approx(np.sqrt(solution.gap))
    assert solution.n_iter > 0
    assert solution.seconds > 0


@pytest.mark.parametrize("method", ITERATIVE)
def test_trace_is_in_order_and_ends_at_the_answer(problem, method):
    solution = solve(problem, method, tol=1e-5)
    steps = [point.iteration for point in solution.trace]
    assert steps == sorted(steps)
    assert steps[-1] == solution.n_iter
    seconds = [point.seconds for point in solution.trace]
    assert seconds == sorted(seconds)
    assert solution.trace[-1].gap == pytest.approx(solution.gap, rel=1e-6)
    assert solution.trace[-1].value == pytest.approx(solution.value)
    for point in solution.trace:
        assert point.gap >= (point.value - solution.value) * (1 - 1e-9)


@pytest.mark.parametrize("method", ITERATIVE)
def test_warm_start_at_the_answer_ends_at_once(problem, method):
    first = solve(problem, method, tol=1e-6)
    again = solve(problem, method, tol=2e-6, v0=first.v, alpha0=first.alpha)
    assert again.n_iter == 0
    assert again.status.success


@pytest.mark.parametrize("method", ITERATIVE)
def test_infeasible_starts_are_brought_back(problem, method):
    positive = dataclasses.replace(problem, positive=True)
    start = {"v0": np.full(12, -5.0), "alpha0": np.full(problem.structure.n_rows, 9.0)}
    solution = solve(positive, method, tol=1e-5, **start)
    assert solution.status.success
    assert (solution.v >= 0).all()
    reference = solve(positive, "dual", tol=1e-10)
    assert np.linalg.norm(solution.v - reference.v) <= solution.error_bound + reference.error_bound


@pytest.mark.parametrize("method", ["auto", *ITERATIVE])
def test_zero_target_gives_zero(method):
    solution = solve(LoadingProblem(np.zeros(12), grid((3, 4)), l1=0.2, tv=0.3), method)
    assert solution.status is Status.CONVERGED
    assert not solution.v.any()
    assert (solution.gap, solution.relative_gap, solution.error_bound) == (0, 0, 0)


@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize(
    ("structure", "tv"),
    [(grid((4,)), 0.0), (None, 1.0), (from_matrix(sp.csr_array((3, 4))), 1.0)],
    ids=["tv = 0", "no structure", "operator of zeros"],
)
def test_without_structured_penalty_every_method_gives_the_closed_form(method, structure, tv):
    problem = LoadingProblem(np.array([3.0, -1.0, 0.2, 0.5]), structure, l1=0.4, tv=tv)
    solution = solve(problem, method, tol=1e-12)
    np.testing.assert_allclose(solution.v, [1.3, -0.3, 0.0, 0.05], atol=1e-12)
    assert solution.v[2] == 0


def test_auto_picks_by_the_problem(problem):
    assert solve(problem).method == "pdhg"
    assert solve(LoadingProblem(problem.y, None)).method == "closed_form"
    rng = np.random.default_rng(1)
    other = RegularizedLoss(
        LeastSquares(rng.normal(size=(8, 12)), rng.normal(size=8)), ElasticNet(0.1, 1.0), None
    )
    assert solve(other).method == "conesta"


@pytest.mark.parametrize("method", ITERATIVE)
def test_running_out_of_iterations_warns_with_figures(problem, method):
    with pytest.warns(
        ConvergenceWarning, match=r"iterations ran out .* after 3 iterations \(relative gap .*max_iter"
    ):
        solution = solve(problem, method, tol=1e-12, max_iter=3)
    assert solution.status is Status.MAX_ITER
    assert not solution.status.success
    assert solution.n_iter == 3
    assert solution.gap == pytest.approx(problem.gap(solution.v, solution.alpha), rel=1e-9)


class Floored(LoadingProblem):
    """A problem whose gap never falls below 1e-6, as if the arithmetic ended there."""

    def gap(self, v, alpha):
        return max(super().gap(v, alpha), 1e-6)


def test_dual_stalls_at_the_limit_of_the_arithmetic_rather_than_runs_on(problem):
    floored = Floored(problem.y, problem.structure, l1=0.2, tv=0.3)
    with pytest.warns(ConvergenceWarning, match=r"progress ended .*no better gap since iteration \d+"):
        solution = solve(floored, "dual", tol=1e-12)
    assert solution.status is Status.STALLED
    assert solution.n_iter < 3000


def test_a_scale_of_zero_must_mean_an_answer_of_zero(problem):
    class Unscaled(LoadingProblem):
        def scale(self):
            return 0.0

    with pytest.raises(ValueError, match=r"scale\(\) is 0 although v = 0 is not optimal \(its gap is"):
        solve(Unscaled(problem.y, problem.structure, tv=0.1), "dual")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"method": "newton"},
            "unknown method 'newton'; choose one of auto, pdhg, dual, conesta, ",
        ),
        ({"tol": 0.0}, r"tol must be a finite number > 0 .*, got 0\.0"),
        ({"tol": np.nan}, "tol must be a finite number > 0"),
        ({"max_iter": 0}, "max_iter must be a whole number >= 1, got 0"),
        ({"max_iter": 2.5}, r"max_iter must be a whole number >= 1, got 2\.5"),
        ({"v0": np.zeros(11)}, r"v0 must have shape \(12,\), that is n_features; got shape \(11,\)"),
        ({"v0": np.r_[np.nan, np.zeros(11)]}, "v0 has 1 NaN or infinite entries of 12"),
        ({"alpha0": np.zeros((17, 1))}, r"alpha0 must have shape \(17,\), that is n_rows of the structure"),
        ({"alpha0": np.full(17, np.inf)}, "alpha0 has 17 NaN or infinite entries of 17"),
        (
            {"method": "closed_form"},
            r"closed_form needs .* without structured penalty, but tv is 0\.3",
        ),
        ({"method": "fista", "mu": -1.0}, r"mu must be a finite number > 0, got -1\.0"),
        ({"method": "conesta", "tau": 1.0}, r"tau must lie strictly between 0 and 1, got 1\.0"),
        ({"method": "conesta", "gap": "loose"}, "unknown gap 'loose'; choose one of tight, paper"),
        ({"method": "conesta", "mu_min": -1.0}, "mu_min must be a finite number >= 0"),
    ],
)
def test_errors_name_the_problem(problem, arguments, message):
    with pytest.raises(ValueError, match=message):
        solve(problem, **arguments)


@pytest.mark.parametrize("method", ["dual", "closed_form"])
def test_solvers_of_the_loading_problem_refuse_others(method):
    other = RegularizedLoss(LeastSquares(np.eye(4), np.ones(4)), ElasticNet(0.1, 1.0), grid((4,)), tv=0.1)
    with pytest.raises(ValueError, match=r"not a RegularizedLoss; use 'conesta' or 'fista'"):
        solve(other, method)


class Poisoned(LoadingProblem):
    """A problem whose operator gives NaN after a while, which no solver may return."""

    def dual_pull(self, alpha):
        pull = super().dual_pull(alpha)
        return pull if np.abs(pull).max(initial=0.0) < 0.1 else pull * np.nan


@pytest.mark.parametrize("method", ["dual", "conesta", "fista"])
def test_nan_never_leaves_a_solver(problem, method):
    poisoned = Poisoned(problem.y, problem.structure, l1=0.2, tv=0.3)
    with pytest.raises(SolverError, match=rf"{method}: .* gap nan at iteration \d+ \(12 of 12 entries of v"):
        solve(poisoned, method)


@pytest.mark.parametrize("method", ITERATIVE)
def test_overflow_is_an_error_not_an_answer(method):
    problem = LoadingProblem(np.linspace(1, 2, 12) * 1e200, grid((3, 4)), l1=0.2, tv=1e199)
    with np.errstate(over="ignore"), pytest.raises(SolverError, match=r"the scale of the problem is inf"):
        solve(problem, method)


def test_dual_gradient_by_itself_projects_its_start(problem):
    solution = dual_gradient(problem, alpha0=np.full(problem.structure.n_rows, 9.0))
    assert solution.status.success


def test_a_callable_gets_a_feasible_start(problem):
    def mine(problem, *, tol, v0, alpha0):
        assert problem.structure.group_norms(alpha0).max() <= 1 + 1e-12
        return dual_gradient(problem, tol=tol)

    solve(problem, mine, alpha0=np.full(problem.structure.n_rows, 9.0))


def test_a_callable_is_run_and_judged(problem):
    def mine(problem, *, tol, v0, alpha0, max_iter=77):
        assert (tol, max_iter, v0) == (1e-5, 77, None)
        return dual_gradient(problem, tol=tol, alpha0=alpha0)

    solution = solve(problem, mine, tol=1e-5)
    assert solution.status.success
    assert solution.gap == problem.gap(solution.v, solution.alpha)


def test_a_false_claim_of_a_callable_is_found_out(problem):
    def boastful(problem, *, tol, v0, alpha0):
        honest = dual_gradient(problem, tol=1e-2)
        return dataclasses.replace(honest, gap=0.0, relative_gap=0.0, error_bound=0.0, method="boastful")

    with pytest.warns(ConvergenceWarning, match="boastful: .*it reported convergence at a gap of 0"):
        solution = solve(problem, boastful, tol=1e-6)
    assert solution.status is Status.STALLED
    assert solution.gap == problem.gap(solution.v, solution.alpha) > 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"v": np.full(12, np.nan)}, SolverError, "12 of 12 entries of v"),
        ({"v": np.zeros(3)}, ValueError, r"returned v of shape \(3,\); \(12,\) is right"),
        ({"alpha": np.full(17, 2.0)}, ValueError, "not dual feasible"),
    ],
)
def test_an_unusable_answer_of_a_callable_is_refused(problem, change, error, message):
    def broken(problem, *, tol, v0, alpha0):
        return dataclasses.replace(dual_gradient(problem), **change)

    with pytest.raises(error, match=message):
        solve(problem, broken)


def test_a_callable_must_return_a_solution(problem):
    with pytest.raises(TypeError, match="the solver <lambda> must return a Solution, got a ndarray"):
        solve(problem, lambda problem, **_: np.zeros(12))


def test_a_solver_that_never_looked_has_no_answer(problem):
    with pytest.raises(RuntimeError, match="lazy ended without a single look"):
        Monitor(problem, "lazy", 1e-6).finish(n_iter=0)


def test_the_message_has_the_figures(problem):
    solution = solve(problem, "dual", tol=1e-5)
    assert isinstance(solution, Solution)
    assert solution.message.startswith("dual: the duality gap is within the tolerance after ")
    assert f"relative gap {solution.relative_gap:.3g}" in solution.message
