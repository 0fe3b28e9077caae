"""Quality of images: closed forms, planted faults, and names to leave out."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv._util.bids import kept_samples
from spcatv.data.outliers import SCALE, two_scales
from spcatv.images import ImageError, ImageQualityWarning, ImageSPCATV, read_cohort
from spcatv.images.quality import drop_features, find_bad, image_quality

NAMES = tuple(f"sub-{number:02d}" for number in range(20))


def rows(seed=0, n_samples=20, n_features=400):
    """Images with a common mean."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(n_features)
    return (common + 0.5 * rng.standard_normal((n_samples, n_features))).astype(np.float32)


def judged(X, names=NAMES):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = image_quality(X, names[: len(X)], "voxels")
    return found, [str(one.message) for one in caught if one.category is ImageQualityWarning]


@pytest.mark.parametrize("seed", range(8))
def test_an_outlier_beside_a_clear_component_is_found_among_few_samples(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 400))
    X[:, :120] += 2 * rng.standard_normal((20, 1))
    assert not any(image.outlier for image in judged(X)[0])
    usual, away = np.median(np.linalg.norm(X - X.mean(axis=0), axis=1)), rng.standard_normal(400)
    X[3] += np.sqrt(3) * usual * away / np.linalg.norm(away)
    assert [image.outlier for image in judged(X)[0]] == [number == 3 for number in range(20)]


def test_figures_are_those_of_the_formula():
    X = rows(n_samples=9)
    X[2, :40] = np.nan
    X[4, :80] = 0
    found, _ = judged(X)
    median = np.nanmedian(X, axis=0)
    # what is left without the three leading directions of the differences, by the root of their lengths, but
    # for those that one image makes
    left = np.nan_to_num(X - median)
    images, _, directions = np.linalg.svd(left / np.sqrt(np.linalg.norm(left, axis=1, keepdims=True)))
    directions = directions[:9][np.square(images).max(axis=0) < 0.5][:3]
    distances = np.empty(9)
    for number, row in enumerate(left):
        good = np.isfinite(X[number])
        row[good] -= (directions[:, good] @ row[good]) @ directions[:, good]
        distances[number] = np.sqrt(np.mean(row[good] ** 2))
    for number, image in enumerate(found):
        good = np.isfinite(X[number])
        others = np.nanmean(np.delete(X, number, axis=0), axis=0)
        assert image.share_missing == pytest.approx(0.1 if number == 2 else 0)
        assert image.share_zero == pytest.approx(0.2 if number == 4 else 0)
        assert image.distance == pytest.approx(distances[number] / np.median(distances), rel=1e-5)
        assert image.correlation == pytest.approx(np.corrcoef(X[number, good], others[good])[0, 1], rel=1e-3)


@pytest.mark.parametrize("draw", ["standard_normal", "standard_exponential"])
def test_large_scores_on_a_clear_component_make_no_outlier(draw):
    rng = np.random.default_rng(0)
    for _ in range(10):
        X = rng.standard_normal((60, 400))
        X[:, :120] += 2 * getattr(rng, draw)((60, 1))
        assert not any(image.outlier for image in judged(X, tuple(map(str, range(60))))[0])


def test_images_that_are_alike_have_no_outlier():
    for seed in range(30):
        found, said = judged(rows(seed))
        assert not any(image.outlier for image in found), seed
        assert said == []


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (lambda x: -x, "correlation -0."),
        (lambda x: 5 * x, "times the usual distance"),
        (lambda x: x[::-1], "correlation"),
        (lambda x: np.where(np.arange(len(x)) < 200, np.nan, x), "50 % missing"),
        (lambda x: np.where(np.arange(len(x)) < 200, 0, x), "50 % zeros"),
    ],
)
def test_planted_faults_are_found_and_named(fault, why):
    X = rows()
    X[7] = fault(X[7])
    found, said = judged(X)
    assert [image.name for image in found if image.outlier] == ["sub-07"]
    assert why in found[7].why
    (line,) = said
    assert line.startswith("1 of 20 images is unlike the others: sub-07 (")
    assert "exclude" in line


