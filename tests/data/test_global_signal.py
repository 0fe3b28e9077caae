"""Data without their global signal against the regression written out."""

import numpy as np
import pytest

from spcatv.data import CentredData, DeflatedData, as_data


def _data(shape, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    signal = np.outer(rng.standard_normal(shape[0]), rng.uniform(0.5, 2, shape[1]))
    return (rng.standard_normal(shape) + 3 + signal).astype(dtype)


def without_signal(X, center=True):
    return CentredData(as_data(X), center).without_global_signal()


def regressed(X, center=True):
    """Residuals of the columns of X, after centring, of a least-squares fit to the means of the rows."""
    X = X.astype(np.float64)
    X = X - X.mean(axis=0) if center else X
    g = X.mean(axis=1)
    return X - np.outer(g, np.linalg.lstsq(g[:, None], X, rcond=None)[0])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("shape", [(7, 30), (30, 7), (5, 5)])
@pytest.mark.parametrize("center", [True, False])
def test_the_operator_is_the_regressed_matrix(shape, dtype, center):
    X = _data(shape, dtype)
    operator, exact = without_signal(X, center), regressed(X, center)
    rng = np.random.default_rng(1)
    u, v, V = rng.standard_normal(shape[0]), rng.standard_normal(shape[1]), rng.standard_normal((3, shape[1]))
    shift = rng.standard_normal(shape[0])
    np.testing.assert_allclose(operator.dot(v), exact @ v, atol=1e-11)
    np.testing.assert_allclose(operator.dot_many(V), exact @ V.T, atol=1e-11)
    np.testing.assert_allclose(operator.transpose_dot(u), exact.T @ u, atol=1e-11)
    there, back = operator._there_and_back(v[None], shift[:, None])
    np.testing.assert_allclose(there[:, 0], exact @ v - shift, atol=1e-11)
    np.testing.assert_allclose(back[0], exact.T @ (exact @ v - shift), atol=1e-10)
    blocks = np.concatenate([block for _, block in operator.blocks(2 * shape[1])])
    np.testing.assert_allclose(blocks, exact, atol=1e-12)
    np.testing.assert_allclose(operator.column_squared_norms, (exact**2).sum(axis=0), rtol=1e-9)
    assert operator.largest_column_norm == pytest.approx(np.linalg.norm(exact, axis=0).max(), rel=1e-10)
    assert operator.squared_norm() == pytest.approx((exact**2).sum(), rel=1e-10)
    gram = exact @ exact.T if shape[0] <= shape[1] else exact.T @ exact
    np.testing.assert_allclose(operator.gram(), gram, atol=1e-9 if dtype == "float64" else 1e-3)


@pytest.mark.parametrize("shape", [(6, 20), (20, 6)])
def test_it_can_be_deflated(shape):
    X = _data(shape)
    v = np.random.default_rng(2).standard_normal(shape[1])
    v /= np.linalg.norm(v)
    operator, exact = without_signal(X), regressed(X)
    deflated = DeflatedData(operator, operator.dot(v)[None], v[None])
    left = exact - np.outer(exact @ v, v)
    w = np.arange(float(shape[1]))
    np.testing.assert_allclose(deflated.there_and_back(w)[1], left.T @ (left @ w), atol=1e-8)
    gram = left @ left.T if shape[0] <= shape[1] else left.T @ left
    np.testing.assert_allclose(deflated.gram(), gram, atol=1e-10)
    assert deflated.squared_norm() == pytest.approx((left**2).sum())


def test_rows_have_mean_zero_and_columns_do_not_follow_the_signal():
    X = _data((12, 40))
    operator = without_signal(X)
    np.testing.assert_allclose(operator.dot(np.ones(40)), 0, atol=1e-12)
    np.testing.assert_allclose(operator.transpose_dot((X - X.mean(axis=0)).mean(axis=1)), 0, atol=1e-12)
    assert operator.centring.global_loading.mean() == pytest.approx(1)


def test_samples_that_were_not_seen_are_treated_with_their_own_mean_and_the_coefficients_of_the_others():
    X, new = _data((12, 40)), _data((3, 40), seed=5)
    centring = without_signal(X).centring
    centred = new - X.mean(axis=0)
    expected = centred - np.outer(centred.mean(axis=1), centring.global_loading)
    np.testing.assert_allclose(centring.apply(new), expected, atol=1e-13)
    np.testing.assert_allclose(CentredData(as_data(X)).centring.apply(new), centred, atol=1e-13)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_row_means_that_are_constant_up_to_rounding_are_no_signal(dtype):
    X = _data((12, 40)) + 100
    X = (X - X.mean(axis=1, keepdims=True)).astype(dtype)
    operator = without_signal(X)
    assert not operator.centring.global_loading.any()
    assert not operator.is_empty
    v = np.arange(40.0)
    np.testing.assert_array_equal(operator.dot(v), CentredData(as_data(X)).dot(v))


def test_it_reports_when_it_leaves_nothing():
    scores = np.arange(6.0)[:, None]
    assert without_signal(scores).is_empty
    assert without_signal(scores * np.array([1.0, 2.0, 5.0])).is_empty
    assert not without_signal(scores * np.array([1.0, -1.0])).is_empty
    assert not without_signal(np.ones((6, 3))).is_empty  # there was nothing to begin with
