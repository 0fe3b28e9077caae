"""The one rule for bad features, by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nilearn")

from spcatv.images.features import drop_columns, find_bad


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 12))
def test_found_as_column_by_column(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    X = rng.choice([0.0, 1.0, 1.0, np.nan, np.inf], p=[0.2, 0.5, 0.2, 0.05, 0.05], size=(n_rows, n_columns))
    bad = find_bad(X)
    for column in range(n_columns):
        finite = np.isfinite(X[:, column]).all()
        assert bad.not_finite[column] == (not finite)
        assert bad.constant[column] == (finite and np.ptp(X[:, column]) == 0)
    rows = [row for row in range(n_rows) if not np.isfinite(X[row]).all()]
    assert bad.first_row == (rows[0] if rows else None)


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 9))
def test_columns_are_dropped_within_the_same_memory(seed, n_rows, n_columns):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns))
    kept = rng.random(n_columns) < 0.6
    expected = X[:, kept].copy()
    found = drop_columns(X, kept)
    assert np.array_equal(found, expected)
    assert found.size == 0 or np.shares_memory(found, X)
    assert found.flags.c_contiguous
