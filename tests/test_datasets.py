"""The simulated data follow docs/method.md section 6.2."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.ndimage import gaussian_filter, label

from spcatv.datasets import make_dots, make_surface_cohort, make_volume_cohort


@pytest.fixture(scope="module")
def dots():
    return make_dots(random_state=0)


def smoothed(images):
    return np.stack([gaussian_filter(image, 1) for image in images])


def test_shapes(dots):
    assert dots.X.shape == (500, 10_000)
    assert dots.loadings.shape == (3, 10_000)
    assert dots.scores.shape == (500, 3)
    assert dots.shape == (100, 100)
    assert dots.X.dtype == dots.loadings.dtype == dots.scores.dtype == np.float64


def test_supports_are_the_dots(dots):
    upper, lower, middle = dots.loadings.reshape(3, 100, 100)
    assert set(np.unique(dots.loadings)) == {0, 1}
    assert [label(support)[1] for support in (upper, lower, middle)] == [2, 2, 1]
    for support, centres in [
        (upper, [(25, 25), (25, 75)]),
        (lower, [(75, 25), (75, 75)]),
        (middle, [(50, 50)]),
    ]:
        expected = np.zeros((100, 100))
        for row, column in centres:
            for i in range(100):
                for j in range(100):
                    expected[i, j] += np.hypot(i - row, j - column) <= 7
        assert_array_equal(support, expected)
    assert not (dots.loadings.sum(axis=0) > 1).any()


def test_columns_are_standardised(dots):
    assert_allclose(dots.X.mean(axis=0), 0, atol=1e-12)
    assert_allclose(dots.X.std(axis=0), 1, rtol=1e-12)


def test_signals_have_exactly_their_strength(dots):
    assert_allclose(dots.scores.mean(axis=0), 0, atol=1e-15)
    assert_allclose(dots.scores.std(axis=0), [0.1, 0.08, 0.05], rtol=1e-12)


def test_recipe_step_by_step():
    """Rebuild X from the same draws, one image at a time."""
    rng = np.random.default_rng(7)
    latent, noise = rng.standard_normal((9, 3)), rng.standard_normal((9, 28 * 28))
    latent = (latent - latent.mean(axis=0)) / latent.std(axis=0)
    data = make_dots(n_samples=9, size=28, snr=0.3, random_state=7)
    images = noise + latent * [0.3, 0.24, 0.15] @ data.loadings
    X = smoothed(images.reshape(9, 28, 28)).reshape(9, -1)
    assert_allclose(data.X, (X - X.mean(axis=0)) / X.std(axis=0), atol=1e-12)


def test_neighbours_are_correlated_by_the_smoothing(dots):
    """Smoothed white noise has the autocorrelation of the smoothing kernel."""
    images = dots.X.reshape(500, 100, 100)[:, :17, :]  # a band above the dots
    kernel = gaussian_filter(np.eye(1, 41, 20).ravel(), 1)
    for lag in (1, 2, 3):
        expected = kernel[lag:] @ kernel[:-lag] / (kernel @ kernel)
        got = np.mean(images[:, :, 10:-10] * images[:, :, 10 + lag : 90 + lag])
        assert got == pytest.approx(expected, abs=0.01)


def test_without_smoothing_pixels_are_independent():
    images = make_dots(200, 30, snr=0, smoothing=0, random_state=1).X.reshape(200, 30, 30)
    assert abs(np.mean(images[:, :, 1:] * images[:, :, :-1])) < 0.01


def test_the_data_contain_the_signals_in_order_of_strength(dots):
    """The mean of X over each support correlates with its score, most for the strongest signal."""
    means = dots.X @ dots.loadings.T / dots.loadings.sum(axis=1)
    correlation = [np.corrcoef(means[:, k], dots.scores[:, k])[0, 1] for k in range(3)]
    assert correlation[0] > correlation[1] > correlation[2] > 0.2
    variance = means.var(axis=0) * dots.loadings.sum(axis=1)
    assert variance[0] > variance[1] > variance[2]


def test_same_seed_same_bits_and_no_global_state():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (it is what must not move)
    first, second = (make_dots(10, 14, random_state=3) for _ in range(2))
    assert_array_equal(first.X, second.X)
    assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002
    assert not np.array_equal(first.X, make_dots(10, 14, random_state=4).X)
    assert not np.array_equal(make_dots(10, 14).X, make_dots(10, 14).X)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_generators_advance(kind):
    rng = kind(0)
    first, second = make_dots(10, 14, random_state=rng), make_dots(10, 14, random_state=rng)
    assert not np.array_equal(first.X, second.X)
    assert_array_equal(first.X, make_dots(10, 14, random_state=kind(0)).X)


def test_float32_is_the_same_data_rounded():
    single = make_dots(10, 14, random_state=0, dtype=np.float32)
    assert single.X.dtype == single.loadings.dtype == single.scores.dtype == np.float32
    assert_array_equal(single.X, make_dots(10, 14, random_state=0).X.astype(np.float32))


def test_split(dots):
    train, test = dots.split()
    assert train.shape == test.shape == (250, 10_000)
    assert np.shares_memory(train, dots.X)
    assert_array_equal(np.vstack([train, test]), dots.X)
    assert [part.shape[0] for part in dots.split(100)] == [100, 400]
    for wrong in (0, 500):
        with pytest.raises(ValueError, match=f"between 1 and 499 of 500 samples, got {wrong}"):
            dots.split(wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 1}, "n_samples must be at least 2.*got 1"),
        ({"size": 6}, "size must be at least 7.*got 6"),
        ({"snr": -0.1}, "snr must be a finite number >= 0, got -0.1"),
        ({"snr": float("nan")}, "snr must be a finite number >= 0, got nan"),
        ({"smoothing": -1}, "smoothing must be a finite number of pixels >= 0, got -1"),
        ({"amplitudes": (1.0, 0.5)}, "amplitudes must be three finite numbers"),
        ({"dtype": int}, "dtype must be float64 or float32, got int64"),
    ],
)
def test_clear_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_dots(**{"n_samples": 5, "size": 10, **arguments})


def test_smallest_image_has_dots_of_one_pixel():
    assert_array_equal(make_dots(3, 7, random_state=0).loadings.sum(axis=1), [2, 2, 1])


# --- cohorts on masks and meshes ----------------------------------------------------------------


@pytest.fixture(scope="module")
def ball():
    points = np.indices((17, 19, 15)) - np.array([8, 9, 7])[:, None, None, None]
    return (points**2).sum(axis=0) <= 49


def octahedron(n_divisions):
    """Vertices and triangles of a sphere."""
    coords = [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]
    faces = [[0, 2, 4], [2, 1, 4], [1, 3, 4], [3, 0, 4], [2, 0, 5], [1, 2, 5], [3, 1, 5], [0, 3, 5]]
    coords = [np.array(point, dtype=float) for point in coords]
    for _ in range(n_divisions):
        middles, finer = {}, []
        for a, b, c in faces:
            found = []
            for i, j in ((a, b), (b, c), (c, a)):
                key = (min(i, j), max(i, j))
                if key not in middles:
                    middles[key] = len(coords)
                    coords.append((coords[i] + coords[j]) / np.linalg.norm(coords[i] + coords[j]))
                found.append(middles[key])
            finer += [[a, found[0], found[2]], [b, found[1], found[0]], [c, found[2], found[1]], found]
        faces = finer
    return np.array(coords), np.array(faces)


@pytest.fixture(scope="module")
def sphere():
    return octahedron(4)


def test_volume_cohort_is_signal_on_balls_plus_noise(ball):
    cohort = make_volume_cohort(ball, 30, voxel_size=2.0, radius=4.0, snr=2.0, random_state=0)
    assert cohort.X.shape == (30, ball.sum())
    assert cohort.loadings.shape == (3, ball.sum())
    assert_allclose(cohort.scores.mean(axis=0), 0, atol=1e-12)
    assert_allclose(cohort.scores.std(axis=0), [2.0, 1.6, 1.0], rtol=1e-12)
    noise = cohort.X - cohort.scores @ cohort.loadings
    assert noise.std() == pytest.approx(1, rel=1e-12)
    volume = np.zeros(ball.shape)
    for loading in cohort.loadings:
        volume[ball] = loading
        assert label(volume)[1] == 2, "two regions per component"
    assert cohort.loadings.sum(axis=0).max() == 1, "regions do not overlap"
    # a ball of radius 2 voxels has at most 33
    assert (cohort.loadings.sum(axis=1) <= 2 * 33).all()
    assert (cohort.loadings.sum(axis=1) >= 2 * 10).all()


def test_smoothing_makes_neighbours_alike(ball):
    def correlation(smoothing):
        cohort = make_volume_cohort(ball, 40, radius=2, snr=0, smoothing=smoothing, random_state=1)
        volumes = np.full((40, *ball.shape), np.nan)
        volumes[:, ball] = cohort.X
        return np.nanmean(volumes[:, 1:] * volumes[:, :-1])

    assert abs(correlation(0)) < 0.03
    assert correlation(1.0) > 0.6


def test_regions_do_not_depend_on_the_seed_and_data_do(ball):
    first, again, other = (
        make_volume_cohort(ball, 5, radius=3, random_state=seed, dtype=np.float32) for seed in (1, 1, 2)
    )
    assert first.X.dtype == np.float32
    assert_array_equal(first.X, again.X)
    assert_array_equal(first.loadings, other.loadings)
    assert not np.array_equal(first.X, other.X)


def test_surface_cohort_is_signal_on_discs_plus_noise(sphere):
    coords, triangles = sphere
    mask = coords[:, 2] > -0.5
    cohort = make_surface_cohort(coords, triangles, 20, mask=mask, radius=0.3, random_state=0)
    assert cohort.X.shape == (20, mask.sum())
    noise = cohort.X - cohort.scores @ cohort.loadings
    assert noise.std() == pytest.approx(1, rel=1e-12)
    assert cohort.loadings.sum(axis=0).max() == 1
    inside = coords[mask]
    for loading in cohort.loadings:
        region = inside[loading != 0]
        # a path along edges is never shorter than a straight line: each region fits in a ball of this radius
        near = np.linalg.norm(region - region[0], axis=1) <= 0.6
        assert 0 < near.sum() < len(region)
        assert np.ptp(region[near], axis=0).max() <= 0.6
        assert np.ptp(region[~near], axis=0).max() <= 0.6


def test_two_hemispheres_are_one_mesh(sphere):
    coords, triangles = sphere
    aside = np.array([2, 0, 0])
    both = np.vstack([coords - aside, coords + aside])
    cohort = make_surface_cohort(
        both,
        np.vstack([triangles, triangles + len(coords)]),
        4,
        radius=0.4,
        amplitudes=(1.0,),
        random_state=0,
    )
    left, right = np.split(cohort.loadings[0], 2)
    assert left.any()
    assert right.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 1}, "n_samples must be at least 2"),
        ({"snr": -1}, "snr must be a finite number >= 0"),
        ({"radius": 0}, "radius must be above 0, got 0"),
        ({"amplitudes": ()}, "amplitudes must be finite numbers, one per component"),
        ({"dtype": int}, "dtype must be float64 or float32"),
        ({"mask": np.ones(3)}, "6 regions need at least as many features, got 3"),
    ],
)
def test_clear_errors_of_cohorts(change, message, ball):
    with pytest.raises(ValueError, match=message):
        make_volume_cohort(**{"mask": ball, "n_samples": 3, "radius": 2, **change})
