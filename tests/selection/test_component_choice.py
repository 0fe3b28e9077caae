"""How many components: the rule on curves made for it, and on data whose number is known."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from spcatv import SPCATV
from spcatv.selection import ComponentCurve, component_curve
from spcatv.selection.components import most_components


def curve(gains, n_folds=5):
    """A curve whose components add the given shares on every fold."""
    return ComponentCurve(np.tile(np.cumsum(gains), (n_folds, 1)))


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((0.3, 0.2, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01), 3),
        (
            (0.3, 0.01, 0.1, 0.01, 0.01, 0.01, 0.01, 0.01, 0.01),
            1,
        ),  # the third is not among the first that stand out
        ((0.3, 0.019, 0.01, 0.01, 0.01, 0.01), 1),  # less than twice the others
        ((0.3, 0.021, 0.01, 0.01, 0.01, 0.01), 2),
        ((0.3, 0.01), 1),
    ],
)
def test_components_before_the_first_that_does_not_stand_out(gains, expected):
    choice = curve(gains).choice
    assert choice.n_components == expected
    assert "out: " in choice.reason


def test_the_difference_must_be_sure():
    """The second component adds three times as much as the others, on all folds or on one of them."""
    gains = np.tile((0.3, 0.03, 0.01, 0.01, 0.01, 0.01), (5, 1))
    assert ComponentCurve(np.cumsum(gains, axis=1)).choice.n_components == 2
    gains[:, 1] = (0.11, 0.01, 0.01, 0.01, 0.01)
    assert ComponentCurve(np.cumsum(gains, axis=1)).choice.n_components == 1


@pytest.mark.parametrize("gains", [(0.01,) * 8, (0.0,) * 5])
def test_equal_components_do_not_stand_out(gains):
    choice = curve(gains).choice
    assert choice.n_components == 1
    assert choice.reason.startswith("No component stands out")
    assert "as in noise" in choice.reason


def test_one_component_has_nothing_to_stand_out_from():
    choice = curve((0.3,)).choice
    assert choice.n_components == 1
    assert choice.reason.startswith("No component stands out: only one was looked at")


@pytest.mark.parametrize(("n_samples", "center", "most"), [(5, True, 3), (6, True, 3), (6, False, 4)])
def test_no_more_components_than_the_training_samples_have_dimensions(n_samples, center, most):
    """What explains nothing because nothing is left is no measure of chance: noise would stand out."""
    X = np.random.default_rng(0).standard_normal((n_samples, 40))
    found = component_curve(SPCATV(structure=(40,), center=center, tol=1e-3), X)
    assert found.explained.shape == (5, most)


def test_a_number_at_the_end_says_that_there_may_be_more():
    assert "There may be more" in curve((0.3,) * 4 + (0.01,) * 2).choice.reason
    assert "There may be more" not in curve((0.3,) * 3 + (0.01,) * 3).choice.reason


@pytest.mark.parametrize(
    ("gains", "first", "later"),
    [((0.3, 0.01, 0.1, 0.1), 2, "3, 4"), ((0.01, 0.1, 0.1, 0.01), None, "2, 3")],
)
def test_components_that_stand_out_after_a_gap_are_named_but_not_kept(gains, first, later):
    choice = curve((*gains, 0.01, 0.01, 0.01, 0.01)).choice
    assert choice.n_components == 1
    assert first is None or f"component {first} " in choice.reason
    assert f"({later})" in choice.reason


def test_one_fold_has_no_standard_error():
    single, five = (curve((0.3, 0.2, 0.01, 0.01, 0.01, 0.01), n_folds=n) for n in (1, 5))
    assert single.choice.n_components == five.choice.n_components == 2
    assert "standard error" in single.choice.reason
    assert "standard error" not in five.choice.reason
    assert np.isnan(single.standard_error).all()
    assert single.within_one_standard_error is None
    assert five.within_one_standard_error == 6


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(4))
def test_every_component_of_a_choice_in_smooth_noise_stands_out(seed):
    """Regions of smooth noise vary together: some stand out by chance, after others that do not."""
    X = gaussian_filter1d(np.random.default_rng(seed).standard_normal((30, 80)), 3, axis=1)
    found = component_curve(SPCATV(structure=(80,), sparsity=0.8, tol=1e-3), X)
    gains = np.diff(found.explained, axis=1, prepend=0)
    floor = np.abs(gains[:, -3:]).mean(axis=1)
    kept = [
        k
        for k in range(7)
        if gains[:, k].mean() > 2 * floor.mean()
        and (gains[:, k] - floor).mean() > 2 * (gains[:, k] - floor).std(ddof=1) / np.sqrt(5)
    ]
    assert found.choice.n_components == max(1, next(k for k in range(8) if k not in kept))


def test_the_largest_number_to_look_at():
    assert [most_components(n) for n in (2, 3, 12, 20, 300)] == [1, 1, 6, 10, 10]


@pytest.mark.no_cover
@pytest.mark.parametrize("n_planted", [0, 1, 3, 5])
def test_planted_components_are_counted(n_planted):
    rng = np.random.default_rng(n_planted)
    X = rng.standard_normal((60, 120))
    for k in range(n_planted):
        X[:, 20 * k + 5 : 20 * k + 17] += 1.5 * rng.standard_normal((60, 1))
    choice = component_curve(SPCATV(structure=(120,), sparsity=0.9), X).choice
    assert choice.n_components == max(1, n_planted)
    assert choice.reason.startswith("No component stands out") == (n_planted == 0)
