"""Confounds: removed by least squares, from new images with the coefficients of the fit."""

import warnings

import numpy as np
import pytest

pytest.importorskip("nilearn")
import nibabel as nib
import pandas as pd

from spcatv.images import (
    BadFeatureWarning,
    ImageError,
    ImageSPCATV,
    Reading,
    RowOrderWarning,
    read_cohort,
)
from spcatv.images.confounds import fit_confounds, read_confounds

SHAPE = (5, 4, 3)
N_IMAGES = 20


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    confounds = np.column_stack([rng.integers(20, 80, N_IMAGES), rng.integers(0, 2, N_IMAGES)]).astype(float)
    X = 3 + rng.standard_normal((N_IMAGES, 60)) + 0.05 * confounds[:, :1] * rng.standard_normal(60)
    return X, confounds


def images(X):
    """One 4-D image; its volumes are people, so it is not a run to be standardised."""
    return nib.Nifti1Image(np.moveaxis(X.reshape(-1, *SHAPE), 0, -1).astype(np.float32), np.eye(4))


def cohort(X, confounds, **more):
    reading = Reading(standardize_runs=False)
    return read_cohort(
        images(X), mask=np.ones(SHAPE, bool), confounds=confounds, dtype="float64", reading=reading, **more
    )


def test_residuals_are_those_of_least_squares(data):
    X, confounds = data
    X = X.astype(np.float32).astype(float)
    design = np.column_stack([np.ones(N_IMAGES), confounds])
    residual = X - design @ np.linalg.lstsq(design, X, rcond=None)[0]
    found = cohort(X, confounds).X
    # the mean stays: whether it goes is the estimator's to say
    assert np.allclose(found, residual + X.mean(axis=0), atol=1e-10)
    assert np.allclose((confounds - confounds.mean(axis=0)).T @ found, 0, atol=1e-8)


def test_the_unit_and_an_intercept_do_not_matter(data):
    X, confounds = data
    expected = cohort(X, confounds).X
    scaled = np.column_stack([np.ones(N_IMAGES), confounds * [1e-9, 1e6] + [7, 0]])
    assert np.allclose(cohort(X, scaled).X, expected, atol=1e-8)
    repeated = np.column_stack([confounds, confounds[:, 0] * 2 + 1])
    assert np.allclose(cohort(X, repeated).X, expected, atol=1e-8)


def test_new_images_by_the_same_fit(data):
    X, confounds = data
    model = ImageSPCATV(
        n_components=2, mask=np.ones(SHAPE, bool), alpha=0.01, dtype="float64", standardize_runs=False
    )
    scores = model.fit_transform(images(X), confounds=confounds)
    assert np.allclose(model.transform(images(X), confounds=confounds), scores)
    # one image alone has the scores that it has among others
    alone = model.transform(images(X[3:4]), confounds=confounds[3:4])
    assert np.allclose(alone, scores[3:4])
    # an image that differs by what the confounds explain has the same scores
    shift = (np.array([[99.0, 1.0]]) - confounds[3:4]) @ model.preparation_.confounds.slopes
    moved = model.transform(images(X[3:4] + shift), confounds=[[99.0, 1.0]])
    assert np.allclose(moved, alone, atol=1e-5)


def test_tables(data, tmp_path):
    X, confounds = data
    frame = pd.DataFrame(confounds, columns=["age", "sex"])
    frame.to_csv(tmp_path / "c.tsv", sep="\t", index=False)
    frame.to_csv(tmp_path / "c.csv", index=False)
    expected = cohort(X, confounds).X
    for table in (frame, tmp_path / "c.tsv", str(tmp_path / "c.csv"), confounds.tolist()):
        assert np.allclose(cohort(X, table).X, expected)
    assert np.allclose(cohort(X, confounds[:, 0]).X, cohort(X, confounds[:, :1]).X)


def test_columns_are_found_by_name(data):
    X, confounds = data
    frame = pd.DataFrame(confounds, columns=["age", "sex"])
    preparation = cohort(X, frame).preparation
    expected = preparation.read(images(X), frame)
    assert np.allclose(preparation.read(images(X), frame[["sex", "age"]]), expected)
    with pytest.raises(ImageError, match="fitted with age, sex, got age, weight"):
        preparation.read(images(X), frame.rename(columns={"sex": "weight"}))
    with pytest.raises(ImageError, match="fitted with 2 columns, got 1"):
        preparation.read(images(X), confounds[:, :1])


def test_presence_must_agree(data):
    X, confounds = data
    with_them, without = cohort(X, confounds).preparation, cohort(X, None).preparation
    with pytest.raises(ImageError, match="fitted with confounds"):
        with_them.read(images(X))
    with pytest.raises(ImageError, match="fitted without confounds"):
        without.read(images(X), confounds)


