"""Certificates, computed again from the definitions in docs/method.md, with more digits and range."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from spcatv import SPCATV
from spcatv.problem import HuberTV, LoadingProblem
from spcatv.solvers import METHODS, solve
from spcatv.structure import concat, from_matrix, graph, grid, groups, icosphere, mesh, stack

LONG = np.longdouble
pytestmark = pytest.mark.skipif(
    np.finfo(LONG).nmant < 63 or np.finfo(LONG).maxexp < 16384, reason="needs 80-bit floats"
)
SCALES = (1e-150, 1e-60, 1e-19, 1.0, 1e15, 1e60, 1e150)


def a_mask(rng, shape, labels=1):
    inside = rng.integers(0, labels + 1, shape)
    inside.flat[:2] = 1
    return inside if labels > 1 else inside.astype(bool)


def a_mesh(rng, scheme):
    coords, triangles = icosphere(1)
    coords = coords * rng.uniform(0.5, 2, 3)
    return mesh(coords, triangles, mask=coords[:, 2] < rng.uniform(0.2, 1), scheme=scheme)


def a_graph(rng, isotropic):
    upper = np.triu(rng.random((9, 9)) * (rng.random((9, 9)) < 0.4), 1)
    return graph(sp.csr_array(upper + upper.T), isotropic=isotropic)


def some_groups(rng, n_features):
    return groups([rng.choice(n_features, rng.integers(1, 5), replace=False) for _ in range(4)], n_features)


def a_matrix(rng):
    matrix = rng.standard_normal((11, 8)) * (rng.random((11, 8)) < 0.4)
    return from_matrix(sp.csr_array(matrix), np.array([0, 1, 4, 6, 11]))


STRUCTURES = {
    "none": lambda rng: None,
    "line": lambda rng: grid(int(rng.integers(2, 30))),
    "masked picture": lambda rng: grid(a_mask(rng, (4, 5)), voxel_size=tuple(rng.uniform(0.3, 3, 2))),
    "labelled volume": lambda rng: grid(a_mask(rng, (3, 3, 4), labels=2)),
    "periodic rows": lambda rng: grid((4, 5), isotropic=False, periodic=(False, True)),
    "four axes": lambda rng: grid((2, 2, 3, 2)),
    "mesh, edges": lambda rng: a_mesh(rng, "edges"),
    "mesh, gradient": lambda rng: a_mesh(rng, "gradient"),
    "mesh, fem": lambda rng: a_mesh(rng, "fem"),
    "graph": lambda rng: a_graph(rng, isotropic=True),
    "anisotropic graph": lambda rng: a_graph(rng, isotropic=False),
    "overlapping groups": lambda rng: some_groups(rng, 10),
    "stack": lambda rng: stack([grid((3, 4)), some_groups(rng, 12)], [1.0, 0.5]),
    "concat": lambda rng: concat([grid(5), a_mesh(rng, "edges"), some_groups(rng, 6)]),
    "matrix": a_matrix,
}


def a_problem(structure, rng, scale):
    """A random problem; y, weights and delta are multiples of the scale where F is homogeneous."""
    made = STRUCTURES[structure](rng)
    y = scale * rng.standard_normal(made.n_features if made is not None else 7)
    penalty = ["tv", "tv", "graphnet", HuberTV(0.1 * scale)][rng.integers(4)]
    weight = rng.choice([0.05, 0.5, 3.0]) * (1.0 if penalty == "graphnet" else scale)
    l1 = rng.choice([0.0, 0.1, 0.7]) * scale
    return LoadingProblem(y, made, l1=l1, tv=weight, positive=bool(rng.integers(2)), penalty=penalty)


def objective_and_bound(problem, v, alpha):
    """F(v) of (3.1b) and D(alpha) of (3.10a), in 80-bit floats; alpha is made feasible first."""
    y, v, alpha = (np.asarray(vector).astype(LONG) for vector in (problem.y, v, alpha))
    A, bounds = problem.structure.matrix.toarray().astype(LONG), problem.structure.group_ptr
    c, k = LONG(problem.tv), LONG(problem.l1)
    if problem.penalty != "graphnet":  # K: groups of norm 1 or less
        for begin, end in pairwise(bounds):
            alpha[begin:end] /= max(LONG(1), np.sqrt((alpha[begin:end] ** 2).sum()))
    rows = A @ v
    norms = np.array([np.sqrt((part**2).sum()) for part in np.split(rows, bounds[1:-1])])
    squares = (alpha**2).sum()
    if problem.penalty == "tv":
        h, conjugate = norms.sum(), LONG(0)
    elif problem.penalty == "graphnet":
        h, conjugate = (rows**2).sum(), squares / 4
    else:
        delta = LONG(problem.penalty.delta)
        h = np.where(norms <= delta, norms**2 / (2 * delta), norms - delta / 2).sum()
        conjugate = delta / 2 * squares
    z = y - c * (A.T @ alpha)
    thresholded = np.maximum(z - k, 0) if problem.positive else np.maximum(np.abs(z) - k, 0)
    F = ((v - y) ** 2).sum() / 2 + (v**2).sum() / 2 + c * h + k * np.abs(v).sum()
    return F, (y**2).sum() / 2 - (thresholded**2).sum() / 4 - c * conjugate


CASES = [(structure, method) for structure in STRUCTURES for method in ("pdhg float64", *METHODS[1:4])]
CASES += [(structure, "pdhg float32") for structure in STRUCTURES if structure != "none"]
CASES += [("none", "closed_form")]


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # a few iterations must do
@pytest.mark.parametrize(("structure", "method"), CASES)
def test_what_a_solver_certifies_is_true(structure, method):
    name, *dtype = method.split()
    options = {"dtype": dtype[0]} if dtype and structure != "none" else {}
    for number, scale in enumerate(SCALES):
        problem = a_problem(structure, np.random.default_rng([number, len(structure)]), scale)
        solution = solve(problem, name, tol=1e-5, max_iter=300, **options)
        F, D = objective_and_bound(problem, solution.v, solution.alpha)
        unit = (problem.y.astype(LONG) ** 2).sum() / 2
        assert abs(F - LONG(solution.value)) <= 1e-12 * F
        assert abs((F - D) - LONG(solution.gap)) <= 1e-9 * (F - D) + 1e-13 * unit
        assert LONG(solution.error_bound) ** 2 >= (F - D) - 1e-13 * unit
        assert solution.relative_gap == pytest.approx(float((F - D) / unit), rel=1e-6, abs=1e-12)
        assert solution.status.success == (solution.relative_gap <= 1e-5)
        if problem.positive:
            assert (solution.v >= 0).all()


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(("dtype", "largest"), [("float32", 100), ("float64", 460)])
def test_what_a_fit_certifies_is_true(structure, dtype, largest):
    """The distance of a fitted loading to the best one for its scores, which a second solver finds."""
    rng = np.random.default_rng([len(structure), largest])
    made = STRUCTURES[structure](rng)
    X = rng.standard_normal((8, made.n_features if made is not None else 7)).astype(dtype)
    exponent = int(rng.integers(-largest, largest))
    model = SPCATV(1, structure=made, alpha=0.1, center=False, tol=1e-5).fit(np.ldexp(X, exponent))
    [record], [v] = model.diagnostics_, model.components_.astype(np.float64)
    l1, l2, tv = (float(np.ldexp(weight, -exponent)) for weight in (model.l1_, model.l2_, model.tv_))
    X = X.astype(np.float64)
    u = X @ v / np.linalg.norm(X @ v)
    problem = LoadingProblem(X.T @ u / (len(X) * l2), made, l1=l1 / l2, tv=tv / l2)
    best = solve(problem, "dual", tol=1e-12, max_iter=100_000)
    _, D = objective_and_bound(problem, best.v, best.alpha)
    least = l2 * (D - problem.scale())  # no v has a lower objective
    objective = LONG(np.ldexp(record.objective, -exponent))
    rounding = 1e-6 if dtype == "float32" else 1e-9
    assert np.linalg.norm(v - best.v / np.linalg.norm(best.v)) <= record.error_bound + rounding
    assert -rounding <= (objective - least) / abs(least) <= l2 * record.gap / abs(least) + rounding
