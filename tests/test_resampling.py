"""Resampled fits: a second route with plain loops, workers that change nothing, regions found again."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.metrics import dice, match_components, threshold_loadings
from spcatv.selection import FailedFitWarning
from spcatv.solvers import solve
from spcatv.stability import REFIT_TOL, bootstrap_components


@pytest.fixture(scope="module")
def signals():
    """40 signals of 60 points: two blocks of opposite sign and one weak one, another component, and noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60))
    scores = rng.standard_normal((40, 1))
    # which of the first two is the larger, and gives the component its sign, is a matter of the sample
    X[:, 10:20] += 2 * scores
    X[:, 30:40] -= 2 * scores
    X[:, 55:60] += 0.6 * scores
    X[:, 43:50] += 1.5 * rng.standard_normal((40, 1))
    return X


@pytest.fixture(scope="module")
def estimator():
    return SPCATV(2, structure=(60,), alpha=0.2, tv_ratio=0.3)


@pytest.fixture(scope="module")
def result(estimator, signals):
    return bootstrap_components(estimator, signals, n_resamples=12, random_state=7)


def drawn_rows(seed, n_resamples, n_blocks):
    for child in np.random.SeedSequence(seed).spawn(n_resamples):
        yield np.random.default_rng(child).integers(0, n_blocks, size=n_blocks)


def test_plain_loops_are_the_second_route(result, estimator, signals):
    reference = SPCATV(2, structure=(60,), alpha=0.2, tv_ratio=0.3).fit(signals)
    assert_array_equal(result.components, reference.components_)
    wanted = threshold_loadings(reference.components_)
    signs, indices = [], []
    for rows in drawn_rows(7, 12, 40):
        model = SPCATV(2, structure=(60,), alpha=0.2, tv_ratio=0.3, tol=REFIT_TOL).fit(signals[rows])
        match = match_components(reference.components_, model.components_)
        matched = match.sign[:, None] * threshold_loadings(model.components_)[match.order]
        signs.append(np.sign(matched))
        indices.append((dice(wanted, matched), dice(wanted, matched, signed=True), match.cosine))
    signs = np.array(signs)
    assert_allclose(result.selection_frequency, np.mean(signs != 0, axis=0))
    selected = np.maximum((signs != 0).sum(axis=0), 1)
    assert_allclose(result.sign_consistency, np.abs(signs.sum(axis=0)) / selected)
    measures = (result.dice, result.signed_dice, result.cosine)
    for ours, theirs in zip(measures, zip(*indices, strict=True), strict=True):
        assert_allclose(ours, theirs)
    for region in result.regions:
        agree = signs[:, region.component, region.features] == region.sign
        assert region.bootstrap_frequency == np.mean(agree.mean(axis=1) >= 0.5)
        frequency = result.selection_frequency[region.component, region.features]
        assert region.selection_frequency == pytest.approx(frequency.mean())


def test_regions_cover_the_reference(result):
    wanted = threshold_loadings(result.components)
    for number in range(2):
        mine = [region for region in result.regions if region.component == number]
        covered = np.sort(np.concatenate([region.features for region in mine]))
        assert_array_equal(covered, np.flatnonzero(wanted[number]))
        assert sum(region.share for region in mine) == pytest.approx(1)
        for region in mine:
            assert (np.sign(wanted[number, region.features]) == region.sign).all()
    for region, block in zip(result.regions, (range(10, 20), range(30, 40)), strict=False):
        assert set(block) & set(region.features.tolist())
        assert region.bootstrap_frequency == 1
    # signs are aligned, whichever block is the larger in a resample
    assert (result.sign_consistency[0, [15, 35]] == 1).all()


def test_workers_change_no_bit(result, estimator, signals):
    together = bootstrap_components(estimator, signals, n_resamples=12, random_state=7, n_jobs=2)
    for name in ("selection_frequency", "sign_consistency", "dice", "signed_dice", "cosine"):
        assert_array_equal(getattr(result, name), getattr(together, name))
    assert [region.bootstrap_frequency for region in result.regions] == [
        region.bootstrap_frequency for region in together.regions
    ]
    other = bootstrap_components(estimator, signals, n_resamples=12, random_state=8)
    assert (other.dice != result.dice).any()


