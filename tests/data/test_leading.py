"""What PCA explains, against scikit-learn's."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from spcatv.data.leading import pca_cumulative_variance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(20, 300), (300, 20), (150, 200)], ids=["wide", "tall", "by products"])
def test_ceiling_is_that_of_pca(shape, dtype):
    X = (np.random.default_rng(0).standard_normal(shape) * np.linspace(1, 3, shape[1]) + 5).astype(dtype)
    expected = np.cumsum(PCA(4).fit(X.astype(float)).explained_variance_ratio_)
    assert pca_cumulative_variance(X, 4) == pytest.approx(expected, rel=1e-4)


def test_more_components_than_there_are_directions():
    X = np.random.default_rng(1).standard_normal((3, 10))
    found = pca_cumulative_variance(X, 5)
    assert found == pytest.approx([found[0], 1, 1, 1, 1], abs=1e-9)
    assert 0.5 <= found[0] < 1


def test_without_centring_the_mean_counts():
    X = np.random.default_rng(2).standard_normal((30, 40)) + 3
    expected = np.linalg.svd(X, compute_uv=False)[:2] ** 2 / np.square(X).sum()
    assert pca_cumulative_variance(X, 2, center=False) == pytest.approx(np.cumsum(expected))


def test_data_without_variance():
    assert pca_cumulative_variance(np.ones((4, 6)), 2).tolist() == [0, 0]
