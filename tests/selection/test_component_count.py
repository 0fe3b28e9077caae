"""Number of components: the rule in closed form, on noise, and on data whose number is known."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from spcatv import SPCATV
from spcatv.selection import ComponentCount, count_components
from spcatv.selection.components import MOST_SAMPLES, _compare_with_noise
from spcatv.structure import grid


def planted(n_planted, n_samples=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, 240))
    for k in range(n_planted):
        X[:, 40 * k + 10 : 40 * k + 34] += 1.5 * rng.standard_normal((n_samples, 1))
    return X


@pytest.mark.parametrize(
    ("share", "expected"), [((0.5, 0.3, 0.05), 2), ((0.05, 0.5, 0.05), 2), ((0.05,) * 3, 0), ((0.5,) * 3, 3)]
)
def test_components_up_to_the_last_that_stands_out(share, expected):
    count = ComponentCount(np.array(share), np.full(3, 0.1), np.full(3, 50.0))
    assert (count.n_outstanding, count.n_components) == (expected, max(expected, 1))
    assert count.reason


def test_shares_and_independent_features_in_closed_form():
    """Samples of orthogonal features of equal variance have as many independent features as there are."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 12))
    X -= X.mean(axis=0)
    count = _compare_with_noise(X @ X.T, 2)
    assert count.n_independent[0] == pytest.approx(12, rel=0.1)
    values = np.linalg.eigvalsh(X.T @ X)[::-1]
    np.testing.assert_allclose(count.share, [values[0] / values.sum(), values[1] / values[1:].sum()])
    assert count.n_outstanding == 0


@pytest.mark.parametrize("n_planted", [0, 1, 3, 5])
def test_planted_components_are_counted(n_planted):
    count = count_components(SPCATV(structure=(240,)), planted(n_planted))
    assert count.n_outstanding == n_planted


@pytest.mark.parametrize("width", [0.0, 1.5, 4.0, 10.0])
def test_noise_of_any_smoothness_has_no_components(width):
    found = []
    for seed in range(6):
        X = np.random.default_rng(seed).standard_normal((40, 200))
        X = gaussian_filter1d(X, width, axis=1) if width else X
        found.append(count_components(SPCATV(structure=(200,)), X).n_outstanding)
    assert np.count_nonzero(found) <= 1


def test_the_unit_and_the_order_of_samples_do_not_matter():
    X, model = planted(3), SPCATV(structure=(240,))
    one, other = count_components(model, X), count_components(model, -1e-6 * X[::-1])
    np.testing.assert_allclose(one.share, other.share, rtol=1e-4)
    np.testing.assert_allclose(one.limit, other.limit, rtol=1e-4)


def test_what_was_removed_does_not_count():
    X = planted(2)
    confounds = np.random.default_rng(7).standard_normal((60, 1))
    X += 5 * confounds
    model = SPCATV(structure=(240,))
    assert count_components(model, X).n_outstanding == 3
    assert count_components(model, X, confounds=confounds).n_outstanding == 2
    assert count_components(SPCATV(structure=(240,), global_signal="regress"), X).n_outstanding == 2
    scaled = X * np.logspace(-3, 3, 240)
    assert count_components(model, scaled, confounds=confounds, standardize=True).n_outstanding == 2


def test_a_component_that_one_sample_makes_does_not_count():
    X, model = planted(0), SPCATV(structure=(240,))
    X[5, 20:60] += 30
    count = count_components(model, X)
    assert np.isnan(count.limit[0])
    assert count.n_outstanding == 0
    assert "one sample" in count.reason
    X[:, 100:140] += 2 * np.random.default_rng(1).standard_normal((60, 1))
    assert count_components(model, X).n_outstanding == 2


def test_many_samples_are_thinned_and_few_are_enough():
    X = planted(2, n_samples=2 * MOST_SAMPLES)
    model = SPCATV(structure=grid((240,)))
    assert count_components(model, X).n_outstanding == 2
    for n_samples in (3, 4, 9):
        assert len(count_components(model, X[:n_samples]).share) == max(1, n_samples // 3)
    assert len(count_components(model, X, max_components=2).share) == 2
