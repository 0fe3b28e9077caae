"""Random halves: a second route with plain loops, and verdicts on data whose truth is known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.data import ArrayData
from spcatv.estimator.verdicts import CERTAIN, CONFIRMED, NOT_CONFIRMED, UNCERTAIN, verdict_lines
from spcatv.metrics import dice, match_components, threshold_loadings
from spcatv.selection import FailedFitWarning
from spcatv.stability import Reproducibility, agreement, centred_data, split_halves

SHAPE = (14, 14)
pytestmark = pytest.mark.filterwarnings("ignore:the share of zeros")


def region(top, left, side=4):
    image = np.zeros(SHAPE)
    image[top : top + side, left : left + side] = 1.0
    return image.ravel()


def images(seed, n_samples=40, **strengths):
    """White noise, and regions of the given strengths with independent scores of variance 1 exactly."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, 14 * 14))
    places = {"upper": region(1, 1), "lower": region(9, 9), "third": region(1, 9)}
    for name, strength in strengths.items():
        scores = rng.standard_normal(n_samples)
        X += strength * np.outer((scores - scores.mean()) / scores.std(), places[name])
    return X


def sparse(n_components, **options):
    return SPCATV(n_components, structure=SHAPE, alpha=None, sparsity=0.92, tol=1e-4, **options)


def verdicts(result):
    return [record.verdict for record in result.reproducibility]


def halves_of(seed, n_splits, n_blocks):
    for child in np.random.SeedSequence(seed).spawn(n_splits):
        order = np.random.default_rng(child).permutation(n_blocks)
        yield np.sort(order[: n_blocks // 2]), np.sort(order[n_blocks // 2 :])


@pytest.fixture(scope="module")
def strong_and_noise():
    """A strong region, then nothing."""
    return images(0, upper=2.0)


@pytest.fixture(scope="module")
def result(strong_and_noise):
    return split_halves(sparse(2), strong_and_noise, n_splits=6, random_state=3)


def test_plain_loops_are_the_second_route(result, strong_and_noise):
    reference = sparse(2).fit(strong_and_noise).components_
    assert_array_equal(result.components, reference)
    for k, rows in enumerate(halves_of(3, 6, 40)):
        assert not np.intersect1d(*rows).size
        fits = [sparse(2).fit(strong_and_noise[half]).components_ for half in rows]
        pair = [fit[match_components(reference, fit).order] for fit in fits]
        assert_allclose(result.dice[k], dice(*pair, norm_fraction=0.99, corrected=True))
        cosine = [abs(np.dot(one, other)) for one, other in zip(*pair, strict=True)]
        assert_allclose(result.cosine[k], cosine, atol=1e-12)
    for k, record in enumerate(result.reproducibility):
        assert record.component == k
        assert record.dice == pytest.approx(result.dice[:, k].mean())
        assert record.cosine == pytest.approx(result.cosine[:, k].mean())


def test_complementary_maps_are_compared_each_with_itself():
    left = np.repeat([0.5, 0.0], 4)
    pair = np.array([left, 0.5 - left])  # their correlation is -1
    assert_allclose(agreement(pair, [pair, pair[::-1]], 0.99), 1)


def test_a_strong_region_is_confirmed_and_noise_is_not(result):
    assert verdicts(result) == [CONFIRMED, NOT_CONFIRMED]
    assert [record.outline for record in result.reproducibility] == [CERTAIN, UNCERTAIN]
    assert [record.rank for record in result.reproducibility] == [1, 2]
    assert result.reproducibility[0].dice > 0.9
    assert result.reproducibility[1].dice < 0.3


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3))
def test_equal_regions_are_confirmed_with_a_component_for_each(seed):
    X = images(seed, upper=1.5, lower=1.5)
    assert verdicts(split_halves(sparse(2), X, random_state=seed)) == [CONFIRMED, CONFIRMED]


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["joint", "deflation"])
def test_noise_is_not_confirmed(seed, method):
    from scipy.ndimage import gaussian_filter

    white = images(seed)
    # the same everywhere: at a border that reflects, the corners would be regions of equal merit
    smooth = np.array([gaussian_filter(row.reshape(SHAPE), 1.5, mode="wrap").ravel() for row in white])
    for X in (white, smooth):
        result = split_halves(sparse(2, method=method), X, random_state=seed)
        assert verdicts(result) == [NOT_CONFIRMED, NOT_CONFIRMED]


def test_noise_that_is_smoother_than_halves_can_report_is_not_confirmed():
    """The halves agree, because there are hardly more independent places than components."""
    from scipy.ndimage import gaussian_filter1d

    rng = np.random.default_rng(35)
    X = gaussian_filter1d(rng.standard_normal((200, 100)), 10, axis=1)
    model = SPCATV(3, structure=(100,), tol=1e-3)
    result = split_halves(model, X, n_splits=4, random_state=0)
    assert (result.cosine.mean(axis=0) > 0.75).any()
    assert verdicts(result) == 3 * [NOT_CONFIRMED]
    assert "noise as smooth" in result.reproducibility[0].sentence
    # a factor that stands out of this noise is confirmed
    X += np.outer(rng.standard_normal(200), np.arange(100) < 30)
    assert verdicts(split_halves(model, X, n_splits=4, random_state=0))[0] == CONFIRMED


def test_the_most_reproducible_component_has_rank_one():
    X = images(1, upper=0.8, lower=3.0)
    records = split_halves(sparse(3), X, n_splits=4, random_state=0).reproducibility
    by_dice = sorted(records, key=lambda record: -record.dice)
    assert [record.rank for record in by_dice] == [1, 2, 3]


