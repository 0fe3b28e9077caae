"""Where components start, and how they are scaled and signed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spcatv.data.centred import CentredMatrix, DeflatedMatrix
from spcatv.decomposition import Plan, Trail, decompose
from spcatv.decomposition.alternation import PenaltyModel, Weights
from spcatv.decomposition.greedy import unit_loading
from spcatv.structure import grid


@given(arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])))
def test_unit_loadings_have_length_one_and_a_positive_peak(v):
    unit = unit_loading(v)
    if not v.any():
        assert not unit.any()
        assert not np.signbit(unit).any()
        return
    assert np.linalg.norm(unit) == pytest.approx(1.0)
    assert unit[np.argmax(np.abs(v))] > 0
    np.testing.assert_allclose(np.abs(unit) * np.linalg.norm(v), np.abs(v), atol=1e-15)


def _model(alpha):
    return PenaltyModel(
        grid(np.ones((12, 12), dtype=bool)), Weights(l1=0.2 * alpha, l2=0.4 * alpha, tv=0.4 * alpha)
    )


@pytest.fixture(scope="module")
def matrix():
    rng = np.random.default_rng(0)
    X = 0.5 * rng.standard_normal((40, 12, 12))
    X[:, 1:6, 1:6] += 2.0 * rng.standard_normal((40, 1, 1))
    X[:, 6:11, 5:11] += 1.5 * rng.standard_normal((40, 1, 1))
    return CentredMatrix(X.reshape(40, 144))


def _fit(matrix, alpha, trail=None):
    plan = Plan(2, 1e-10, 500, "auto", np.float64, "svd", 1, False, on_path=True, trail=trail)
    rng = np.random.RandomState(0)
    return decompose(matrix, _model(alpha), plan, rng=rng)


def _residual(matrix, decomposition):
    """The data without the first component."""
    first = decomposition.greedy[0]
    length = np.linalg.norm(first.v)
    return DeflatedMatrix(matrix, first.scores_norm / length * first.u[None], first.v[None] / length)


def test_two_settings_point_to_the_third(matrix):
    alphas = 0.05 * 1.05 ** np.arange(3)
    older, last, target = (_fit(matrix, alpha) for alpha in alphas)
    residual, model = _residual(matrix, target), _model(alphas[2])
    aim = target.greedy[1]
    aim_y = model.problem(residual, aim.u).y
    near = Trail(last).neighbour(1, residual, model)
    straight = Trail(last, older, 1.0).neighbour(1, residual, model)
    assert np.linalg.norm(near.v - aim.v) <= 0.02 * np.linalg.norm(aim.v)
    assert np.linalg.norm(near.y - aim_y) <= 1e-4 * np.linalg.norm(aim_y)
    assert np.linalg.norm(straight.v - aim.v) <= 0.2 * np.linalg.norm(near.v - aim.v)
    assert np.linalg.norm(straight.y - aim_y) <= 0.5 * np.linalg.norm(near.y - aim_y)
    np.testing.assert_allclose(straight.alpha, 2 * last.greedy[1].alpha - older.greedy[1].alpha, atol=1e-12)


def test_the_start_needs_no_older_setting_that_points_elsewhere(matrix):
    older, last = _fit(matrix, 0.05), _fit(matrix, 0.06)
    flipped = replace(older, greedy=tuple(replace(c, u=-c.u) for c in older.greedy))
    residual, model = _residual(matrix, last), _model(0.07)
    alone = Trail(last).neighbour(1, residual, model)
    for trail in (Trail(last, flipped, 1.0), Trail(last, replace(older, greedy=older.greedy[:1]), 1.0)):
        start = trail.neighbour(1, residual, model)
        np.testing.assert_array_equal(start.v, alone.v)
        np.testing.assert_array_equal(start.y, alone.y)


def test_a_component_that_is_not_there_is_no_start(matrix):
    last = _fit(matrix, 0.05)
    assert Trail(last).neighbour(2, _residual(matrix, last), _model(0.06)) is None


def test_a_good_start_needs_one_alternation_and_tells_what_it_lost(matrix):
    older, last = _fit(matrix, 0.05), _fit(matrix, 0.0501)
    after = _fit(matrix, 0.0502, Trail(last, older, 1.0))
    cold = _fit(matrix, 0.0502)
    for warm, alone in zip(after.greedy, cold.greedy, strict=True):
        assert warm.converged
        assert warm.n_alternations == 1 < alone.n_alternations
        assert warm.n_inner_iter < alone.n_inner_iter
        assert alone.first_loss == 0
    assert all(component.first_loss >= 0 for component in after.greedy)
    far = _fit(matrix, 0.15, Trail(last))
    assert far.greedy[1].first_loss > after.greedy[1].first_loss
