"""check_solver passes every method of the package, and fails every kind of broken solver."""

import dataclasses

import numpy as np
import pytest

from spcatv.solvers import METHODS
from spcatv.solvers.dual import dual_gradient
from spcatv.testing.solvers import STRUCTURES, _check, check_solver, known_answers

# the smoothing methods need many iterations for every digit
TOL = {"conesta": 1e-7, "fista": 1e-7}
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in TOL]
OTHERS = [name for name in METHODS if name != "closed_form" and name not in TOL]


@pytest.mark.parametrize("method", ["auto", *OTHERS, *SLOW])
def test_every_method_passes(method):
    check_solver(method, tol=TOL.get(method, 1e-8))


def test_every_structure_has_its_reference():
    assert set(STRUCTURES) <= {answer.name for answer in known_answers()}
    assert all(answer.problem.y.size < 30 for answer in known_answers())


def honest(problem, tol):
    return dual_gradient(problem, tol=tol)


def without_l1(problem, tol):
    other = dataclasses.replace(problem, l1=0.0)
    answer = dual_gradient(other, tol=tol)
    return dataclasses.replace(answer, gap=problem.gap(answer.v, answer.alpha))


def never_converges(problem, tol):
    return dual_gradient(problem, tol=tol, max_iter=1) if problem.has_structure else honest(problem, tol)


def nearly_sparse(problem, tol):
    answer = honest(problem, tol)
    return dataclasses.replace(answer, v=answer.v + 1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (without_l1, "did not converge"),
        (never_converges, "'a mean: .*' did not converge: .*relative gap"),
        (nearly_sparse, "entries that are exactly 0 in the answer are not"),
    ],
)
def test_a_broken_solver_is_caught(solver, message):
    def method(problem, *, tol, max_iter, v0, alpha0):
        return solver(problem, tol)

    with pytest.raises(AssertionError, match=message):
        check_solver(method)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gap": 1e-12}, r"gap 1e-12, truly "),
        ({"value": 1.0}, r"value 1\.0, not "),
        ({"error_bound": 1e-9}, r"\|\|v - v\*\|\| is .*, beyond the error bound 1e-09"),
        ({"v": np.zeros(3)}, r"v has shape \(3,\), not \(25,\)"),
    ],
)
def test_a_false_certificate_is_caught(change, message):
    """The certificate of a built-in solver; `solve` recomputes the one of a callable anyway."""
    answer = next(answer for answer in known_answers() if answer.name == "masked 2-D grid")
    solution = dual_gradient(answer.problem, tol=1e-4)
    _check(answer, solution, tol=1e-4, objective=1e-3)
    with pytest.raises(AssertionError, match=message):
        _check(answer, dataclasses.replace(solution, **change), tol=1e-4, objective=1e-3)


def test_an_objective_that_is_off_is_caught():
    answer = next(answer for answer in known_answers() if answer.name == "masked 2-D grid")
    solution = dual_gradient(answer.problem, tol=1e-4)
    with pytest.raises(AssertionError, match=r"objective .*, but the least is"):
        _check(answer, solution, tol=1e-4)
    # a reference that is too high makes any gap look fine; one that is too low shows a gap that is too small
    too_low = answer._replace(value=answer.value * 0.99)
    with pytest.raises(AssertionError, match=r"the gap .* is below the true excess"):
        _check(too_low, solution, tol=1e-4)
