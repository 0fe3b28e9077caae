"""alpha from the share of zeros: the target is met, or the bracket proves that it is jumped over."""

import numpy as np
import pytest
from sklearn.base import clone

from spcatv import SPCATV
from spcatv.estimator import NullComponentWarning
from spcatv.selection import alpha_for_sparsity
from spcatv.selection.sparsity import fit_alphas


@pytest.fixture(scope="module")
def images():
    """50 images of 16 x 16: three overlapping blobs with scores of their own, and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 16, 16))
    for rows, columns, size in ((slice(1, 7), slice(1, 9), 3), (slice(8, 15), slice(7, 15), 2)):
        X[:, rows, columns] += size * rng.standard_normal((50, 1, 1))
    return X.reshape(50, 256)


@pytest.mark.parametrize("target", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("options", [{}, {"structure": (16, 16), "penalty": "graphnet"}])
def test_smooth_penalties_reach_any_target(images, target, options):
    estimator = SPCATV(2, alpha=7.0, **options)
    choice = alpha_for_sparsity(estimator, images, target)
    assert choice.reached
    assert np.mean(choice.model.components_ == 0) == pytest.approx(target, abs=0.01)
    assert choice.sparsity == (np.mean(choice.model.components_ == 0),)
    assert choice.model.alpha == choice.alphas[0]
    assert type(choice.model) is SPCATV
    assert (estimator.alpha, hasattr(estimator, "components_")) == (7.0, False)
    cold = clone(choice.model).fit(images)
    np.testing.assert_allclose(cold.components_, choice.model.components_, atol=0.02)


def test_every_step_is_on_the_record(images):
    choice = alpha_for_sparsity(SPCATV(1, structure=(16, 16)), images, 0.7, tol=1e-3)
    (search,) = choice.searches
    assert search.chosen in search.evaluations
    assert search.below.sparsity < 0.7 <= search.above.sparsity
    assert search.below.alpha < search.above.alpha
    assert all(step.relative_gap <= 1e-6 for step in search.evaluations)
    # what is surely not zero is not zero
    assert all(step.sparsity <= step.sparsity_bound for step in search.evaluations)
    closest = min(abs(step.sparsity - 0.7) for step in search.evaluations)
    assert abs(search.chosen.sparsity - 0.7) == closest


def test_a_jump_is_reported_as_one():
    # a flat block leaves as a whole: there is no loading with 95 % zeros between the block and nothing
    X = np.zeros((10, 40))
    X[:, :10] = np.random.default_rng(0).standard_normal((10, 1))
    choice = alpha_for_sparsity(SPCATV(1, structure=(40,), tv_ratio=0.7, l1_ratio=0.1), X, 0.95)
    (search,) = choice.searches
    assert not choice.reached
    assert not search.reached
    assert (search.below.sparsity, search.above.sparsity) == (0.75, 1.0)
    assert search.above.alpha / search.below.alpha <= 1 + 1e-3
    # the model that lives is handed back, though nothing at all would be closer to the target
    assert search.chosen.sparsity == 0.75
    assert choice.model.components_.any()
    X[:, 39] = 1e-3 * np.arange(10)
    below = alpha_for_sparsity(SPCATV(1, structure=(40,), tv_ratio=0.7, l1_ratio=0.1), X, 0.01, max_fits=3)
    assert below.searches[0].below is None
    assert len(below.searches[0].evaluations) == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [True, False])
def test_one_share_a_component(images, dtype, center):
    X = (images + 3.0).astype(dtype)
    targets = (0.8, 0.7, 0.9)
    choice = alpha_for_sparsity(SPCATV(3, center=center), X, targets)
    model = choice.model
    assert choice.reached
    np.testing.assert_allclose(np.mean(model.components_ == 0, axis=1), targets, atol=0.01)
    np.testing.assert_allclose(choice.sparsity, np.mean(model.components_ == 0, axis=1))
    assert len(choice.searches) == 3
    assert model.components_.dtype == dtype
    # scores, variances and weights are those of any other model
    scores = model.transform(X)
    np.testing.assert_allclose(np.linalg.norm(scores, axis=0), model.singular_values_, rtol=1e-4)
    residual = X - model.inverse_transform(scores)
    total = ((X - X.mean(axis=0)) ** 2).sum() if center else (X.astype(float) ** 2).sum()
    explained = 1 - (residual.astype(float) ** 2).sum() / total
    assert model.explained_variance_ratio_.sum() == pytest.approx(explained, abs=1e-4)
    unit = np.linalg.norm(X - (X.mean(axis=0) if center else 0), axis=0).max() / len(X)
    np.testing.assert_allclose(model.l1_ + model.l2_ + model.tv_, np.array(choice.alphas) * unit, rtol=1e-5)
    assert model.alpha == choice.alphas


def test_equal_alphas_are_a_plain_fit(images):
    for units, alpha in (("relative", 0.2), ("absolute", 0.02)):
        estimator = SPCATV(2, structure=(16, 16), alpha=alpha, penalty_units=units, tol=1e-10)
        plain = clone(estimator).fit(images)
        one_by_one = fit_alphas(estimator, images, [alpha] * 2)
        np.testing.assert_array_equal(one_by_one.components_, plain.components_)
        np.testing.assert_allclose(one_by_one.singular_values_, plain.singular_values_, rtol=1e-4)
        np.testing.assert_allclose(one_by_one.explained_variance_, plain.explained_variance_, rtol=1e-4)
        np.testing.assert_array_equal(one_by_one.l1_, [plain.l1_] * 2)
        np.testing.assert_allclose(one_by_one.transform(images), plain.transform(images), atol=0.05)
        assert one_by_one.alpha == (alpha, alpha)


def test_given_loadings_go_to_their_components(images):
    start = SPCATV(2, structure=(16, 16)).fit(images).components_
    estimator = SPCATV(2, structure=(16, 16), init=start[::-1].copy(), alpha=0.3)
    plain = clone(estimator).fit(images)
    np.testing.assert_array_equal(fit_alphas(estimator, images, [0.3, 0.3]).components_, plain.components_)


def test_nothing_left_is_said():
    X = np.zeros((10, 40))
    X[:, :10] = np.random.default_rng(0).standard_normal((10, 10))
    X[:, 1:10] = 0
    with pytest.warns(NullComponentWarning, match=r"1 of 2 components are zero \(number 2\)"):
        choice = alpha_for_sparsity(SPCATV(2), X, [0.5, 0.5])
    assert not choice.reached


def test_wrong_targets_are_refused_before_any_work(images):
    for sparsity in (0.0, 1.0, 1.5, float("nan"), [0.5, 1.0, 0.5]):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            alpha_for_sparsity(SPCATV(3), images, sparsity)
    with pytest.raises(ValueError, match="one for each of the 3 components"):
        alpha_for_sparsity(SPCATV(3), images, [0.5, 0.5])
    with pytest.raises(ValueError, match="l1_ratio is 0"):
        alpha_for_sparsity(SPCATV(l1_ratio=0.0), images, 0.5)
    with pytest.raises(ValueError, match="refine=True"):
        alpha_for_sparsity(SPCATV(2, refine=True), images, [0.5, 0.5])
    with pytest.raises(ValueError, match="one for each of the 2 components"):
        fit_alphas(SPCATV(2), images, [0.5])
    for limits in ({"tol": 0}, {"alpha_precision": 0}, {"max_fits": 0}):
        with pytest.raises(ValueError, match=next(iter(limits))):
            alpha_for_sparsity(SPCATV(1), images, 0.5, **limits)
