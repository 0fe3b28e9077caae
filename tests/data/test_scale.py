"""Data of any magnitude: the same components in other units, or an error before any work."""

from __future__ import annotations

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.data import as_data
from spcatv.data.leading import pca_cumulative_variance
from spcatv.data.operator import scaled
from spcatv.problem import HuberTV
from spcatv.testing import check_data

SHAPE = (12, 30)


def samples(dtype=np.float64):
    rng = np.random.default_rng(0)
    blocks = np.repeat(rng.standard_normal((2, 3)), 10, axis=1)
    return (rng.standard_normal((12, 2)) @ blocks + 0.3 * rng.standard_normal(SHAPE)).astype(dtype)


def fit(X, **parameters):
    return SPCATV(2, structure=(30,), **parameters).fit(X)


EXPONENTS = [(np.float64, -490), (np.float64, 495), (np.float32, -110), (np.float32, 65), (np.float32, 121)]


@pytest.mark.parametrize(("dtype", "exponent"), EXPONENTS)
@pytest.mark.parametrize("parameters", [{}, {"alpha": 0.1}, {"alpha": 0.1, "method": "joint"}], ids=str)
def test_components_in_other_units_are_the_same(dtype, exponent, parameters):
    # the gap between float32 fits in float32 and float64 arithmetic is far below this
    X, tol = samples(dtype), 1e-10 if dtype is np.float64 else 1e-3
    plain, other = fit(X, **parameters), fit(np.ldexp(X, exponent), **parameters)
    unit = 2.0**exponent
    np.testing.assert_allclose(other.components_, plain.components_, atol=tol)
    np.testing.assert_allclose(other.mean_ / unit, plain.mean_, atol=tol)
    np.testing.assert_allclose(other.singular_values_ / unit, plain.singular_values_, rtol=tol)
    np.testing.assert_allclose(other.explained_variance_ratio_, plain.explained_variance_ratio_, rtol=tol)
    np.testing.assert_allclose(np.asarray(other.l1_) / unit, plain.l1_, atol=tol)
    assert np.isfinite(other.explained_variance_).all()
    assert (other.explained_variance_ > 0).all()
    scores = other.transform(np.ldexp(X, exponent))
    np.testing.assert_allclose(np.linalg.norm(scores / unit, axis=0), plain.singular_values_, rtol=1e-3)
    grows = not parameters
    for there, here in zip(other.diagnostics_, plain.diagnostics_, strict=True):
        assert there.converged
        assert there.error_bound == pytest.approx(here.error_bound, abs=0.01)
        objective = there.objective / unit / (unit if grows else 1.0)
        assert objective == pytest.approx(here.objective, rel=100 * tol)


@pytest.mark.parametrize("exponent", [-195, 195])
def test_absolute_weights_count_in_the_units_of_the_data(exponent):
    plain = fit(samples(), alpha=0.01, penalty_units="absolute")
    other = fit(np.ldexp(samples(), exponent), alpha=np.ldexp(0.01, exponent), penalty_units="absolute")
    np.testing.assert_allclose(other.components_, plain.components_, atol=1e-10)
    assert other.l1_ == pytest.approx(np.ldexp(plain.l1_, exponent))


def test_bits_do_not_depend_on_the_unit_where_squares_have_room():
    X = samples()
    np.testing.assert_array_equal(fit(np.ldexp(X, 20)).components_, fit(X).components_)


@pytest.mark.parametrize(("factor", "words"), [(1e160, "too large"), (1e-170, "too small")])
def test_no_room_for_variances_is_an_error(factor, words):
    for X in (samples() * factor, np.ldexp(samples(), 0) * factor + factor):
        with pytest.raises(ValueError, match=words):
            fit(X)
    with pytest.raises(ValueError, match=words):
        pca_cumulative_variance(samples() * factor, 2)


def test_constant_data_are_not_too_small():
    with pytest.warns(UserWarning, match="do not vary"):
        model = fit(np.full(SHAPE, 1e-200))
    assert not model.components_.any()


def test_penalties_that_are_not_homogeneous_fit_at_any_scale():
    at_1e12, at_1e100 = (fit(samples() * f, penalty=HuberTV(0.1), alpha=0.1) for f in (1e12, 1e100))
    np.testing.assert_allclose(at_1e100.components_, at_1e12.components_, atol=1e-8)


@pytest.mark.parametrize("penalty", ["tv", "graphnet", HuberTV(0.3)], ids=str)
@pytest.mark.parametrize(("method", "n_init"), [("joint", 1), ("deflation", 1), ("deflation", 3)])
def test_units_of_the_data_choose_no_other_components(penalty, method, n_init):
    plain, *others = (
        fit(f * samples(), penalty=penalty, n_init=n_init, method=method, smoothness=0.3)
        for f in (1, 1e-3, 1e3)
    )
    for other in others:
        np.testing.assert_allclose(other.components_, plain.components_, atol=1e-8)


def test_huber_tv_of_any_magnitude():
    plain, other = (fit(f * samples(), penalty=HuberTV(0.3)) for f in (1.0, 2.0**400))
    np.testing.assert_allclose(other.components_, plain.components_, atol=1e-8)
    assert other.tv_ / 2.0**400 == pytest.approx(plain.tv_)


def test_scores_beyond_float32_are_an_error():
    model = fit(samples(np.float32))
    with pytest.raises(ValueError, match="beyond float32"):
        model.transform(np.full((1, 30), 3e38, np.float32))


def test_ceiling_has_no_unit():
    X = samples(np.float32)
    expected = pca_cumulative_variance(X, 3)
    np.testing.assert_allclose(pca_cumulative_variance(np.ldexp(X, 110), 3), expected, rtol=1e-4)


def test_scaled_data_are_data():
    check_data(lambda X: scaled(as_data(4.0 * X), 4.0, np.zeros(X.shape[1])))
