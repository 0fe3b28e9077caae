"""Other losses with the same penalties, solved by the same FISTA and CONESTA, against a conic solver."""

import dataclasses
import warnings
from itertools import pairwise

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from spcatv.problem import LoadingProblem
from spcatv.problem.composite import (
    CompositeProblem,
    ElasticNet,
    LeastSquares,
    ProxPenalty,
    RegularizedLoss,
)
from spcatv.solvers import Status, solve
from spcatv.structure import from_matrix, grid, groups

STRUCTURES = {"grid": grid((3, 4)), "groups": groups([[0, 1, 2, 3], [3, 4, 5, 6], [6, 7, 8, 9, 10, 11]], 12)}


def data(seed=0):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(30, 12))
    truth = np.array([0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0.5])
    return B, B @ truth + 0.3 * rng.normal(size=30)


class Logistic:
    """A loss that a user writes: ``mean_i log(1 + exp(-b_i (Bv)_i))``."""

    def __init__(self, B, b):
        self.B, self.b, self.n_features = B, b, B.shape[1]

    def value(self, v):
        return np.logaddexp(0.0, -self.b * (self.B @ v)).mean()

    def gradient(self, v):
        return -self.B.T @ (self.b * expit(-self.b * (self.B @ v))) / len(self.B)

    def lipschitz(self):
        return np.linalg.norm(self.B, 2) ** 2 / (4 * len(self.B))


def make(loss, structure="grid", l1=0.02, l2=0.3, tv=0.05, positive=False):
    B, b = data()
    made = LeastSquares(B, b) if loss == "least squares" else Logistic(B, np.sign(b))
    return RegularizedLoss(made, ElasticNet(l1, l2, positive), STRUCTURES[structure], tv=tv)


def conic(problem):
    """Minimise by CLARABEL, written from the definitions."""
    v = cp.Variable(problem.structure.n_features)
    B, b = problem.loss.B, problem.loss.b
    if isinstance(problem.loss, LeastSquares):
        loss = cp.sum_squares(B @ v - b) / (2 * len(B))
    else:
        loss = cp.sum(cp.logistic(-cp.multiply(b, B @ v))) / len(B)
    A, ptr = sp.csr_matrix(problem.structure.matrix), problem.structure.group_ptr
    structured = sum(cp.norm(A[i:j] @ v, 2) for i, j in pairwise(ptr))
    penalty = problem.penalty.l1 * cp.norm1(v) + 0.5 * problem.penalty.l2 * cp.sum_squares(v)
    constraints = [v >= 0] if problem.penalty.positive else []
    model = cp.Problem(cp.Minimize(loss + penalty + problem.tv * structured), constraints)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return v.value, model.value


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", ["least squares", "logistic"])
def test_fista_and_conesta_agree_with_the_conic_solver(loss, structure, positive):
    problem = make(loss, structure, positive=positive)
    v, value = conic(problem)
    for method in ("conesta", "fista"):
        solution = solve(problem, method, tol=4e-6 * value / problem.scale(), max_iter=500_000)
        assert solution.status is Status.CONVERGED
        assert solution.value == pytest.approx(value, rel=5e-6)
        assert solution.gap >= solution.value - value - 1e-8 * value
        assert np.linalg.norm(solution.v - v) <= solution.error_bound + 1e-4


@pytest.mark.parametrize("loss", ["least squares", "logistic"])
def test_without_structure_it_is_the_elastic_net(loss):
    problem = make(loss, tv=0.0)
    solution = solve(problem, tol=1e-10)
    assert solution.status is Status.CONVERGED
    # optimality: v is a fixed point of the proximal gradient step
    step = 0.5
    moved = problem.prox(solution.v - step * problem.gradient(solution.v), step)
    np.testing.assert_allclose(moved, solution.v, atol=1e-5)


def test_identity_least_squares_is_the_loading_problem():
    """With B = sqrt(n) I, F is that of the loading problem, hence the same answer."""
    y = np.random.default_rng(3).normal(size=12) + 1
    loading = LoadingProblem(y, STRUCTURES["grid"], l1=0.2, tv=0.3)
    loss = LeastSquares(np.sqrt(12) * np.eye(12), np.sqrt(12) * y)
    other = RegularizedLoss(loss, ElasticNet(0.2, 1.0), STRUCTURES["grid"], tv=0.3)
    v = np.random.default_rng(4).normal(size=12)
    alpha = loading.dual_point(loading.structure.forward(v), 0.1)
    assert other.value(v) == pytest.approx(loading.value(v))
    assert other.scale() == pytest.approx(loading.scale())
    # its gap is the paper's, which fixes the dual variable of the loss to its gradient
    pull = loading.dual_pull(alpha)
    assert other.smooth_gap(v, pull) == pytest.approx(loading.smooth_gap(v, pull, "paper"))
    assert other.structured_gap(v, alpha) == pytest.approx(loading.structured_gap(v, alpha))
    one, two = solve(loading, tol=1e-8), solve(other, tol=1e-5)
    assert np.linalg.norm(one.v - two.v) <= one.error_bound + two.error_bound


