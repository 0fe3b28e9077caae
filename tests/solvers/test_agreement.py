"""Every method against a conic solver, on every kind of structure (small instances)."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from cvxpy_reference import minimise

from spcatv.problem import HuberTV, LoadingProblem
from spcatv.solvers import METHODS, solve
from spcatv.structure import concat, graph, grid, groups, icosphere, mesh, stack

pytestmark = pytest.mark.no_cover  # hundreds of solutions, each of the same lines
ITERATIVE = [method for method in METHODS if method != "closed_form"]
# F >= scale / 2, so this relative gap gives an objective within 6e-7
TOL = 3e-7
# what the conic solver itself may be wrong by, in v (its objective is good to 1e-9)
REFERENCE_V = 1e-5


def mask(shape, seed):
    inside = np.random.default_rng(seed).random(shape) < 0.75
    inside[(0,) * len(shape)] = True
    return inside


def small_graph():
    upper = sp.random_array((16, 16), density=0.15, rng=np.random.default_rng(3), format="csr")
    return graph(upper + upper.T)


def cap(scheme):
    """Part of an ellipsoid: a surface with a boundary, 35 vertices."""
    coords, triangles = icosphere(1)
    return mesh(coords * [1.0, 1.3, 0.8], triangles, mask=coords[:, 2] < 0.6, scheme=scheme)


STRUCTURES = {
    "1-D grid": lambda: grid((20,)),
    "2-D masked grid": lambda: grid(mask((5, 6), seed=0)),
    "3-D masked grid": lambda: grid(mask((3, 3, 4), seed=1), voxel_size=(1.0, 1.0, 2.0)),
    "anisotropic periodic grid": lambda: grid((4, 5), isotropic=False, periodic=(False, True)),
    "mesh, edges": lambda: cap("edges"),
    "mesh, gradient": lambda: cap("gradient"),
    "mesh, fem": lambda: cap("fem"),
    "graph": small_graph,
    "overlapping groups": lambda: groups([[0, 1, 2, 3], [2, 3, 4, 5, 6], [6, 7], [8, 9, 0]], 12),
    "stack": lambda: stack(
        [grid((12,)), groups([[0, 1, 2, 3], [3, 4, 5, 6], [8, 9, 10, 11]], 12)], [1.0, 0.5]
    ),
    "concat": lambda: concat([cap("edges"), grid((2, 3)), grid(mask((2, 4), seed=2))]),
}
SETTINGS = {
    "tv": {"tv": 0.5},
    "tv, l1": {"tv": 0.5, "l1": 0.4},
    "tv, positive": {"tv": 0.5, "positive": True},
    "tv, l1, positive": {"tv": 0.5, "l1": 0.4, "positive": True},
    "graphnet, l1": {"tv": 0.5, "l1": 0.4, "penalty": "graphnet"},
    "graphnet, positive": {"tv": 0.5, "positive": True, "penalty": "graphnet"},
    "huber, l1": {"tv": 0.5, "l1": 0.4, "penalty": HuberTV(0.25)},
    "huber, positive": {"tv": 0.5, "positive": True, "penalty": HuberTV(0.05)},
}


@cache
def instance(structure, setting):
    """The problem and the conic solver's answer, made once for all methods."""
    made = STRUCTURES[structure]()
    rng = np.random.default_rng(len(structure))
    y = np.where(np.arange(made.n_features) % 9 < 5, 2.0, -1.0) + rng.normal(size=made.n_features)
    problem = LoadingProblem(y, made, **SETTINGS[setting])
    return problem, *minimise(problem)


# every second pair of a structure and a setting: each structure has four settings, and the others are slow
PAIRS = [
    pytest.param(structure, setting, marks=[pytest.mark.slow] if (row + column) % 2 else [])
    for row, structure in enumerate(STRUCTURES)
    for column, setting in enumerate(SETTINGS)
]


@pytest.mark.parametrize(("structure", "setting"), PAIRS)
@pytest.mark.parametrize("method", ITERATIVE)
def test_method_agrees_with_the_conic_solver(structure, setting, method):
    problem, v, value = instance(structure, setting)
    solution = solve(problem, method, tol=TOL, max_iter=200_000)
    assert solution.status.success
    assert solution.value == pytest.approx(value, rel=1e-6)
    assert solution.value - value <= solution.gap + 1e-9 * value
    assert np.linalg.norm(solution.v - v) <= solution.error_bound + REFERENCE_V
    if problem.positive:
        assert solution.v.min() >= 0


@pytest.mark.parametrize("structure", ["2-D masked grid", "stack"])
def test_paper_gap_leads_conesta_to_the_same_answer(structure):
    problem, v, value = instance(structure, "tv, l1")
    solution = solve(problem, "conesta", tol=TOL, max_iter=200_000, gap="paper")
    assert solution.value == pytest.approx(value, rel=1e-6)
    assert np.linalg.norm(solution.v - v) <= solution.error_bound + REFERENCE_V


def test_the_settings_are_not_trivial():
    """The instances have structure to find: plateaus, zeros and jumps, not a constant or nothing."""
    problem, v, _ = instance("2-D masked grid", "tv, l1")
    jumps = np.abs(problem.structure.forward(v))
    assert 0 < (jumps > 1e-6).mean() < 0.9
    assert 0 < (np.abs(v) > 1e-6).mean() < 1