def test_random_starts_follow_the_seed(signals):
    reference = SPCATV(1, structure=(60,), init="random").fit(signals)
    one = bootstrap_components(reference, signals, n_resamples=3, random_state=1)
    two = bootstrap_components(reference, signals, n_resamples=3, random_state=1)
    assert_array_equal(one.cosine, two.cosine)


def test_a_fitted_model_is_the_reference(signals):
    fitted = SPCATV(1, structure=(60,), alpha=0.3).fit(signals)
    before = fitted.components_.copy()
    result = bootstrap_components(fitted, signals, n_resamples=2, random_state=0)
    assert result.components is fitted.components_
    assert_array_equal(fitted.components_, before)


def test_groups_are_drawn_whole(signals):
    groups = np.repeat(["a", "b", "c", "d", "e"], 8)
    result = bootstrap_components(
        SPCATV(1, structure=(60,), alpha=0.3), signals, n_resamples=3, groups=groups, random_state=2
    )
    blocks = [np.flatnonzero(groups == label) for label in "abcde"]
    for k, drawn in enumerate(drawn_rows(2, 3, 5)):
        samples = signals[np.concatenate([blocks[b] for b in drawn])]
        model = SPCATV(1, structure=(60,), alpha=0.3, tol=REFIT_TOL).fit(samples)
        assert result.cosine[k] == pytest.approx(
            match_components(result.components, model.components_).cosine
        )


def test_components_may_have_a_sparsity_each(signals):
    estimator = SPCATV(2, alpha=None, sparsity=(0.8, 0.6))
    result = bootstrap_components(estimator, signals, n_resamples=4, random_state=0)
    reference = SPCATV(2, alpha=None, sparsity=(0.8, 0.6)).fit(signals)
    assert_array_equal(result.components, reference.components_)
    for k, rows in enumerate(drawn_rows(0, 4, 40)):
        model = SPCATV(2, alpha=None, sparsity=(0.8, 0.6), tol=REFIT_TOL).fit(signals[rows])
        match = match_components(reference.components_, model.components_)
        assert_allclose(result.cosine[k], match.cosine)


class FailsOften:
    """A solver that fails on resamples without the first row, whose last feature is huge."""

    def __call__(self, problem, **options):
        if abs(problem.y[-1]) < 1e-9:
            raise RuntimeError("no last feature")
        return solve(problem, method="pdhg", **options)


def test_failed_resamples_are_named_and_left_out(signals):
    X = np.column_stack([signals, np.zeros(40)])
    X[0, -1] = 1.0
    estimator = SPCATV(1, alpha=0.1, tv_ratio=0.1, structure=(61,), solver=FailsOften())
    without = [k for k, rows in enumerate(drawn_rows(0, 10, 40)) if 0 not in rows]
    assert 0 < len(without) < 10
    with pytest.warns(FailedFitWarning, match=rf"resample {without[0] + 1}: RuntimeError: no last feature"):
        result = bootstrap_components(estimator, X, n_resamples=10, random_state=0)
    assert len(result.failures) == len(without)
    assert len(result.dice) == 10 - len(without)

    def never(problem, **options):
        raise ValueError("no")

    reference = SPCATV(1, structure=(61,)).fit(X).set_params(solver=never)
    with pytest.raises(ValueError, match="every fit failed; the first: resample 1: ValueError: no"):
        bootstrap_components(reference, X, n_resamples=2)


def test_wrong_arguments(estimator, signals):
    with pytest.raises(ValueError, match="n_resamples must be"):
        bootstrap_components(estimator, signals, n_resamples=0)
    with pytest.raises(ValueError, match=r"one label per sample, shape \(40,\)"):
        bootstrap_components(estimator, signals, groups=[1, 2])