def test_an_image_without_a_correlation_does_not_hide_others():
    """Image 3 is flat wherever most images have values, so that it has no correlation with them."""
    X = rows()
    X[5:, 0] = np.nan
    X[3] = np.arange(X.shape[1]) == 0
    X[7] = X[7, ::-1]
    found = judged(X)[0]
    assert np.isnan(found[3].correlation)
    assert found[7].outlier


@pytest.mark.parametrize("factor", [13, 1 / 13, 4])
@pytest.mark.parametrize("n_scaled", [10, 7])
def test_two_scales_are_found_and_both_groups_named(factor, n_scaled):
    X = rows()
    X[-n_scaled:] *= factor
    found, said = judged(X)
    (line,) = [line for line in said if "scales" in line]
    scaled, others = NAMES[-n_scaled:], NAMES[:-n_scaled]
    larger, smaller = (scaled, others) if factor > 1 else (others, scaled)
    assert line.index(larger[0]) < line.index(smaller[0])
    fewer = scaled if n_scaled < 10 else larger
    assert tuple(image.name for image in found if SCALE in image.why) == fewer
    # one image of a scale of its own hides nothing
    X[2] *= 1e5
    is_large = two_scales(X.std(axis=1))
    assert is_large[0] == (factor < 1)
    assert (is_large[-n_scaled:] == (factor > 1)).all()


@pytest.mark.filterwarnings("error::spcatv.images.ImageQualityWarning")
def test_scales_that_vary_are_one_group():
    rng = np.random.default_rng(1)
    for n in (8, 20, 100) * 200:
        assert two_scales(np.exp(0.35 * rng.standard_normal(n))) is None
    assert two_scales(np.ones(20)) is None
    X = rows()
    X[10:] *= 2
    assert not any(SCALE in image.why for image in judged(X)[0])
    # runs that are standardised later may have any scale
    X[10:] *= 20
    assert not any(SCALE in image.why for image in image_quality(X, NAMES, "voxels", scaled=True))


def test_features_that_are_lost_by_outliers_are_counted():
    """Two images miss the same half: neither alone costs a feature, but both together do."""
    X = rows()
    X[3:5, :200] = np.nan
    X[9, 199:204] = np.nan
    (line,) = judged(X)[1]
    assert "values missing there cost the mask 199 of its 400 voxels" in line


def test_many_outliers_are_not_all_named():
    X = rows()
    X[:7, :100] = np.nan
    (line,) = judged(X)[1]
    assert "sub-04 (25 % missing) and 2 more;" in line
    assert "sub-05" not in line


@pytest.mark.parametrize("value", [0, 3.5, np.nan])
def test_blank_images_are_refused_by_name(value):
    X = rows()
    X[5] = value
    X[11] = 0
    what = "NaN everywhere" if np.isnan(value) else f"{value:g} everywhere"
    with pytest.raises(ImageError, match=rf"sub-05 \({what}\), sub-11 \(0 everywhere\)"):
        image_quality(X, NAMES, "voxels")


def test_images_without_a_common_mean_are_not_judged_by_it():
    noise = np.random.default_rng(0).standard_normal((7, 60)).astype(np.float32)
    for n_samples in (2, 3, 7):
        assert judged(noise[:n_samples])[1] == []


def test_a_large_matrix_is_compared_on_some_of_its_features():
    """Images and features are taken evenly: the figures hardly change."""
    X = np.tile(rows(n_samples=250), (1, 300))
    X[100] *= -1
    found, _ = judged(X, tuple(map(str, range(250))))
    assert [image.name for image in found if image.outlier] == ["100"]


