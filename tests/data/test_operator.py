"""X as an operator against the matrix written out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spcatv.data import CentredData, CorrectedData, DeflatedData, as_data


def _data(n_rows, n_columns, dtype="float64", order="C", seed=0):
    rng = np.random.default_rng(seed)
    return np.array(rng.standard_normal((n_rows, n_columns)) + 5, dtype=dtype, order=order)


def _written_out(operator, entries=1 << 16):
    return np.concatenate([block for _, block in operator.blocks(entries)])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(7, 30), (30, 7), (5, 5)])
@pytest.mark.parametrize("center", [True, False])
def test_centred_matrix_is_the_centred_matrix(shape, order, dtype, center):
    X = _data(*shape, dtype=dtype, order=order)
    matrix = CentredData(as_data(X), center=center)
    exact = X.astype(np.float64)
    if center:
        exact = exact - exact.mean(axis=0)
    rng = np.random.default_rng(1)
    u, v = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    np.testing.assert_allclose(matrix.dot(v), exact @ v, atol=1e-11)
    np.testing.assert_allclose(matrix.transpose_dot(u), exact.T @ u, atol=1e-11)
    np.testing.assert_allclose(_written_out(matrix, 2 * shape[1]), exact, atol=1e-12)
    assert matrix.largest_column_norm == pytest.approx(np.linalg.norm(exact, axis=0).max(), rel=1e-12)
    assert matrix.squared_norm() == pytest.approx((exact**2).sum(), rel=1e-12)
    gram = exact @ exact.T if shape[0] <= shape[1] else exact.T @ exact
    np.testing.assert_allclose(matrix.gram(), gram, atol=1e-10 if dtype == "float64" else 1e-4)
    there, back = matrix.there_and_back(v)
    np.testing.assert_allclose(there, exact @ v, atol=1e-11)
    np.testing.assert_allclose(back, exact.T @ (exact @ v), atol=1e-10)


def test_strided_views_are_the_same_data():
    X = _data(20, 30, dtype="float32")[::2, ::3]
    exact = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    v = np.arange(10.0)
    np.testing.assert_allclose(CentredData(as_data(X)).dot(v), exact @ v, atol=1e-10)
    np.testing.assert_allclose(CentredData(as_data(X)).transpose_dot(v), exact.T @ v, atol=1e-10)


def test_large_means_do_not_cost_digits():
    X = _data(50, 20, seed=3) + 1e6
    exact = X - X.mean(axis=0)
    assert np.abs(_written_out(CentredData(as_data(X))).mean(axis=0)).max() < 1e-9
    assert CentredData(as_data(X)).largest_column_norm == pytest.approx(
        np.linalg.norm(exact, axis=0).max(), rel=1e-9
    )


@given(
    n_rows=st.integers(2, 12),
    n_columns=st.integers(1, 12),
    n_terms=st.integers(0, 3),
    center=st.booleans(),
    seed=st.integers(0, 99),
)
def test_corrected_data_are_the_matrix_less_its_terms(n_rows, n_columns, n_terms, center, seed):
    X = _data(n_rows, n_columns, seed=seed)
    rng = np.random.default_rng(seed)
    scores, loadings = rng.standard_normal((n_terms, n_rows)), rng.standard_normal((n_terms, n_columns))
    residual = CentredData(CorrectedData(as_data(X), scores.T, loadings), center)
    exact = X - scores.T @ loadings
    exact = exact - exact.mean(axis=0) if center else exact
    u, v = rng.standard_normal(n_rows), rng.standard_normal(n_columns)
    np.testing.assert_allclose(residual.dot(v), exact @ v, atol=1e-9)
    np.testing.assert_allclose(residual.transpose_dot(u), exact.T @ u, atol=1e-9)
    np.testing.assert_allclose(_written_out(residual), exact, atol=1e-10)
    there, back = residual.there_and_back(v)
    np.testing.assert_allclose(there, exact @ v, atol=1e-9)
    np.testing.assert_allclose(back, exact.T @ (exact @ v), atol=1e-8)
    assert residual.squared_norm() == pytest.approx((exact**2).sum(), abs=1e-9)
    gram = exact @ exact.T if n_rows <= n_columns else exact.T @ exact
    np.testing.assert_allclose(residual.gram(), gram, atol=1e-9)


@pytest.mark.parametrize("shape", [(8, 30), (30, 8)])
def test_deflation_needs_no_products(shape):
    X = _data(*shape)
    base = CentredData(as_data(X))
    rng = np.random.default_rng(8)
    scores, loadings = [], []
    for _ in range(3):
        loading = rng.standard_normal(shape[1])
        loading /= np.linalg.norm(loading)
        left = DeflatedData(
            base, np.array(scores).reshape(-1, shape[0]), np.array(loadings).reshape(-1, shape[1])
        )
        scores.append(left.dot(loading))
        loadings.append(loading)
    terms = np.array(scores), np.array(loadings)
    deflated = DeflatedData(base, *terms)
    left = X - X.mean(axis=0) - terms[0].T @ terms[1]
    assert deflated.squared_norm() == pytest.approx(np.square(left).sum(), rel=1e-10)
    gram = left @ left.T if shape[0] <= shape[1] else left.T @ left
    np.testing.assert_allclose(deflated.gram(), gram, atol=1e-9)
    u = rng.standard_normal(shape[0])
    back = deflated.transpose_dot(u)
    deflated.add_removed(u, 1.0, back)
    np.testing.assert_allclose(back, base.transpose_dot(u), atol=1e-11)


def test_blocks_do_not_show():
    rng = np.random.default_rng(7)
    X = rng.standard_normal((40, 5000)).astype(np.float32)
    exact = X.astype(np.float64) - X.astype(np.float64).mean(axis=0)
    v = rng.standard_normal(5000)
    there, back = CentredData(as_data(X)).there_and_back(v)
    np.testing.assert_allclose(there, exact @ v, atol=1e-9)
    np.testing.assert_allclose(back, exact.T @ (exact @ v), atol=1e-7)
    np.testing.assert_allclose(CentredData(as_data(X)).gram(), exact @ exact.T, atol=1e-2)
