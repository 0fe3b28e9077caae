"""The one rule for bad features, by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nilearn")

from spcatv.images.features import drop_columns, find_bad


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 12))
def test_found_as_feature_by_feature(seed, n_samples, n_features):
    rng = np.random.default_rng(seed)
    X = rng.choice(
        [0.0, 1.0, 1.0, np.nan, np.inf], p=[0.2, 0.5, 0.2, 0.05, 0.05], size=(n_samples, n_features)
    )
    bad = find_bad(X)
    for feature in range(n_features):
        finite = np.isfinite(X[:, feature]).all()
        assert bad.not_finite[feature] == (not finite)
        assert bad.constant[feature] == (finite and np.ptp(X[:, feature]) == 0)
    samples = [number for number in range(n_samples) if not np.isfinite(X[number]).all()]
    assert bad.first_sample == (samples[0] if samples else None)


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 9))
def test_features_are_dropped_within_the_same_memory(seed, n_samples, n_features):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    kept = rng.random(n_features) < 0.6
    expected = X[:, kept].copy()
    found = drop_columns(X, kept)
    assert np.array_equal(found, expected)
    assert found.size == 0 or np.shares_memory(found, X)
    assert found.flags.c_contiguous