def test_a_cohort_has_its_quality_and_a_model_too(volumes, tmp_path):
    paths = list(volumes.paths)
    image = nib.load(paths[4])
    values = np.asanyarray(image.dataobj).copy()
    values[: values.shape[0] // 2] = np.nan
    paths[4] = tmp_path / "sub-05_half.nii.gz"
    nib.save(nib.Nifti1Image(values, image.affine), paths[4])
    with pytest.warns(ImageQualityWarning, match=r"sub-05_half\.nii\.gz \(\d+ % missing\); values missing"):
        model = ImageSPCATV(n_components=1).fit(paths)
    assert [one.name for one in model.quality_ if one.outlier] == [str(paths[4])]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ImageQualityWarning)
        model.fit(paths, exclude="sub-05_half")
        cohort = read_cohort(paths, exclude=["sub-05"])
    assert len(model.input_names_) == len(cohort.names) == len(paths) - 1
    assert np.array_equal(cohort.space.mask, volumes.inside)
    model.save(tmp_path / "model")
    assert ImageSPCATV.load(tmp_path / "model").quality_ == ()
    with pytest.raises(ValueError, match="give exclude to read_cohort"):
        model.fit(cohort, exclude="sub-01")


FILES = ("/d/sub-01_map.nii.gz", "/d/sub-02_ses-1_map.nii.gz", "/d/sub-02_ses-2_map.nii.gz", "/e/sub-1/x.nii")


@pytest.mark.parametrize(
    ("names", "kept"),
    [
        ("/d/sub-01_map.nii.gz", [1, 2, 3]),
        ("sub-01_map.nii.gz", [1, 2, 3]),
        ("sub-01_map", [1, 2, 3]),
        ("sub-01", [1, 2, 3]),
        ("01", [1, 2, 3]),
        ("sub-02", [0, 3]),
        ("sub-1", [0, 1, 2]),
        ("x", [0, 1, 2]),
        ("sub-02 x.nii", [0]),
    ],
)
def test_names_to_leave_out(names, kept):
    assert kept_samples(FILES, names.split()) == kept


def test_either_hemisphere_names_the_pair():
    pairs = ("a/lh.s1.mgh + a/rh.s1.mgh", "a/lh.s2.mgh + a/rh.s2.mgh")
    assert kept_samples(pairs, ["rh.s1"]) == [1]
    assert kept_samples(pairs, ["a/lh.s2.mgh"]) == [0]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["sub-9"], "sub-9 is none of the 3 images"),
        (["map.nii"], "map.nii could be any of a/map.nii, b/map.nii; give the path"),
        (["a/map.nii[3]"], "single volumes cannot be left out"),
        (["a/map.nii", "b/map.nii", "c.nii"], "no image is left"),
    ],
)
def test_names_that_mean_nothing(names, message):
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        kept_samples(("a/map.nii", "b/map.nii", "c.nii"), names)


def test_hemispheres_are_left_out_together(thickness):
    cohort = read_cohort(thickness.files["gifti"], surface="fsaverage5", exclude=["sub-03"])
    assert len(cohort.names) == 11
    assert not any("sub-03" in name for name in cohort.names)
    with pytest.raises(ImageError, match="sub-99 is none of the 12 images"):
        read_cohort(thickness.files["gifti"], surface="fsaverage5", exclude=["sub-99"])


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 12))
def test_found_as_feature_by_feature(seed, n_samples, n_features):
    rng = np.random.default_rng(seed)
    X = rng.choice(
        [0.0, 1.0, 1.0, np.nan, np.inf], p=[0.2, 0.5, 0.2, 0.05, 0.05], size=(n_samples, n_features)
    )
    bad = find_bad(X)
    for feature in range(n_features):
        finite = np.isfinite(X[:, feature]).all()
        assert bad.not_finite[feature] == (not finite)
        assert bad.constant[feature] == (finite and np.ptp(X[:, feature]) == 0)
    samples = [number for number in range(n_samples) if not np.isfinite(X[number]).all()]
    assert bad.first_sample == (samples[0] if samples else None)


@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(1, 9))
def test_features_are_dropped_within_the_same_memory(seed, n_samples, n_features):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    kept = rng.random(n_features) < 0.6
    expected = X[:, kept].copy()
    found = drop_features(X, kept)
    assert np.array_equal(found, expected)
    assert found.size == 0 or np.shares_memory(found, X)
    assert found.flags.c_contiguous
