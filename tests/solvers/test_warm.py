"""Warm solvers start from any given point, and certify where they end."""

import numpy as np
import pytest

from spcatv.problem import LoadingProblem
from spcatv.solvers import solve
from spcatv.solvers.pdhg import warm_solver
from spcatv.structure import grid


def _problem(penalty="tv", positive=False, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(120)
    y[40:80] += 3.0
    structure = grid(np.ones((10, 12), dtype=bool))
    return LoadingProblem(y, structure, l1=0.3, tv=0.7, penalty=penalty, positive=positive)


@pytest.mark.parametrize("method", ["auto", "conesta", "dual"])
@pytest.mark.parametrize("penalty", ["tv", "graphnet"])
def test_the_dual_variable_to_start_from_need_not_be_feasible(method, penalty):
    problem = _problem(penalty)
    solver = warm_solver(method, True, np.float64)
    rng = np.random.default_rng(1)
    # three times too long: taken as it is, it would make the gap look smaller than it is, even negative
    solver.restart_from(rng.standard_normal(120), 3.0 * rng.standard_normal(problem.structure.n_rows))
    step = solver.step(problem, 1e-8 * problem.scale())
    assert step.gap <= 1e-8 * problem.scale()
    assert problem.gap(step.v, solver.dual()) == pytest.approx(step.gap, rel=1e-6, abs=1e-12)
    np.testing.assert_allclose(step.v, solve(problem, tol=1e-10).v, atol=1e-3)


def test_a_dual_variable_outside_of_its_set_is_not_taken_for_an_answer():
    problem = _problem()
    near = solve(problem, tol=1e-4)
    solver = warm_solver("auto", True, np.float64)
    # there alpha'Av exceeds h(Av): by first order, where the rest of the gap grows by second order
    solver.restart_from(near.v, 1.01 * near.alpha)
    step = solver.step(problem, 1e-7 * problem.scale())
    assert step.n_iter > 10
    assert problem.gap(step.v, solver.dual()) <= 1e-7 * problem.scale()


def test_a_feasible_answer_is_seen_at_once():
    problem = _problem()
    answer = solve(problem, tol=1e-8)
    assert solve(problem, "pdhg", tol=1e-6, v0=answer.v, alpha0=answer.alpha).n_iter == 0


@pytest.mark.parametrize("method", ["auto", "conesta", "dual"])
def test_problems_without_structured_penalty_have_a_closed_form(method):
    y = np.array([3.0, -1.0, 0.2, -2.0])
    solver = warm_solver(method, False, np.float32)
    for l1 in (0.4, 1.5):
        step = solver.step(LoadingProblem(y, grid(4), l1=l1), 1e-12)
        np.testing.assert_array_equal(step.v, np.sign(y) * np.maximum(np.abs(y) - l1, 0) / 2)
        assert (step.gap, step.n_iter) == (0, 1)
        np.testing.assert_array_equal(solver.dual(), np.zeros(3))
    structured = solver.step(LoadingProblem(y, grid(4), l1=0.4, tv=0.5), 1e-6)
    assert structured.status.success
    assert structured.n_iter > 1
