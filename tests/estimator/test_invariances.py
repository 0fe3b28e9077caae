"""Changes of the data that must not change the components, or only as they should."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spcatv import SPCATV
from spcatv.structure import from_matrix, grid

pytestmark = pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
SHAPE = (6, 7)
WAYS = [{"sparsity": 0.6, "smoothness": 0.5}, {"alpha": 0.2}, {"alpha": 0.2, "penalty": "graphnet"}]
seeds = st.integers(0, 2**32 - 1)
ways = st.sampled_from(WAYS)
few = settings(max_examples=6)


def blocks(rng, n_samples=15):
    """Pictures with two blocks of pixels, each with scores of its own, and noise."""
    X = 0.2 * rng.standard_normal((n_samples, *SHAPE))
    X[:, 1:4, 1:4] += 3 * rng.standard_normal((n_samples, 1, 1))
    X[:, 3:6, 4:7] += 2 * rng.standard_normal((n_samples, 1, 1))
    return X.reshape(n_samples, -1)


def fit(X, structure=None, **parameters):
    structure = grid(SHAPE) if structure is None else structure
    return SPCATV(2, structure=structure, tol=1e-9, **parameters).fit(X)


def assert_same(one, other, atol=1e-3):
    np.testing.assert_allclose(one, other, atol=atol)


@few
@given(seeds, ways)
def test_the_order_of_samples(seed, way):
    rng = np.random.default_rng(seed)
    X, order = blocks(rng), rng.permutation(15)
    one, other = fit(X, **way), fit(X[order], **way)
    assert_same(other.components_, one.components_)
    assert_same(other.transform(X), one.transform(X), atol=0.05)


@few
@given(seeds, ways)
def test_the_order_of_features_with_their_structure(seed, way):
    rng = np.random.default_rng(seed)
    X, order = blocks(rng), rng.permutation(42)
    structure = grid(SHAPE)
    permuted = from_matrix(structure.matrix[:, order], structure.group_ptr)
    one, other = fit(X, structure, **way), fit(X[:, order], permuted, **way)
    assert_same(np.abs(other.components_), np.abs(one.components_[:, order]))


@few
@given(seeds, ways)
def test_the_order_of_axes(seed, way):
    X = blocks(np.random.default_rng(seed))
    turned = X.reshape(-1, *SHAPE).transpose(0, 2, 1).reshape(len(X), -1)
    one, other = fit(X, **way), fit(turned, grid(SHAPE[::-1]), **way)
    back = other.components_.reshape(-1, *SHAPE[::-1]).transpose(0, 2, 1).reshape(2, -1)
    assert_same(np.abs(back), np.abs(one.components_))


@few
@given(seeds, ways)
def test_a_mirror_where_every_row_is_a_group(seed, way):
    X = blocks(np.random.default_rng(seed))
    structure = grid(SHAPE, isotropic=False)
    one, other = fit(X, structure, **way), fit(X[:, ::-1], structure, **way)
    assert_same(np.abs(other.components_[:, ::-1]), np.abs(one.components_))


@few
@given(seeds, ways)
def test_the_sign_of_the_data(seed, way):
    X = blocks(np.random.default_rng(seed))
    one, other = fit(X, **way), fit(-X, **way)
    assert_same(other.components_, one.components_)
    assert_same(other.transform(-X), -one.transform(X), atol=0.05)


@few
@given(seeds, ways, st.floats(-1, 1), st.sampled_from([("float32", 28), ("float64", 180)]))
@example(91684, {"alpha": 0.2}, 1.0, ("float32", 28))  # its long alternation magnifies rounding
def test_the_unit_of_the_data(seed, way, share, precision):
    dtype, largest = precision
    exponent = int(share * largest)
    X = blocks(np.random.default_rng(seed)).astype(dtype)
    one, other = fit(X, **way), fit(np.ldexp(X, exponent), **way)
    np.testing.assert_array_equal(other.components_, one.components_)
    scores = np.ldexp(other.transform(np.ldexp(X, exponent)), -exponent)
    assert_same(scores, one.transform(X), atol=1e-6 if dtype == "float32" else 1e-12)


@few
@given(seeds, ways)
def test_a_rotation_of_samples(seed, way):
    rng = np.random.default_rng(seed)
    X, Q = blocks(rng), np.linalg.qr(rng.standard_normal((15, 15)))[0]
    one, other = fit(X, center=False, **way), fit(Q @ X, center=False, **way)
    assert_same(other.components_, one.components_)
    assert_same(other.explained_variance_, one.explained_variance_)


@few
@given(seeds, ways)
def test_an_offset_of_every_feature(seed, way):
    rng = np.random.default_rng(seed)
    X, offset = blocks(rng), 10 * rng.standard_normal(42)
    one, other = fit(X, **way), fit(X + offset, **way)
    assert_same(other.components_, one.components_)
    assert_same(other.mean_, one.mean_ + offset, atol=1e-12)


@few
@given(seeds, ways)
def test_every_sample_twice(seed, way):
    X = blocks(np.random.default_rng(seed))
    one, other = fit(X, **way), fit(np.repeat(X, 2, axis=0), **way)
    assert_same(other.components_, one.components_)
    assert_same(other.explained_variance_ratio_, one.explained_variance_ratio_)