def test_workers_and_kinds_of_data_change_no_bit(result, strong_and_noise):
    for X, n_jobs in ((strong_and_noise, 2), (ArrayData(strong_and_noise), 1)):
        other = split_halves(sparse(2), X, n_splits=6, random_state=3, n_jobs=n_jobs)
        assert_array_equal(result.dice, other.dice)
        assert_array_equal(result.cosine, other.cosine)
    assert (split_halves(sparse(2), strong_and_noise, n_splits=6, random_state=4).dice != result.dice).any()


def test_a_fitted_model_is_the_reference(strong_and_noise):
    fitted = sparse(1).fit(strong_and_noise)
    assert split_halves(fitted, strong_and_noise, n_splits=1, random_state=0).components is fitted.components_


def test_groups_stay_in_one_half(monkeypatch):
    taken = []

    def recorded(template, data):
        taken.append(data.samples)
        return centred_data(template, data)

    monkeypatch.setattr("spcatv.stability.centred_data", recorded)
    groups = np.arange(40) % 10
    split_halves(sparse(1), images(0, upper=3.0), n_splits=3, groups=groups, random_state=0, n_jobs=1)
    assert len(taken) == 6
    for one, other in zip(taken[::2], taken[1::2], strict=True):
        assert len(one) == len(other) == 20
        assert not set(groups[one]) & set(groups[other])


def test_an_empty_component_is_not_confirmed(strong_and_noise):
    killed = SPCATV(1, structure=SHAPE, alpha=10.0)
    with pytest.warns(UserWarning, match="components are empty"):
        result = split_halves(killed, strong_and_noise, n_splits=2, random_state=0)
    assert verdicts(result) == [NOT_CONFIRMED]


def record(k, dice, cosine, n_confirmed, beyond_noise=True):
    return Reproducibility(k, 1, dice, cosine, n_confirmed, 10, 30, beyond_noise)


def test_patterns_and_outlines_are_judged_apart(result):
    is_found = (result.dice >= 0.6) | (result.cosine >= 0.75)
    assert [r.n_confirmed for r in result.reproducibility] == is_found.sum(axis=0).tolist()
    assert [(r.n_splits, r.n_half) for r in result.reproducibility] == [(6, 20), (6, 20)]
    known = {(0.9, 0.9): (CONFIRMED, CERTAIN), (0.6, 0.1): (CONFIRMED, CERTAIN)}
    known |= {(0.4, 0.75): (CONFIRMED, UNCERTAIN), (0.5, 0.7): (NOT_CONFIRMED, UNCERTAIN)}
    for agreed, expected in known.items():
        judged = record(0, *agreed, 5)
        assert (judged.verdict, judged.outline) == expected
        smooth = record(0, *agreed, 5, beyond_noise=False)
        assert (smooth.verdict, smooth.outline) == (NOT_CONFIRMED, UNCERTAIN)


def test_lines_join_components_that_are_not_confirmed():
    some = [record(0, 0.9, 0.9, 10), *(record(k, 0.1, 0.2, k % 3) for k in range(1, 5))]
    first, others, what_helps = verdict_lines(some)
    assert first.startswith("Component 1: ")
    assert "10 of 10" in first
    assert others.startswith("Components 2 to 5: ")
    assert "30 samples" in others
    assert "at most 2 of 10" in others
    assert "more samples" in what_helps
    assert verdict_lines(some[:1]) == [first]
    (single, _) = verdict_lines(some[1:2])
    assert single.startswith("Component 2: ")
    assert len(verdict_lines([*some[1:3], record(3, 0.9, 0.9, 10, beyond_noise=False)])) == 3


def test_failed_splits_are_named_and_left_out(strong_and_noise):
    calls = []

    def fails_once(problem, **options):
        from spcatv.solvers import solve

        calls.append(problem)
        if len(calls) == 1:
            raise RuntimeError("no")
        return solve(problem, method="pdhg", **options)

    reference = sparse(1).fit(strong_and_noise).set_params(solver=fails_once)
    with pytest.warns(FailedFitWarning, match="split 1: RuntimeError: no"):
        result = split_halves(reference, strong_and_noise, n_splits=2, random_state=0, n_jobs=1)
    assert len(result.dice) == 1


def test_wrong_arguments(strong_and_noise):
    with pytest.raises(ValueError, match="n_splits must be"):
        split_halves(sparse(1), strong_and_noise, n_splits=0)
    with pytest.raises(ValueError, match="halves need at least 2 samples or groups each, but there are 3"):
        split_halves(sparse(1), strong_and_noise[:3])
    with pytest.raises(ValueError, match=r"one label per sample, shape \(40,\)"):
        split_halves(sparse(1), strong_and_noise, groups=[1, 2])


def test_small_entries_are_no_part_of_a_support(strong_and_noise):
    # a dense loading has the support of all features, unless the small ones are cut
    dense = SPCATV(1, structure=SHAPE, alpha=None, sparsity=0.0, smoothness=0.1)
    result = split_halves(dense, strong_and_noise, n_splits=1, random_state=0, norm_fraction=0.9)
    rows = next(halves_of(0, 1, 40))
    pair = [threshold_loadings(dense.fit(strong_and_noise[half]).components_, 0.9) for half in rows]
    assert_allclose(result.dice[0], dice(*pair, corrected=True))
