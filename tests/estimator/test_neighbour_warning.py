"""Neighbours that do not vary together are noticed, and nothing else is."""

import warnings

import numpy as np
import pytest

from spcatv import SPCATV, SPCATVCV
from spcatv.estimator import NeighbourWarning
from spcatv.structure import graph

SHAPE = (9, 14)
TOL = 1e-2  # the loadings do not matter


def field(rng, shape=SHAPE, n_samples=40, noise=1.0):
    """Samples of a smooth field: a sum of waves, and white noise."""
    places = np.meshgrid(*(np.linspace(0, 1, n) for n in shape), indexing="ij")
    waves = [np.cos(np.pi * k * place) for place in places for k in (1, 2)]
    scores = rng.standard_normal((n_samples, len(waves)))
    smooth = scores @ np.stack([wave.ravel() for wave in waves])
    return smooth + noise * rng.standard_normal(smooth.shape)


def warned(X, kind=SPCATV, **options):
    """The messages of the warnings that a fit gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind(**{"n_components": 1, "structure": SHAPE, "tol": TOL, **options}).fit(X)
    return [str(item.message) for item in caught if item.category is NeighbourWarning]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_smooth_field_is_as_it_should_be(rng):
    assert warned(field(rng)) == []


def test_columns_in_another_order_are_noticed(rng):
    X = field(rng)
    [message] = warned(X[:, rng.permutation(X.shape[1])])
    assert message.startswith("neighbours vary together hardly more than features taken at random")
    assert "smoothness=0 leaves neighbours alone" in message


def test_a_field_in_fortran_order_is_noticed_along_one_axis(rng):
    X = field(rng).reshape(-1, *SHAPE)
    flat = np.stack([sample.ravel(order="F") for sample in X])
    [message] = warned(flat)
    assert message.startswith("neighbours along axis 0 vary together hardly more")


def test_series_that_take_turns_are_noticed(rng):
    """Ten channels in turn, as in tables with one block per point in time."""
    n_times, n_channels = 30, 10
    scores = rng.standard_normal((50, n_channels))
    X = np.tile(scores, n_times) + 0.5 * rng.standard_normal((50, n_times * n_channels))
    assert len(warned(X, structure=(n_times * n_channels,))) == 1
    assert warned(X, structure=(n_times, n_channels)) != []  # channels still are no neighbours


def test_the_unit_of_the_columns_does_not_matter(rng):
    X = field(rng) * 10.0 ** rng.integers(-150, 150, size=(1, 126))
    assert warned(X) == []
    assert len(warned(X[:, rng.permutation(126)])) == 1


@pytest.mark.parametrize(
    "options", [{"smoothness": 0.0}, {"alpha": 0.1, "tv_ratio": 0.0}, {"structure": None}]
)
def test_without_smoothing_neighbours_do_not_matter(rng, options):
    X = field(rng)
    assert warned(X[:, rng.permutation(X.shape[1])], **options) == []


def test_the_penalised_model_has_another_remedy(rng):
    X = field(rng)
    [message] = warned(X[:, rng.permutation(X.shape[1])], alpha=0.1)
    assert "tv_ratio=0" in message


@pytest.mark.parametrize("n_samples", [3, 8, 60])
def test_noise_is_no_reason_to_doubt_the_structure(rng, n_samples):
    assert warned(rng.standard_normal((n_samples, 126))) == []


def test_a_faint_region_in_noise_is_no_reason_either(rng):
    X = rng.standard_normal((60, 126))
    X[:, :40] += rng.standard_normal((60, 1))
    assert warned(X, structure=(126,)) == []


def test_what_all_features_share_is_no_reason_either(rng):
    X = rng.standard_normal((60, 126)) + 3 * rng.standard_normal((60, 1))
    assert warned(X) == []
    shared = field(rng) + 20 * rng.standard_normal((40, 1))
    assert warned(shared) == []
    assert len(warned(shared[:, rng.permutation(126)])) == 1


def test_few_neighbours_are_no_reason_either(rng):
    ring = np.roll(np.eye(12), 1, axis=1)
    X = field(rng, (12,))[:, rng.permutation(12)]
    assert warned(X, structure=graph(ring + ring.T)) == []


@pytest.mark.parametrize("share", [0.1, 0.3])
def test_one_local_signal_in_another_order_is_noticed(rng, share):
    X = rng.standard_normal((200, 300))
    X[:, : round(300 * share)] += rng.standard_normal((200, 1))
    assert warned(X, structure=(300,)) == []
    assert len(warned(X[:, rng.permutation(300)], structure=(300,))) == 1


def test_constant_columns_are_left_out(rng):
    X = field(rng)
    X[:, ::2] = 0.1  # the mean leaves rounding errors
    assert warned(X, structure=(126,)) == []  # no two neighbours are left
    X = field(rng)
    X[:, ::3] = 0.1
    assert warned(X) == []
    assert len(warned(X[:, rng.permutation(126)])) == 1


def test_a_selection_reports_it_once(rng):
    X = field(rng)
    grid = {"sparsity": [0.5], "smoothness": [0.5, 1.0], "cv": 2}
    assert warned(X, SPCATVCV, **grid) == []
    assert len(warned(X[:, rng.permutation(X.shape[1])], SPCATVCV, **grid)) == 1
