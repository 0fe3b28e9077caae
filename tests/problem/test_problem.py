import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from spcatv.problem import HuberTV, LoadingProblem
from spcatv.solvers.dual import dual_gradient
from spcatv.structure import from_matrix, graph, grid, groups

STRUCTURES = (
    grid((7,)),
    grid((3, 4)),
    grid(np.array([[1, 1, 0], [1, 1, 1], [0, 2, 2]])),
    groups([[0, 1, 2], [2, 3], [3, 4, 5]], 6),
    graph(sp.csr_array(np.ones((4, 4)) - np.eye(4))),
)


PENALTIES = ("tv", "graphnet", HuberTV(0.2))


@st.composite
def problems(draw, penalties=PENALTIES):
    structure = draw(st.sampled_from(STRUCTURES))
    seed = draw(st.integers(0, 2**32 - 1))
    y = draw(st.sampled_from([1e-3, 1.0, 1e3])) * np.random.default_rng(seed).normal(
        size=structure.n_features
    )
    size = float(np.abs(y).max())
    return LoadingProblem(
        y,
        structure,
        l1=draw(st.sampled_from([0.0, 0.1, 0.5])) * size,
        tv=draw(st.sampled_from([0.0, 0.05, 0.5])) * size,
        positive=draw(st.booleans()),
        penalty=draw(st.sampled_from(penalties)),
    )


def random_pair(problem, seed):
    """A point of the domain and a feasible dual variable."""
    rng = np.random.default_rng(seed)
    spread = np.abs(problem.y).max()
    v = spread * rng.normal(size=problem.y.size) * (rng.random(problem.y.size) < 0.7)
    v = np.abs(v) if problem.positive else v
    return v, problem.feasible(rng.normal(size=problem.structure.n_rows))


@given(problems(), st.integers(0, 1000))
def test_gap_is_value_minus_dual_and_never_negative(problem, seed):
    v, alpha = random_pair(problem, seed)
    gap = problem.gap(v, alpha)
    assert gap >= 0
    assert gap == pytest.approx(
        problem.value(v) - problem.dual(alpha), rel=1e-9, abs=1e-12 * problem.value(v)
    )


@given(problems(), st.integers(0, 1000), st.integers(1001, 2000))
def test_every_dual_value_is_below_every_objective(problem, one, other):
    v, _ = random_pair(problem, one)
    _, alpha = random_pair(problem, other)
    assert problem.dual(alpha) <= problem.value(v) * (1 + 1e-12)


@given(problems(), st.integers(0, 1000))
def test_minimizer_leaves_only_the_dual_share_of_the_gap(problem, seed):
    """w minimises the Lagrangian at alpha, so that its primal share q is 0 and any other v has more."""
    v, alpha = random_pair(problem, seed)
    w, pull = problem.minimizer(alpha), problem.dual_pull(alpha)
    assert problem.smooth_gap(w, pull) == pytest.approx(0, abs=1e-12 * problem.scale())

    def lagrangian(x):
        residual = x - problem.y
        return 0.5 * residual @ residual + 0.5 * x @ x + problem.l1 * np.abs(x).sum() + x @ pull

    assert lagrangian(w) <= min(lagrangian(v), lagrangian(w + 1e-3 * (v - w))) + 1e-12 * problem.value(v)
    if problem.positive:
        assert (w >= 0).all()


@given(problems(), st.integers(0, 1000))
def test_gap_bounds_the_distance_to_the_answer(problem, seed):
    """||v - v*||^2 <= F(v) - F(v*) <= gap: the modulus of strong convexity is 2."""
    v, alpha = random_pair(problem, seed)
    best = dual_gradient(problem, tol=1e-10)
    distance = np.linalg.norm(v - best.v)
    # the answer is itself known up to its own bound
    known = best.error_bound
    # without penalties the two are equal, but for rounding
    assert distance <= problem.error_bound(v, alpha) * (1 + 1e-9) + known
    assert max(distance - known, 0) ** 2 <= (problem.value(v) - best.value + best.gap) * (1 + 1e-9)
    assert problem.gap(v, alpha) >= (problem.value(v) - best.value) * (1 - 1e-9)


@given(problems(penalties=("tv",)), st.integers(0, 1000), st.sampled_from([1e-3, 0.1, 10.0]))
def test_smoothed_gap_is_the_primal_share_at_the_smoothed_dual_point(problem, seed, mu):
    """F_mu(v) - {D(alpha_mu) - c mu/2 ||alpha_mu||^2} = q, and q + s is the exact gap, s <= c mu M."""
    v, _ = random_pair(problem, seed)
    rows = problem.structure.forward(v)
    alpha = problem.dual_point(rows, mu)
    smoothed_value = alpha @ rows - 0.5 * mu * alpha @ alpha
    assert smoothed_value <= problem.structure.value(v) * (1 + 1e-12)
    assert problem.structure.value(v) <= smoothed_value + 0.5 * mu * problem.structure.n_groups + 1e-9
    value_mu = problem.value(v) + problem.tv * (smoothed_value - problem.structure.value(v))
    gap_mu = value_mu - (problem.dual(alpha) - 0.5 * problem.tv * mu * alpha @ alpha)
    share = problem.smooth_gap(v, problem.dual_pull(alpha))
    assert share == pytest.approx(gap_mu, rel=1e-9, abs=1e-11 * problem.value(v))
    assert (
        problem.structured_gap(v, alpha) <= problem.smoothing_error(mu) * (1 + 1e-9) + 1e-12 * problem.scale()
    )