@given(st.sampled_from(["least squares", "logistic"]), st.booleans(), st.integers(0, 1000))
def test_gap_bounds_every_difference_of_objectives(loss, positive, seed):
    """gap(v, alpha) >= F(v) - F(x) for every x, hence for the answer."""
    problem = make(loss, positive=positive)
    rng = np.random.default_rng(seed)
    v, x = rng.normal(size=(2, 12))
    v, x = (np.abs(v), np.abs(x) / 4) if positive else (v, x / 4)
    alpha = problem.feasible(rng.normal(size=problem.structure.n_rows))
    assert problem.gap(v, alpha) >= problem.value(v) - problem.value(x)


@given(st.booleans(), st.integers(0, 1000))
def test_elastic_net_conjugate_and_prox(positive, seed):
    rng = np.random.default_rng(seed)
    penalty = ElasticNet(0.3, 0.7, positive)
    v, z = rng.normal(size=(2, 8))
    v = np.abs(v) if positive else v
    plain = ProxPenalty.fenchel_gap(penalty, v, z)
    assert plain >= -1e-12
    assert penalty.fenchel_gap(v, z) == pytest.approx(plain, abs=1e-12)
    # Moreau: the prox is where the Fenchel-Young inequality is tight
    step = 0.4
    moved = penalty.prox(z, step)
    assert penalty.fenchel_gap(moved, (z - moved) / step) == pytest.approx(0, abs=1e-12)


def test_loss_gradient_and_lipschitz_constant():
    loss = LeastSquares(*data())
    rng = np.random.default_rng(5)
    v, direction = rng.normal(size=(2, 12))
    slope = (loss.value(v + 1e-6 * direction) - loss.value(v - 1e-6 * direction)) / 2e-6
    assert loss.gradient(v) @ direction == pytest.approx(slope, rel=1e-5)
    # the steepest direction reaches the constant
    steepest = 1e-4 * np.linalg.svd(loss.B)[2][0]
    change = np.linalg.norm(loss.gradient(steepest) - loss.gradient(-steepest)) / np.linalg.norm(2 * steepest)
    assert change == pytest.approx(loss.lipschitz(), rel=1e-4)


def test_any_penalty_with_the_protocol_will_do():
    """A penalty written by a user (a box and a ridge) inherits the gap, and both solvers certify it."""

    @dataclasses.dataclass(frozen=True)
    class BoxedRidge(ProxPenalty):
        modulus: float = 1.0

        def value(self, v):
            return 0.5 * float(v @ v) if (np.abs(v) <= 0.2).all() else np.inf

        def prox(self, v, step):
            return np.clip(v / (1 + step), -0.2, 0.2)

        def conjugate(self, z):
            best = np.clip(z, -0.2, 0.2)
            return float(best @ z) - 0.5 * float(best @ best)

    B, b = data()
    problem: CompositeProblem = RegularizedLoss(LeastSquares(B, b), BoxedRidge(), grid((12,)), tv=0.02)
    one, two = (solve(problem, method, tol=1e-6, max_iter=200_000) for method in ("conesta", "fista"))
    assert np.abs(one.v).max() == 0.2
    assert np.linalg.norm(one.v - two.v) <= one.error_bound + two.error_bound
    assert solve(problem, v0=np.full(12, 9.0), tol=1e-4).status.success


def test_outside_of_the_domain_the_gap_is_infinite():
    problem = make("least squares", positive=True)
    assert problem.value(-np.ones(12)) == np.inf
    assert problem.gap(-np.ones(12), np.zeros(problem.structure.n_rows)) == np.inf


def test_without_strong_convexity_no_distance_is_bounded():
    @dataclasses.dataclass(frozen=True)
    class Box(ElasticNet):
        modulus: float = 0.0

    problem = RegularizedLoss(LeastSquares(*data()), Box(0.1, 0.1), grid((12,)), tv=0.1)
    assert problem.error_bound(np.zeros(12), np.zeros(11)) == np.inf


def test_too_few_iterations_are_reported():
    with pytest.warns(ConvergenceWarning, match="conesta: the iterations ran out"):
        assert solve(make("logistic"), max_iter=5).status is Status.MAX_ITER


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: ElasticNet(0.1, 0.0),
            r"l2 must be a finite number > 0, got 0\.0: .* gap is infinite",
        ),
        (lambda: ElasticNet(-0.1, 1.0), r"l1 must be a finite number >= 0, got -0\.1"),
        (lambda: LeastSquares(np.ones((3, 2)), np.ones(2)), r"got shapes \(3, 2\) and \(2,\)"),
        (lambda: LeastSquares(np.full((3, 2), np.nan), np.ones(3)), "B and b must be finite"),
        (lambda: make("logistic", tv=-1.0), r"tv must be a finite number >= 0, got -1\.0"),
        (
            lambda: RegularizedLoss(LeastSquares(np.eye(3), np.ones(3)), ElasticNet(0, 1), grid((4,))),
            "the structure has 4 features but the loss has 3",
        ),
        (lambda: make("logistic").gap(np.zeros(12), np.full(17, 3.0)), "alpha is not dual feasible"),
    ],
)
def test_errors_name_the_problem(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_an_operator_of_zeros_changes_nothing():
    problem = make("least squares", tv=0.0)
    blank = dataclasses.replace(problem, structure=from_matrix(sp.csr_array((2, 12))), tv=1.0)
    np.testing.assert_allclose(solve(blank, tol=1e-10).v, solve(problem, tol=1e-10).v, atol=1e-4)