def test_wrong_tables(data, tmp_path):
    X, confounds = data
    with pytest.raises(ImageError, match=r"confounds: has 19 rows, but there are 20 images"):
        cohort(X, confounds[:-1])
    missing = pd.DataFrame(confounds, columns=["age", "sex"])
    missing.loc[4, "age"] = np.nan
    missing.to_csv(tmp_path / "c.tsv", sep="\t", index=False, na_rep="n/a")
    with pytest.raises(ImageError, match=r"c\.tsv: the value of age in row 5 is missing"):
        cohort(X, tmp_path / "c.tsv")
    with pytest.raises(ImageError, match=r"nowhere\.tsv: no such file"):
        cohort(X, tmp_path / "nowhere.tsv")
    with pytest.raises(ImageError, match="must be a table of numbers"):
        cohort(X, [["a"]] * 20)
    with pytest.raises(ImageError, match="must be a table with one row per image"):
        cohort(X, np.zeros((20, 2, 2)))
    with pytest.raises(ImageError, match="explain 20 samples fully"):
        cohort(X, np.random.default_rng(0).standard_normal((20, 19)))


def test_confounds_are_checked_before_any_image_is_read(data, monkeypatch):
    X, confounds = data
    monkeypatch.setattr("spcatv.images.spaces.volume.Volume.frames", lambda self: pytest.fail("read"))
    with pytest.raises(ImageError, match="has 19 rows"):
        read_cohort(images(X), confounds=confounds[:-1])


def test_a_voxel_that_the_confounds_explain_is_dropped(data):
    X, confounds = data
    X = X.copy()
    X[:, 7] = 100 + 2 * confounds[:, 0]
    for dtype in ("float32", "float64"):
        with pytest.warns(BadFeatureWarning, match="1 of 60 voxels were dropped .* once the confounds"):
            found = read_cohort(
                images(X), mask=np.ones(SHAPE, bool), confounds=confounds, dtype=dtype, standardize=True
            )
        assert found.dropped.n_explained == found.dropped.n_dropped == 1
        assert found.preparation.confounds.slopes.shape == (2, 59)
        assert np.allclose(found.X.std(axis=0), 1, atol=1e-5)
    with pytest.raises(ImageError, match="1 of 60 voxels cannot be used: 1 are constant once"):
        cohort(X, confounds, bad_features="raise")


def test_blocks_of_rows_do_not_matter(data, monkeypatch):
    X, confounds = data
    table = read_confounds(confounds, ["image"] * N_IMAGES)
    expected = fit_confounds(X, table).slopes
    monkeypatch.setattr("spcatv.images.confounds.row_blocks", lambda shape: [(0, 7), (7, 8), (8, 20)])
    assert np.allclose(fit_confounds(X, table).slopes, expected)


def test_rows_of_a_frame_are_matched_to_files(data, tmp_path):
    """By participant, whose numbers pandas has read as integers, by the index, or by path."""
    X, confounds = data
    files = [tmp_path / f"sub-{number:02d}_map.nii" for number in range(N_IMAGES)]
    for row, file in zip(X, files, strict=True):
        nib.save(nib.Nifti1Image(row.reshape(SHAPE), np.eye(4)), file)
    ages = pd.DataFrame(confounds[:, :1], columns=["age"])
    people = ages.assign(participant_id=range(N_IMAGES)).sample(frac=1, random_state=0)
    more = pd.concat([people, pd.DataFrame({"participant_id": [99], "age": [np.nan]})])
    paths = ages.assign(path=[file.name for file in files])[::-1]
    mask = np.ones(SHAPE, bool)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RowOrderWarning)
        expected = read_cohort(files, mask=mask, confounds=confounds[:, :1], dtype="float64").X
        for table in (people, more, people.set_index("participant_id"), paths):
            found = read_cohort(files, mask=mask, confounds=table, dtype="float64")
            np.testing.assert_array_equal(found.X, expected)
            assert "rows matched by" in found.matched
            assert found.preparation.confounds.columns == ("age",)
    with pytest.raises(ImageError, match="confounds: no row is about sub-05"):
        read_cohort(files, mask=mask, confounds=people[people["participant_id"] != 5])
    with pytest.raises(ImageError, match="confounds: no column is left beside those"):
        read_cohort(files, mask=mask, confounds=people[["participant_id"]])
    with pytest.warns(RowOrderWarning, match="row 1 is taken for sub-00_map.nii"):
        read_cohort(files, mask=mask, confounds=ages)
