"""Where components start, and how they are scaled and signed."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spcatv.data import CentredData, DeflatedData, as_data
from spcatv.decomposition import LoadingPenalty, Plan, WarmStart, Weights, decompose
from spcatv.decomposition.component import unit_loading
from spcatv.structure import grid


@given(arrays(np.float64, st.integers(1, 12), elements=st.sampled_from([-2.0, -1.0, 0.0, 1.0, 2.0])))
def test_unit_loadings_have_length_one_and_a_positive_peak(v):
    unit = unit_loading(v)
    assert not np.signbit(unit[unit == 0]).any()  # -0 would be printed and written
    if not v.any():
        assert not unit.any()
        return
    assert np.linalg.norm(unit) == pytest.approx(1.0)
    assert unit[np.argmax(np.abs(v))] > 0
    np.testing.assert_allclose(np.abs(unit) * np.linalg.norm(v), np.abs(v), atol=1e-15)


def _model(alpha):
    return LoadingPenalty(
        grid(np.ones((12, 12), dtype=bool)), Weights(l1=0.2 * alpha, l2=0.4 * alpha, tv=0.4 * alpha)
    )


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = 0.5 * rng.standard_normal((40, 12, 12))
    X[:, 1:6, 1:6] += 2.0 * rng.standard_normal((40, 1, 1))
    X[:, 6:11, 5:11] += 1.5 * rng.standard_normal((40, 1, 1))
    return CentredData(as_data(X.reshape(40, 144)))


def _fit(data, alpha, warm_start=None):
    plan = Plan(1e-10, 500, "auto", np.float64, "svd", 1, False, keep_warm_start=True)
    rng = np.random.RandomState(0)
    return decompose(data, [_model(alpha)] * 2, plan, rng=rng, warm_start=warm_start)


def _components(decomposition):
    return list(decomposition.fitted)


def _residual(data, decomposition):
    """The data without the first component."""
    first = decomposition.fitted[0]
    length = np.linalg.norm(first.v)
    return DeflatedData(data, first.scores_norm / length * first.u[None], first.v[None] / length)


def test_two_settings_point_to_the_third(data):
    alphas = 0.05 * 1.05 ** np.arange(3)
    older, last, target = (_fit(data, alpha) for alpha in alphas)
    residual, model = _residual(data, target), _model(alphas[2])
    aim = target.fitted[1]
    aim_y = model.problem_at(residual.transpose_dot(aim.u) / (residual.shape[0] * model.weights.l2)).y
    near = WarmStart(last.fitted).component_start(1, residual, model.weights.l2)
    straight = WarmStart(last.fitted, older.fitted, 1.0).component_start(1, residual, model.weights.l2)
    assert np.linalg.norm(near.v - aim.v) <= 0.02 * np.linalg.norm(aim.v)
    assert np.linalg.norm(near.y - aim_y) <= 1e-4 * np.linalg.norm(aim_y)
    assert np.linalg.norm(straight.v - aim.v) <= 0.2 * np.linalg.norm(near.v - aim.v)
    assert np.linalg.norm(straight.y - aim_y) <= 0.5 * np.linalg.norm(near.y - aim_y)
    np.testing.assert_allclose(straight.dual, 2 * last.fitted[1].dual - older.fitted[1].dual, atol=1e-12)


def test_the_start_needs_no_older_setting_that_points_elsewhere(data):
    older, last = _fit(data, 0.05), _fit(data, 0.06)
    flipped = [replace(component, u=-component.u) for component in older.fitted]
    residual, model = _residual(data, last), _model(0.07)
    alone = WarmStart(last.fitted).component_start(1, residual, model.weights.l2)
    for warm_start in (WarmStart(last.fitted, flipped, 1.0), WarmStart(last.fitted, older.fitted[:1], 1.0)):
        start = warm_start.component_start(1, residual, model.weights.l2)
        np.testing.assert_array_equal(start.v, alone.v)
        np.testing.assert_array_equal(start.y, alone.y)


def test_a_component_that_is_not_there_is_no_start(data):
    last = _fit(data, 0.05)
    assert WarmStart(last.fitted).component_start(2, _residual(data, last), _model(0.06).weights.l2) is None


def test_a_good_start_needs_one_alternation_and_reports_what_it_lost(data):
    older, last = _fit(data, 0.05), _fit(data, 0.0501)
    after = _fit(data, 0.0502, WarmStart(last.fitted, older.fitted, 1.0))
    cold = _fit(data, 0.0502)
    for warm, alone in zip(_components(after), _components(cold), strict=True):
        assert warm.converged
        assert warm.n_alternations == 1 < alone.n_alternations
        assert warm.n_inner_iter < alone.n_inner_iter
        assert alone.first_loss == 0
    assert all(component.first_loss >= 0 for component in _components(after))
    far = _fit(data, 0.15, WarmStart(last.fitted))
    assert _components(far)[1].first_loss > _components(after)[1].first_loss
