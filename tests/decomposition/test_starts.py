"""Starts are what they say: singular vectors, of X and of X diffused."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import expm

from spcatv import SPCATV
from spcatv.data import CentredData, as_data, diffusion, operator, sketch
from spcatv.data.leading import singular_scores
from spcatv.decomposition import starts
from spcatv.estimator import EmptyComponentWarning
from spcatv.metrics import match_components
from spcatv.structure import as_structure, from_matrix, grid, groups, stack


def _same_direction(a, b):
    return abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))


@pytest.mark.parametrize("shape", [(8, 20), (20, 8)])
def test_singular_scores_are_left_singular_vectors(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    U = np.linalg.svd(X - X.mean(axis=0))[0]
    found = singular_scores(CentredData(as_data(X)), 3)
    assert found.shape == (3, shape[0])
    for k in range(3):
        assert _same_direction(found[k], U[:, k]) == pytest.approx(1, abs=1e-10)


def test_large_data_are_not_decomposed_whole(monkeypatch):
    X = np.random.default_rng(1).standard_normal((30, 40))
    whole = singular_scores(CentredData(as_data(X)), 2)
    monkeypatch.setattr(operator, "SMALL_GRAM", 10)
    # passes enough for the sketch to span all 29 directions of noise: it is exact then
    monkeypatch.setattr(sketch, "PASSES", 5)
    few = singular_scores(CentredData(as_data(X)), 2)
    for k in range(2):
        assert _same_direction(whole[k], few[k]) == pytest.approx(1, abs=1e-8)


def test_directions_without_variance_are_left_out():
    X = np.outer(np.arange(6.0), np.ones(4))
    assert len(singular_scores(CentredData(as_data(X)), 4)) <= 4
    constant = np.ones((6, 4))
    assert len(singular_scores(CentredData(as_data(constant)), 2)) == 0


def test_diffused_scores_come_from_the_heat_kernel():
    structure = grid((6, 7))
    X = np.random.default_rng(2).standard_normal((9, 42))
    laplacian = (structure.matrix.T @ structure.matrix).toarray()
    W = expm(-starts.DIFFUSION_TIME / structure.norm_squared() * laplacian)
    U = np.linalg.svd((X - X.mean(axis=0)) @ W)[0]
    found = starts.diffused_scores(CentredData(as_data(X)), structure, 2)
    for k in range(2):
        assert _same_direction(found[k], U[:, k]) == pytest.approx(1, abs=1e-5)


def _disc(shape, centre, radius):
    rows, columns = np.ogrid[: shape[0], : shape[1]]
    return ((rows - centre[0]) ** 2 + (columns - centre[1]) ** 2 <= radius**2).ravel()


def test_panels_do_not_change_what_is_diffused(monkeypatch):
    structure = grid((6, 7))
    columns = np.random.default_rng(4).standard_normal((42, 5))
    kernel = expm(-12.0 / structure.norm_squared() * (structure.matrix.T @ structure.matrix).toarray())
    whole = diffusion.diffuse(diffusion.step_matrix(structure), columns, 12.0)
    monkeypatch.setattr(diffusion, "DIFFUSED_ENTRIES", 84)
    np.testing.assert_array_equal(diffusion.diffuse(diffusion.step_matrix(structure), columns, 12.0), whole)
    np.testing.assert_allclose(whole, kernel @ columns, atol=1e-3)


def test_only_differences_diffuse():
    rng = np.random.default_rng(5)
    maps, field, sets = rng.standard_normal((2, 8)), grid((2, 4)), groups([[0, 1], range(2, 7)], 8)
    assert diffusion.diffusion_on(sets)(maps, 15.0) is maps
    both = stack([field, sets])
    # the unit of time is that of the whole operator
    time = 15.0 * field.norm_squared() / both.norm_squared()
    np.testing.assert_allclose(
        diffusion.diffusion_on(both)(maps, 15.0), diffusion.diffusion_on(field)(maps, time), atol=1e-3
    )


def test_expected_squares_include_the_edges_and_the_norms():
    structure = grid((40, 40))
    norms = np.where(_disc((40, 40), (20, 20), 12), 3.0, 1.0)
    # diffusion along one axis does not depend on that along the other
    along = expm(-2 * starts.DIFFUSION_TIME / structure.norm_squared() * _laplacian_matrix(grid(40)))
    kernel = np.kron(along, along)
    exact = kernel**2 @ norms**2
    estimate = starts._independent_squares(norms, diffusion.step_matrix(structure))
    assert exact.max() / exact.min() > 4
    assert np.corrcoef(estimate, exact)[0, 1] > 0.95
    assert np.median(np.abs(estimate / exact - 1)) < 0.15


def _laplacian_matrix(structure):
    return (structure.matrix.T @ structure.matrix).toarray()


@pytest.mark.parametrize("centre", [(25, 25), (0, 0), (49, 20)])
def test_the_first_place_is_the_region_that_varies_as_one(centre):
    shape = (50, 50)
    rng = np.random.default_rng(5)
    signal = rng.standard_normal(80)
    # too faint for the leading singular vector, whose noise comes from all of the image
    X = rng.standard_normal((80, 2500)) + 0.2 * np.outer(signal, _disc(shape, centre, 6))
    found = starts.diffused_scores(CentredData(as_data(X)), grid(shape), 3)
    assert found.shape == (3 + 3 * starts.PLACES_A_START, 80)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-12)
    assert _same_direction(found[3], signal) > 0.7
    assert _same_direction(singular_scores(CentredData(as_data(X)), 1)[0], signal) < 0.4


def test_places_are_apart():
    structure = grid((60, 60))
    X = np.random.default_rng(6).standard_normal((30, 3600))
    _, norms, diffused = starts._diffused_moments(CentredData(as_data(X)), diffusion.step_matrix(structure))
    places = starts._coherent_places(norms, diffused, diffusion.step_matrix(structure), 6)
    peaks = np.array([np.unravel_index(np.argmax(place), (60, 60)) for place in places])
    distances = np.linalg.norm(peaks[:, None] - peaks[None], axis=2)[np.triu_indices(6, k=1)]
    assert distances.min() > 1.9 * 3 * np.sqrt(2)


def test_few_features_have_few_places():
    found = starts.diffused_scores(
        CentredData(as_data(np.random.default_rng(7).standard_normal((10, 12)))), grid((3, 4)), 3
    )
    assert 3 < len(found) < 3 + 3 * starts.PLACES_A_START
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    "structure",
    [
        groups([range(10), range(10, 20)], 30),
        as_structure(sp.coo_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(30, 30))),
    ],
)
def test_structures_without_a_geometry_give_starts(structure):
    X = np.random.default_rng(8).standard_normal((15, 30))
    X[:, 3] = 0.0
    found = starts.diffused_scores(CentredData(as_data(X), center=False), structure, 2)
    assert len(found) >= 2
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-12)


def test_a_faint_region_is_found_from_its_place():
    shape = (40, 40)
    rng = np.random.default_rng(10)
    truth = _disc(shape, (20, 24), 5)
    X = rng.standard_normal((60, 1600)) + 0.2 * np.outer(rng.standard_normal(60), truth)
    penalty = {"structure": shape, "alpha": 0.3, "l1_ratio": 0.15, "tv_ratio": 0.6}
    found = SPCATV(1, init="structured", **penalty).fit(X)
    assert match_components(truth[None].astype(float), found.components_).cosine[0] > 0.8
    with pytest.warns(EmptyComponentWarning):
        SPCATV(1, init="svd", **penalty).fit(X)


def test_without_structure_nothing_is_diffused():
    X = np.random.default_rng(3).standard_normal((5, 8))
    plain = singular_scores(CentredData(as_data(X)), 2)
    np.testing.assert_array_equal(
        starts.diffused_scores(CentredData(as_data(X)), from_matrix(np.zeros((0, 8))), 2), plain
    )


@pytest.mark.parametrize("small_gram", [64, 10])
def test_diffused_singular_vectors_are_those_of_the_diffused_data(small_gram, monkeypatch):
    # with the lower limit the data are compressed first, here without a loss
    monkeypatch.setattr(operator, "SMALL_GRAM", small_gram)
    structure = grid((9, 8))
    X = np.random.default_rng(9).standard_normal((30, 72))
    kernel = expm(-starts.DIFFUSION_TIME / structure.norm_squared() * _laplacian_matrix(structure))
    exact = np.linalg.svd((X - X.mean(axis=0)) @ kernel)[0].T[:2]
    found = starts.diffused_scores(CentredData(as_data(X)), structure, 2)[:2]
    for one, other in zip(found, exact, strict=True):
        assert _same_direction(one, other) > 1 - 1e-4
