"""The alternation: certified, monotone, and right where the answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from spcatv.data import CentredData, as_data
from spcatv.data.leading import singular_scores
from spcatv.decomposition import LoadingPenalty, Weights
from spcatv.decomposition.alternation import Limits, alternate
from spcatv.decomposition.component import Component, empty_component
from spcatv.decomposition.deflation import best_component
from spcatv.solvers import solve
from spcatv.structure import from_matrix, grid, groups, mesh
from spcatv.structure.mesh import icosphere


def _start(data, name):
    """A leading singular vector, or one between the first two, from which there is a way to go."""
    first, second = singular_scores(data, 2)
    return {"first": first, "second": second, "between": 0.6 * first + 0.8 * second}[name]


def _fit(
    X,
    structure,
    weights,
    *,
    tol=1e-8,
    method="auto",
    positive=False,
    penalty="tv",
    start="first",
    max_iter=300,
):
    data = CentredData(as_data(X))
    model = LoadingPenalty(structure, weights, penalty=penalty, positive=positive)
    u = _start(data, start)
    solver = model.solver(method, np.float64)
    return alternate(data, model, u, Limits(tol, max_iter), solver=solver), data, model


def _assert_certified(component: Component, data, model, tol):
    scores = data.dot(component.v)
    np.testing.assert_allclose(component.u, scores / np.linalg.norm(scores), atol=1e-12)
    problem = model.problem_at(data.transpose_dot(component.u) / (data.shape[0] * model.weights.l2))
    gap = problem.gap(component.v, component.dual)
    assert gap == pytest.approx(component.gap, rel=1e-9)
    assert gap <= tol * problem.scale()
    centred = np.concatenate([block for _, block in data.blocks()])
    objective = -component.u @ centred @ component.v / data.shape[0] + model.value(component.v)
    assert component.objective == pytest.approx(objective, rel=1e-9)


CASES = {
    "chain": (grid(60), {}),
    "chain, graphnet": (grid(60), {"penalty": "graphnet"}),
    "chain, positive": (grid(60), {"positive": True}),
    "image": (grid((6, 10)), {}),
    "anisotropic": (grid((6, 10), isotropic=False), {}),
    "groups": (groups([range(i, i + 5) for i in range(0, 56, 4)], 60), {}),
    "none": (from_matrix(np.zeros((0, 60))), {}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("start", ["first", "second", "between"])
def test_every_step_lowers_the_objective_and_the_end_is_certified(striped, name, start):
    structure, options = CASES[name]
    component, data, model = _fit(striped, structure, Weights(0.05, 0.02, 0.08), start=start, **options)
    assert component.converged
    _assert_certified(component, data, model, tol=1e-8)
    rise = np.diff(component.objectives)
    assert (rise <= np.array(component.inexactness)[1:] + 1e-12).all()


@pytest.mark.parametrize("method", ["pdhg", "dual", "conesta", "fista"])
def test_all_solvers_find_the_same_component(striped, method):
    weights = Weights(0.05, 0.02, 0.08)
    reference = _fit(striped, grid(60), weights, tol=1e-10)[0]
    tol = 1e-5 if method in ("conesta", "fista") else 1e-9
    component, data, model = _fit(striped, grid(60), weights, tol=tol, method=method)
    _assert_certified(component, data, model, tol)
    assert component.objective == pytest.approx(reference.objective, rel=10 * tol)


def test_without_structure_it_is_the_closed_form_alternation(striped):
    l1, l2 = 0.08, 0.03
    component, data, _ = _fit(striped, grid(60), Weights(l1, l2, 0.0), tol=1e-14)
    X = striped - striped.mean(axis=0)
    u = singular_scores(data, 1)[0]
    for _ in range(500):
        y = X.T @ u / (len(X) * l2)
        v = np.sign(y) * np.maximum(np.abs(y) - l1 / l2, 0) / 2
        u = X @ v / np.linalg.norm(X @ v)
    np.testing.assert_allclose(component.v, v, atol=1e-6 * np.abs(v).max())
    assert (component.v == 0).any()


def test_the_length_is_set_by_l2_and_the_direction_is_not(striped):
    one = _fit(striped, grid(60), Weights(0.05, 0.02, 0.08), tol=1e-12)[0]
    other = _fit(striped, grid(60), Weights(0.05, 0.2, 0.08), tol=1e-12)[0]
    np.testing.assert_allclose(one.v, 10 * other.v, rtol=1e-4, atol=1e-4 * np.abs(one.v).max())


def test_scaling_the_data_and_the_weights_scales_nothing_else(striped):
    one = _fit(striped, grid(60), Weights(0.05, 0.02, 0.08), tol=1e-12)[0]
    other = _fit(1e3 * striped, grid(60), Weights(50, 20, 80), tol=1e-12)[0]
    np.testing.assert_allclose(one.v, other.v, rtol=1e-5, atol=1e-5 * np.abs(one.v).max())


def test_permuted_features_with_a_permuted_structure_give_the_permuted_loading(striped):
    order = np.random.default_rng(1).permutation(60)
    structure = grid(60)
    permuted = from_matrix(structure.matrix[:, order], structure.group_ptr)
    one = _fit(striped, structure, Weights(0.05, 0.02, 0.08), tol=1e-11)[0]
    other = _fit(striped[:, order], permuted, Weights(0.05, 0.02, 0.08), tol=1e-11)[0]
    scale = np.abs(one.v).max()
    sign = np.sign(one.v @ other.v[np.argsort(order)])
    np.testing.assert_allclose(one.v[order], sign * other.v, atol=1e-4 * scale)


def test_a_killed_start_gives_an_empty_component(striped):
    component, _, _ = _fit(striped, grid(60), Weights(10.0, 1.0, 1.0))
    assert component.is_empty
    assert component.converged
    assert not component.u.any()


def test_the_best_start_wins(striped):
    data = CentredData(as_data(striped))
    model = LoadingPenalty(grid(60), Weights(0.05, 0.02, 0.08))
    solver, limits = model.solver("auto", np.float64), Limits(1e-8, 200)
    starts = list(singular_scores(data, 6))
    alone = [best_component(data, model, [start], limits, solver=solver) for start in starts]
    together = best_component(data, model, starts, limits, solver=solver)
    assert together.objective <= min(component.objective for component in alone) * (1 - 1e-6) + 1e-12
    assert together.converged


def test_a_listener_can_stop_the_alternation(striped):
    heard = []

    class Listener:
        def hear(self, event):
            heard.append(event)
            return event.number == 2

    data = CentredData(as_data(striped))
    model = LoadingPenalty(grid(60), Weights(0.05, 0.02, 0.08))
    component = alternate(
        data,
        model,
        _start(data, "between"),
        Limits(1e-12, 100, listener=Listener()),
        solver=model.solver("auto", np.float64),
    )
    assert component.n_alternations == 2
    assert not component.converged
    assert [event.number for event in heard] == [1, 2]
    assert heard[-1].objective == component.objective


def test_float32_state_is_certified_in_float64():
    coords, triangles = icosphere(3)
    structure = mesh(coords, triangles)
    rng = np.random.default_rng(2)
    X = 0.3 * rng.standard_normal((20, len(coords)))
    X[:, coords[:, 2] > 0.6] += rng.standard_normal((20, 1))
    data = CentredData(as_data(X.astype(np.float32)))
    model = LoadingPenalty(structure, Weights(0.01, 0.01, 0.02))
    component = alternate(
        data,
        model,
        singular_scores(data, 1)[0],
        Limits(1e-11, 300),
        solver=model.solver("auto", np.float32),
    )
    _assert_certified(component, data, model, 1e-11)


def test_empty_component_has_the_shape_of_the_data(striped):
    component = empty_component(striped.shape)
    assert component.is_empty
    assert component.v.shape == (60,)
    assert component.u.shape == (40,)
    assert component.n_alternations == 0


@pytest.mark.parametrize("weight", [1e3, 1e5])
def test_no_component_is_worse_than_none(striped, weight):
    chain = grid(60, voxel_size=1 / weight)
    for start in ("first", "second", "between"):
        component, _, _ = _fit(striped, chain, Weights(0.02, 0.02, 0.02), tol=1e-6, start=start)
        assert component.objective <= 0
        assert component.converged


def test_a_zero_that_is_not_certified_does_not_count_as_converged(striped):
    def lazy(problem, **options):
        solution = solve(problem, "dual", **options)
        return replace(solution, v=0 * solution.v)

    component, _, _ = _fit(striped, grid(60), Weights(0.05, 0.02, 0.08), method=lazy)
    assert component.is_empty
    assert not component.converged
    assert component.gap > 1e-3 * component.scale


@pytest.mark.parametrize("sketched", [False, True])
def test_pushes_do_not_lead_uphill(sketched):
    # smooth noise, in which many directions explain as much: an early rule let pushes raise the objective by
    # 1e-5 of the scale again and again
    rng = np.random.default_rng(2)
    X = gaussian_filter(rng.standard_normal((60, 24, 24)), (0, 1.5, 1.5)).reshape(60, -1)
    data = CentredData(as_data(X / X.std()))
    model = LoadingPenalty(grid((24, 24)), Weights(l1=0.015, l2=0.03, tv=0.021))
    sketch = data.compressed(3) if sketched else None
    solver = model.solver("auto", np.float64)
    found = alternate(
        data, model, singular_scores(data, 1)[0], Limits(1e-8, 300), solver=solver, sketch=sketch
    )
    assert found.converged
    assert np.diff(found.objectives).max() <= 1e-7 * model.weights.l2 * found.scale
