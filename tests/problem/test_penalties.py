"""The penalties and their names; `spcatv.testing.check_penalty` checks their identities."""

import numpy as np
import pytest
from own_penalty import Squares

from spcatv.problem import (
    PENALTIES,
    GraphNet,
    HuberTV,
    LoadingProblem,
    StructuredPenalty,
    TotalVariation,
    as_penalty,
)
from spcatv.solvers import solve
from spcatv.structure import grid, groups


def test_names_and_objects_are_the_same_penalties():
    assert PENALTIES == ("tv", "graphnet")
    assert as_penalty("tv") == TotalVariation()
    assert as_penalty("graphnet") == GraphNet()
    own = HuberTV(0.2)
    assert as_penalty(own) is own


@pytest.mark.parametrize("wrong", ["ridge", None, ["tv"], TotalVariation])
def test_unknown_penalties_are_refused(wrong):
    with pytest.raises(ValueError, match=r"unknown penalty .*; choose one of tv, graphnet, or give a Struct"):
        LoadingProblem(np.ones(4), grid(4), penalty=wrong)


@pytest.mark.parametrize("delta", [0.0, -1.0, np.nan, np.inf])
def test_delta_must_be_a_positive_number(delta):
    with pytest.raises(ValueError, match="delta must be a finite number > 0, got"):
        HuberTV(delta)


def test_a_name_and_its_object_give_the_same_answer():
    y = np.random.default_rng(0).normal(size=12)
    for name in PENALTIES:
        one, two = (
            solve(LoadingProblem(y, grid((3, 4)), l1=0.1, tv=0.3, penalty=penalty))
            for penalty in (name, as_penalty(name))
        )
        np.testing.assert_array_equal(one.v, two.v)


@pytest.mark.parametrize(("weight", "difference"), [(1.0, 1 / 6), (0.6, 0.4)])
def test_huber_on_two_features_by_hand(weight, difference):
    """``2 v = y -+ c huber'(d)`` for ``d = v_1 - v_2``: the slope is ``d / delta`` up to delta, then 1."""
    problem = LoadingProblem(np.array([3.0, 1.0]), grid(2), tv=weight, penalty=HuberTV(0.2))
    v = solve(problem, tol=1e-12).v
    assert v[0] - v[1] == pytest.approx(difference, abs=1e-6)
    assert v.sum() == pytest.approx(2.0, abs=1e-6)


def test_huber_lies_between_total_variation_and_a_quadratic():
    structure = groups([[0, 1, 2], [2, 3, 4, 5]], 6)
    rows = np.random.default_rng(1).normal(size=structure.n_rows)
    tv, quadratic = TotalVariation().value(structure, rows), GraphNet().value(structure, rows)
    for delta in (1e-6, 0.3, 2.0, 1e3):
        value = HuberTV(delta).value(structure, rows)
        assert tv - 0.5 * delta * structure.n_groups <= value * (1 + 1e-12) <= tv * (1 + 2e-12)
        assert value <= quadratic / (2 * delta) * (1 + 1e-12)
    assert HuberTV(1e-9).value(structure, rows) == pytest.approx(tv, rel=1e-8)
    assert HuberTV(1e3).value(structure, rows) == pytest.approx(quadratic / 2e3)


def test_with_a_large_delta_the_answer_is_that_of_graphnet():
    y = np.random.default_rng(2).normal(size=20)
    delta = 50.0
    huber = LoadingProblem(y, grid((4, 5)), l1=0.1, tv=2 * delta * 0.3, penalty=HuberTV(delta))
    graphnet = LoadingProblem(y, grid((4, 5)), l1=0.1, tv=0.3, penalty="graphnet")
    for method in ("pdhg", "dual", "conesta"):
        answer = solve(huber, method, tol=1e-9)
        np.testing.assert_allclose(answer.v, solve(graphnet, tol=1e-12).v, atol=2e-4)


def test_a_slack_near_zero_keeps_its_digits():
    """Close to the maximiser ``h + h* - dual'z`` would be nothing but rounding."""
    structure, rows, off = grid(2), np.array([0.5]), 1e-10
    assert GraphNet().slack(structure, rows, 2 * rows + off) == pytest.approx(off**2 / 4, rel=1e-5)
    assert HuberTV(2.0).slack(structure, rows, rows / 2 + off) == pytest.approx(off**2, rel=1e-5)


def test_the_base_class_fills_in_what_can_be_derived():
    """A penalty that defines only the six abstract methods."""

    class Own(Squares):
        dual_point = StructuredPenalty.dual_point
        smoothed_lipschitz = StructuredPenalty.smoothed_lipschitz
        quadratic = StructuredPenalty.quadratic

    y = np.random.default_rng(3).normal(size=12)
    own = LoadingProblem(y, grid((3, 4)), l1=0.1, tv=0.3, penalty=Own())
    graphnet = LoadingProblem(y, grid((3, 4)), l1=0.1, tv=0.3, penalty="graphnet")
    for method in ("pdhg", "dual"):
        np.testing.assert_allclose(solve(own, method, tol=1e-11).v, solve(graphnet, tol=1e-12).v, atol=1e-5)


def test_a_dual_variable_outside_of_its_set_is_refused_by_any_penalty():
    """The check of the base class, which compares with the projection."""

    class Box(HuberTV):
        check_feasible = StructuredPenalty.check_feasible
        value_and_slack = StructuredPenalty.value_and_slack

    problem = LoadingProblem(np.ones(3), grid(3), tv=0.1, penalty=Box(0.1))
    with pytest.raises(
        ValueError, match=r"not dual feasible: it is 0\.2 away from its projection; project it"
    ):
        problem.gap(np.ones(3), np.array([0.5, 1.2]))
    assert problem.gap(np.ones(3), problem.feasible(np.array([0.5, 1.2]))) > 0