@given(problems(penalties=("tv",)), st.integers(0, 1000), st.sampled_from([1e-3, 0.1, 10.0]))
def test_paper_gap_is_the_printed_formula(problem, seed, mu):
    """The gap as the paper prints it, term by term, with the dual variable of the loss sigma = v - y."""
    v, _ = random_pair(problem, seed)
    y, c, k = problem.y, problem.tv, problem.l1
    rows = problem.structure.forward(v)
    alpha = problem.dual_point(rows, mu)
    value_mu = problem.value(v) + c * (alpha @ rows - 0.5 * mu * alpha @ alpha - problem.structure.value(v))
    sigma = v - y
    pulled = -sigma - c * problem.structure.adjoint(alpha)
    excess = np.maximum((pulled if problem.positive else np.abs(pulled)) - k, 0)
    printed = (
        value_mu + (0.5 * sigma @ sigma + sigma @ y) + (0.5 * excess @ excess + 0.5 * c * mu * alpha @ alpha)
    )
    pull = problem.dual_pull(alpha)
    paper = problem.smooth_gap(v, pull, "paper")
    assert paper == pytest.approx(printed, rel=1e-9, abs=1e-11 * problem.value(v))
    assert paper >= problem.smooth_gap(v, pull, "tight") * (1 - 1e-9) - 1e-12 * problem.scale()


@given(problems(), st.integers(0, 1000), st.sampled_from([0.0, 0.1, 2.0]))
def test_prox_and_gradient_are_those_of_the_objective(problem, seed, step):
    v, _ = random_pair(problem, seed)
    other, _ = random_pair(problem, seed + 1)

    def smooth(x):
        return 0.5 * (x - problem.y) @ (x - problem.y) + 0.5 * x @ x

    direction = other - v
    slope = (smooth(v + direction) - smooth(v - direction)) / 2  # exact for a quadratic
    size = smooth(v + direction) + smooth(v - direction)
    assert problem.gradient(v) @ direction == pytest.approx(slope, rel=1e-6, abs=1e-9 * size)
    assert smooth(other) <= smooth(v) + problem.gradient(v) @ direction + (
        0.5 * problem.lipschitz() * direction @ direction
    ) * (1 + 1e-9)
    moved = problem.prox(-v, step)

    def proximal(x):
        return 0.5 * (x + v) @ (x + v) + step * problem.l1 * np.abs(x).sum()

    assert not (problem.positive and (moved < 0).any())
    assert proximal(moved) <= min(proximal(other), proximal(0.9 * moved)) * (1 + 1e-12)


@pytest.mark.parametrize("penalty", ["tv", "graphnet"])
def test_structured_gradient_and_its_lipschitz_constant(penalty):
    """``c A'alpha_mu(v)`` is the gradient of the (smoothed) structured term, and no steeper than promised."""
    structure, mu = grid((3, 4)), 0.3
    problem = LoadingProblem(np.zeros(12), structure, tv=0.7, penalty=penalty)
    rng = np.random.default_rng(0)

    def term(v):
        rows = structure.forward(v)
        if penalty == "graphnet":
            return 0.7 * rows @ rows
        alpha = problem.dual_point(rows, mu)
        return 0.7 * (alpha @ rows - 0.5 * mu * alpha @ alpha)

    def gradient(v):
        return problem.dual_pull(problem.dual_point(structure.forward(v), mu))

    v, direction = rng.normal(size=(2, 12))
    slope = (term(v + 1e-6 * direction) - term(v - 1e-6 * direction)) / 2e-6
    assert gradient(v) @ direction == pytest.approx(slope, rel=1e-6)
    small = 1e-3 * rng.normal(
        size=(50, 2, 12)
    )  # where no group is clipped, so that the bound is nearly reached
    steepest = max(np.linalg.norm(gradient(a) - gradient(b)) / np.linalg.norm(a - b) for a, b in small)
    assert 0.5 * problem.structured_lipschitz(mu) < steepest <= problem.structured_lipschitz(mu)


def test_closed_form_without_structure():
    y = np.array([3.0, -1.0, 0.2])
    problem = LoadingProblem(y, None, l1=0.4, tv=5.0)
    assert not problem.has_structure
    np.testing.assert_allclose(problem.minimizer(np.zeros(0)), [1.3, -0.3, 0.0])
    assert problem.gap(problem.minimizer(np.zeros(0)), np.zeros(0)) <= 1e-16
    positive = LoadingProblem(y, None, l1=0.4, positive=True)
    np.testing.assert_allclose(positive.minimizer(np.zeros(0)), [1.3, 0.0, 0.0])


