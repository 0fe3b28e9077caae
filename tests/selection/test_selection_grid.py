"""Strengths from which every component is empty: closed forms, proofs on both sides, and the grid below."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from spcatv import SPCATV
from spcatv.estimator import EmptyComponentWarning
from spcatv.selection import all_zero_alpha, alpha_grid, path


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((40, 12, 12))
    X[:, 2:6, 2:6] += 2.0 * rng.standard_normal((40, 1, 1))
    return X.reshape(40, 144)


def test_without_structure_it_is_the_reciprocal_of_the_l1_ratio(images):
    # max over v of ||Xv|| / ||v||_1 is the norm of the largest column: alone, it becomes zero last
    for l1_ratio in (0.1, 0.5):
        found = all_zero_alpha(SPCATV(l1_ratio=l1_ratio, tv_ratio=0.0), images)
        assert found.empty == pytest.approx(1 / l1_ratio)
        # from the first singular vector u the entry of X'u that is largest in magnitude becomes zero last
        u = np.linalg.svd(images - images.mean(axis=0))[0][:, :3]
        nonempty = np.abs((images - images.mean(axis=0)).T @ u).max() / 40 / l1_ratio
        unit = np.linalg.norm(images - images.mean(axis=0), axis=0).max() / 40
        assert nonempty / unit / 1.02 <= found.nonempty <= nonempty / unit


def test_one_block_of_features_in_closed_form():
    # rank one, constant on a block: the best direction is the block, whose margin is known
    scores = np.array([1.0, -1.0, 2.0, -2.0])
    X = np.zeros((4, 30))
    X[:, 10:20] = scores[:, None]
    l1_ratio, tv_ratio = 0.2, 0.3
    block = 10 / (10 * l1_ratio + 2 * tv_ratio)
    found = all_zero_alpha(SPCATV(structure=(30,), l1_ratio=l1_ratio, tv_ratio=tv_ratio), X)
    assert block / 1.02 <= found.nonempty <= block <= found.empty


@pytest.mark.parametrize("options", [{}, {"penalty": "graphnet"}, {"positive": True}, {"center": False}])
@pytest.mark.parametrize("units", ["relative", "absolute"])
def test_components_are_empty_above_the_limits(images, options, units):
    estimator = SPCATV(1, structure=(12, 12), penalty_units=units, **options)
    found = all_zero_alpha(estimator, images)
    assert 0 < found.nonempty <= found.empty
    for alpha, fitted in (
        (0.3 * found.nonempty, True),
        (found.nonempty, True),
        (1.03 * found.nonempty, False),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmptyComponentWarning)
            model = clone(estimator).set_params(alpha=alpha).fit(images)
        assert bool(model.components_.any()) is fitted
    # beyond, only a path may find something; and at the far end there is nothing for anybody
    with pytest.warns(EmptyComponentWarning):
        models = path(estimator, images, [{"alpha": found.empty * (1 + 1e-9)}]).models
    assert not models[0].components_.any()


def test_the_grid(images):
    grid = alpha_grid(images, (12, 12), n_alphas=5, smallest=0.1)
    found = all_zero_alpha(SPCATV(structure=(12, 12)), images)
    np.testing.assert_allclose(grid, 0.95 * found.nonempty * 10 ** np.linspace(0, -1, 5))
    np.testing.assert_allclose(grid, alpha_grid(1e3 * images, (12, 12), n_alphas=5, smallest=0.1), rtol=1e-5)


def test_what_has_no_grid_is_refused(images):
    with pytest.raises(ValueError, match="l1_ratio is 0"):
        alpha_grid(images, l1_ratio=0.0)
    with pytest.raises(ValueError, match="X has no variance"):
        alpha_grid(np.ones((5, 4)))
    with pytest.raises(ValueError, match="n_alphas must be"):
        alpha_grid(images, n_alphas=0)
    with pytest.raises(ValueError, match="smallest is a share"):
        alpha_grid(images, smallest=2)
    with pytest.raises(ValueError, match="must be below 1"):
        alpha_grid(images, l1_ratio=0.5, tv_ratio=0.6)