def test_gap_keeps_its_digits_near_the_answer():
    """Where value - dual has lost every digit to cancellation, the sum of non-negative terms has not."""
    y = 1e4 + np.random.default_rng(0).normal(size=12)
    problem = LoadingProblem(y, grid((3, 4)), l1=1.0, tv=0.3)
    alpha = dual_gradient(problem, tol=1e-16).alpha
    w = problem.minimizer(alpha)
    moved = w.copy()
    moved[0] += 1e-5  # adds 1e-10 to q, far below the rounding of an objective of 6e8
    added = problem.smooth_gap(moved, problem.dual_pull(alpha)) - problem.smooth_gap(
        w, problem.dual_pull(alpha)
    )
    assert added == pytest.approx(1e-10, rel=1e-3)


def test_outside_of_the_domain_everything_is_infinite():
    problem = LoadingProblem(np.ones(3), grid((3,)), tv=0.1, positive=True)
    v = np.array([1.0, -1e-9, 0.0])
    assert problem.value(v) == np.inf
    assert problem.gap(v, np.zeros(2)) == np.inf
    assert problem.error_bound(v, np.zeros(2)) == np.inf


def test_infeasible_alpha_is_refused():
    problem = LoadingProblem(np.ones(3), grid((3,)), tv=0.1)
    outside = np.array([0.5, 1.2])
    for certify in (problem.dual, lambda alpha: problem.gap(np.ones(3), alpha)):
        with pytest.raises(
            ValueError, match=r"not dual feasible: a group has norm 1\.2 > 1; project it first"
        ):
            certify(outside)
        with pytest.raises(ValueError, match="a group has norm nan"):
            certify(np.array([np.nan, 0.0]))
    assert problem.gap(np.ones(3), problem.feasible(outside)) > 0
    # any alpha is feasible for the squared norm
    assert LoadingProblem(np.ones(3), grid((3,)), tv=0.1, penalty="graphnet").gap(np.ones(3), outside) > 0


def test_nan_stays_nan():
    problem = LoadingProblem(np.ones(3), grid((3,)), tv=0.1)
    assert np.isnan(problem.gap(np.array([np.nan, 0, 0]), np.zeros(2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.ones((2, 2))}, r"y must be a vector with one entry per feature; got shape \(2, 2\)"),
        ({"y": [1.0, np.nan, np.inf, 0.0]}, "y has 2 NaN or infinite entries of 4"),
        ({"structure": grid((5,))}, "the structure has 5 features but y has 4 entries"),
        ({"l1": -1.0}, r"l1 must be a finite number >= 0, got -1\.0"),
        ({"tv": np.nan}, "tv must be a finite number >= 0, got nan"),
        ({"penalty": "ridge"}, "unknown penalty 'ridge'; choose one of tv, graphnet"),
    ],
)
def test_errors_name_the_problem(arguments, message):
    good = {"y": np.ones(4), "structure": grid((4,))}
    with pytest.raises(ValueError, match=message):
        LoadingProblem(**{**good, **arguments})


def test_y_is_copied_and_frozen():
    y = np.ones(4)
    problem = LoadingProblem(y, grid((4,)))
    y[0] = 9.0
    assert problem.y[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.y[0] = 2.0


def test_an_operator_of_zeros_smooths_nothing():
    problem = LoadingProblem(np.ones(3), from_matrix(sp.csr_array((2, 3))), tv=1.0)
    assert problem.structured_lipschitz(0.1) == 0


@pytest.mark.parametrize("method", ["value", "dual", "minimizer", "feasible"])
def test_vectors_of_the_wrong_length_are_refused(method):
    problem = LoadingProblem(np.ones(1000), grid((10, 100)), l1=0.1, tv=0.1)
    with pytest.raises(ValueError, match=r"must have shape \((1000|1890),\).*got \(3,\)"):
        getattr(problem, method)(np.full(3, 5.0))
    for v, alpha in ((np.zeros(3), np.zeros(1890)), (np.zeros(1000), np.zeros(1889))):
        with pytest.raises(ValueError, match="must have shape"):
            problem.gap(v, alpha)


@pytest.mark.parametrize("penalty", ["tv", "graphnet", HuberTV(0.2)])
def test_what_a_dual_variable_states_of_zero(penalty):
    problem = LoadingProblem(np.arange(6.0), grid(6), l1=0.5, tv=0.7, penalty=penalty)
    alpha = problem.feasible(np.linspace(-1, 1, 5))
    zero = problem.zero_certificate(problem.certificate(np.ones(6), alpha))
    assert problem.judge(zero).gap == pytest.approx(problem.gap(np.zeros(6), alpha), rel=1e-12)
    assert problem.judge(zero).value == pytest.approx(problem.scale(), rel=1e-12)


def test_entries_whose_squares_overflow_are_numbers_all_the_same():
    y = np.full(4, 1e200)
    np.testing.assert_array_equal(LoadingProblem(y, 4, l1=0.1).y, y)
